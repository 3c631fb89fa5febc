//! Giving up privileges once everything that needs them is open.

use caps::CapSet;
use humpyard_traffic::TrafficError;

/// Gives up every capability of the calling thread, and so of all threads that it starts from then on: interfaces stay open,
/// and nothing else of the system can be changed any more. The user stays who it is, and so does what it may read and write.
///
/// # Errors
/// If the system refuses it.
pub fn drop_privileges() -> Result<(), TrafficError> {
    for set in [CapSet::Ambient, CapSet::Effective, CapSet::Inheritable, CapSet::Permitted] {
        caps::clear(None, set)
            .map_err(|error| TrafficError::usage(format!("privileges cannot be given up: {error}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn afterwards_nothing_is_left() {
        let after = std::thread::spawn(|| {
            drop_privileges().unwrap();
            caps::read(None, CapSet::Permitted).unwrap().len() + caps::read(None, CapSet::Effective).unwrap().len()
        });
        assert_eq!(after.join().unwrap(), 0);
    }
}
