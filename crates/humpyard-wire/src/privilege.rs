//! Giving up privileges once everything that needs them is open.

use caps::{CapSet, Capability, CapsHashSet};
use humpyard_traffic::TrafficError;
use humpyard_traffic::source::QUEUE;

/// Gives up every capability of the calling thread, and so of all threads that it starts from then on: interfaces stay open,
/// and nothing else of the system can be changed any more. The user stays who it is, and so does what it may read and write.
///
/// A queue of the kernel among the `inputs` keeps CAP_NET_ADMIN, for the kernel asks for it at every verdict.
///
/// # Errors
/// If the system refuses it.
pub fn drop_privileges(inputs: &[String]) -> Result<(), TrafficError> {
    let has_queues = inputs.iter().any(|input| input.starts_with(QUEUE));
    keep_only(&has_queues.then_some(Capability::CAP_NET_ADMIN).into_iter().collect())
}

/// Gives up every capability of the calling thread but CAP_NET_ADMIN.
///
/// # Errors
/// If the system refuses it.
pub(crate) fn keep_only_network_administration() -> Result<(), TrafficError> {
    keep_only(&CapsHashSet::from([Capability::CAP_NET_ADMIN]))
}

fn keep_only(kept: &CapsHashSet) -> Result<(), TrafficError> {
    let give_up = || {
        caps::clear(None, CapSet::Ambient)?;
        caps::clear(None, CapSet::Inheritable)?;
        caps::set(None, CapSet::Effective, kept)?;
        caps::set(None, CapSet::Permitted, kept)
    };
    give_up().map_err(|error| TrafficError::usage(format!("privileges cannot be given up: {error}")))
}

/// Whether this thread may give the kernel programs, as [`open_fanned_out`](crate::open_fanned_out) does.
pub fn may_share() -> bool {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    has(Capability::CAP_BPF) || has(Capability::CAP_SYS_ADMIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn afterwards_nothing_is_left() {
        let after = std::thread::spawn(|| {
            drop_privileges(&["iface:eth0".to_owned()]).unwrap();
            caps::read(None, CapSet::Permitted).unwrap().len() + caps::read(None, CapSet::Effective).unwrap().len()
        });
        assert_eq!(after.join().unwrap(), 0);
    }
}
