//! Temporary directories for the files of a running part.
//!
//! An interrupted run abandons its running parts. So their directories are inside a directory of the run, which
//! the run removes.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

thread_local! {
    /// The parent of this thread's directories. `None`: the system's directory for temporary files.
    static PLACE: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Creates a directory that is removed when it is dropped, or when the run is interrupted.
///
/// # Errors
/// If it cannot be created.
pub(crate) fn create() -> io::Result<TempDir> {
    PLACE.with_borrow(|place| match place {
        Some(place) => fs::create_dir_all(place).and_then(|()| tempfile::tempdir_in(place)),
        None => tempfile::tempdir(),
    })
}

/// Sets the parent of this thread's directories.
pub(super) fn make_in(place: &Path) {
    PLACE.set(Some(place.to_owned()));
}
