//! Files of text that people write, read up to a limit.

use std::fs::File;
use std::io::{self, Read};

/// The most bytes that are read of a file of text.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Reads a file of text: a configuration, costs, a topology, rules.
///
/// # Errors
/// As [`std::fs::read_to_string`], and [`io::ErrorKind::FileTooLarge`] for more than [`TEXT_BYTES_MAX`], which a device may have without end.
pub fn read_text(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        let said = format!("it is longer than {} MiB, the most that is read", TEXT_BYTES_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, said));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let said = read_text("/dev/zero").unwrap_err();
        assert_eq!(said.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(said.to_string(), "it is longer than 64 MiB, the most that is read");
    }

    #[test]
    fn a_file_is_read_as_it_is() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("policy = \"drr\"\n".as_bytes()).unwrap();
        assert_eq!(read_text(file.path().to_str().unwrap()).unwrap(), "policy = \"drr\"\n");
        assert_eq!(read_text("/no/such").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
