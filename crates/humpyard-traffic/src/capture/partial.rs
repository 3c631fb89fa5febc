//! Files that get their name only when they are complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Most links followed in a row.
const LINKS_MAX: usize = 40;

/// A file being written, under a hidden name in its final directory. It is removed if it is dropped before it
/// is finished.
#[derive(Debug)]
pub struct PartialFile {
    temporary: NamedTempFile,
    destination: PathBuf,
}

impl PartialFile {
    /// Starts the file that will have this name. If the name is a link, the file is the link's target.
    ///
    /// # Errors
    /// If it cannot be created there, or cannot be renamed. The text names a remedy, but not `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let destination = destination(path)?;
        Ok(Self { temporary: temporary_beside(&destination)?, destination })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn finish(self) -> io::Result<()> {
        self.temporary.persist(self.destination).map_err(|error| error.error).map(drop)
    }

    /// Like [`Self::finish`]; the file and its name survive a later power failure.
    ///
    /// # Errors
    /// If it cannot be renamed, or not synced to the disk.
    pub fn finish_lasting(self) -> io::Result<()> {
        self.temporary.as_file().sync_all()?;
        let directory = parent(&self.destination).to_owned();
        self.finish()?;
        sync_directory(&directory)
    }
}

/// Syncs the names in a directory to the disk. File systems that cannot sync a directory do it by themselves.
///
/// # Errors
/// If the directory cannot be read, or the disk fails.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match File::open(path)?.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Returns the directory of a file.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Writes to the file itself, whose errors do not contain the hidden name.
        File::write(self.temporary.as_file_mut(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        File::flush(self.temporary.as_file_mut())
    }
}

/// Follows links to the final path, which need not exist.
///
/// # Errors
/// If there are too many links.
pub fn destination(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&place) else { return Ok(place) };
        place = place.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(io::Error::other("links lead from one to the other without end; name a file"))
}

/// Creates a file with a hidden name in the directory of `path`.
fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = parent(path);
    if path.file_name().is_none() || path.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "this is no name of a file; name a file in a directory that there is",
        ));
    }
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "there is a device or a pipe of this name; name a file",
        ));
    }
    make_temporary(directory).map_err(|error| {
        let directory = directory.display();
        let reason = match error.kind() {
            io::ErrorKind::NotFound if !path.parent().is_some_and(Path::is_dir) => {
                format!("the directory {directory} does not exist; make it, or name another")
            }
            io::ErrorKind::NotFound => {
                format!("the directory {directory} takes no files; name another")
            }
            io::ErrorKind::NotADirectory => {
                format!("{directory} is a file, no directory; name another")
            }
            io::ErrorKind::PermissionDenied => {
                format!("no permission to make files in the directory {directory}; name another")
            }
            kind => format!("in the directory {directory}: {kind}"),
        };
        io::Error::new(error.kind(), reason)
    })
}

fn make_temporary(directory: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".humpyard-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The user's umask applies as for any new file.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn links_stay_and_lead_to_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("there")).unwrap();
        fs::write(at("there/old"), "before").unwrap();
        // A link to another link, to a file that exists or not.
        for (target, name) in [("there/old", "old"), ("there/new", "new")] {
            let (link, other) = (at("link"), at("other"));
            symlink("other", &link).unwrap();
            symlink(target, &other).unwrap();
            let mut file = PartialFile::create(&link).unwrap();
            file.write_all(b"after").unwrap();
            assert_eq!(names(directory.path()), ["link", "other", "there"], "it is made where it will be");
            file.finish().unwrap();
            assert!(
                fs::symlink_metadata(&link).unwrap().is_symlink() && fs::symlink_metadata(&other).unwrap().is_symlink()
            );
            assert_eq!(fs::read_to_string(at("there").join(name)).unwrap(), "after");
            fs::remove_file(link).unwrap();
            fs::remove_file(other).unwrap();
        }
        assert_eq!(names(&at("there")), ["new", "old"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        symlink("b", at("a")).unwrap();
        symlink("a", at("b")).unwrap();
        assert!(PartialFile::create(&at("a")).unwrap_err().to_string().contains("without end"));
        symlink("missing/file", at("c")).unwrap();
        assert!(PartialFile::create(&at("c")).unwrap_err().to_string().contains("does not exist"));
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = PartialFile::create(&directory.path().join("file")).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert!(names(directory.path()).is_empty());
    }
}
