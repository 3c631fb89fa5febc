//! The indirection table of a network card (RSS): the receive queue of each value of the card's hash.
//!
//! # Source
//! Linux, `include/uapi/linux/ethtool.h`; `Documentation/networking/scaling.rst`, "RSS: Receive Side Scaling". The
//! request of netlink that sets it is of Linux 6.17; this one (ioctl) is what drivers of all kernels have.

use std::io;
use std::os::fd::OwnedFd;

use humpyard_traffic::TrafficError;

use crate::ethtool::ask_driver;
use crate::interface::refused;
use crate::system::socket;

const GET_TABLE: u32 = 0x38;
const SET_TABLE: u32 = 0x39;
/// No card has more entries.
const ENTRIES_MAX: usize = 1 << 12;

/// A table (`struct ethtool_rxfh_indir`).
#[repr(C)]
struct Table {
    command: u32,
    entries: u32,
    queues: [u32; ENTRIES_MAX],
}

/// The indirection table of an interface.
#[derive(Debug)]
pub struct IndirectionTable {
    port: String,
    interface: String,
    asking: OwnedFd,
    entries: usize,
}

impl IndirectionTable {
    /// Finds the table of an interface.
    ///
    /// # Errors
    /// If its driver has none, or one whose entries are no power of two.
    pub fn open(interface: &str) -> Result<Self, TrafficError> {
        let port = format!("rss:{interface}");
        let ask = || {
            let asking = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
            let mut table = empty(GET_TABLE, 0);
            ask_driver(&asking, interface, &mut *table)?;
            Ok((asking, table.entries as usize))
        };
        let (asking, entries) = ask().map_err(|error: io::Error| match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::EINVAL) => TrafficError::unusable(
                &port,
                format!(
                    "the driver of `{interface}` has no indirection table (`ethtool -x {interface}`): take cpumap:"
                ),
            ),
            Some(libc::ENODEV) => TrafficError::unusable(&port, format!("no interface `{interface}`")),
            _ => refused(&port, "asking for the indirection table", &error),
        })?;
        if !entries.is_power_of_two() || entries > ENTRIES_MAX {
            return Err(TrafficError::unusable(
                &port,
                format!("its table has {entries} entries: only a power of two up to {ENTRIES_MAX} can be steered"),
            ));
        }
        Ok(Self { port, interface: interface.to_owned(), asking, entries })
    }

    /// Returns how many entries it has: a frame has that of its hash modulo this.
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the receive queue of each entry.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn read(&self) -> Result<Vec<u32>, TrafficError> {
        let mut table = empty(GET_TABLE, self.entries as u32);
        ask_driver(&self.asking, &self.interface, &mut *table)
            .map_err(|error| refused(&self.port, "reading the indirection table", &error))?;
        Ok(table.queues[..self.entries].to_vec())
    }

    /// Sets the receive queue of each entry.
    ///
    /// # Errors
    /// If the driver refuses it, as it does for queues that are not there.
    ///
    /// # Panics
    /// If there is not a queue for each entry.
    pub fn write(&self, queues: &[u32]) -> Result<(), TrafficError> {
        assert_eq!(queues.len(), self.entries, "a queue for each entry");
        let mut table = empty(SET_TABLE, self.entries as u32);
        table.queues[..self.entries].copy_from_slice(queues);
        ask_driver(&self.asking, &self.interface, &mut *table)
            .map_err(|error| refused(&self.port, "writing the indirection table", &error))
    }
}

fn empty(command: u32, entries: u32) -> Box<Table> {
    Box::new(Table { command, entries, queues: [0; ENTRIES_MAX] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_laid_out_as_the_kernel_reads_it() {
        assert_eq!((core::mem::offset_of!(Table, entries), core::mem::offset_of!(Table, queues)), (4, 8));
    }

    #[test]
    fn an_interface_without_a_table_is_refused_in_a_line() {
        for (interface, expected) in [("lo", "has no indirection table"), ("nowhere", "no interface `nowhere`")] {
            let said = IndirectionTable::open(interface).unwrap_err().to_string();
            assert!(said.contains(expected) && !said.contains('\n'), "{said}");
        }
    }
}
