//! Directories for files that an experiment needs while a part runs.
//!
//! A run that is interrupted gives up the parts that are running. So their directories are in a place of the run, which
//! it removes.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

thread_local! {
    /// Where this thread makes directories; `None`: where the system keeps temporary files.
    static PLACE: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Makes a directory that is removed when it is dropped, or when the run is interrupted.
///
/// # Errors
/// If there is no place for it.
pub(crate) fn create() -> io::Result<TempDir> {
    PLACE.with_borrow(|place| match place {
        Some(place) => fs::create_dir_all(place).and_then(|()| tempfile::tempdir_in(place)),
        None => tempfile::tempdir(),
    })
}

/// Makes the directories of this thread in this place from now on.
pub(super) fn make_in(place: &Path) {
    PLACE.set(Some(place.to_owned()));
}
