//! What a packet costs, as a straight line in its length.

/// The work of a packet: a fixed part, a part per byte, and what a cold core adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinearCost {
    /// Work of a packet of no length.
    pub fixed: u64,
    /// Work per byte, in thousandths.
    pub per_byte_milli: u64,
    /// Work added when the core's previous packet had another service.
    pub cold: u64,
}

impl LinearCost {
    /// One unit of work per byte.
    pub const BYTES: Self = Self { fixed: 0, per_byte_milli: 1000, cold: 0 };
    /// One unit of work per packet.
    pub const PACKETS: Self = Self { fixed: 1, per_byte_milli: 0, cold: 0 };

    /// The work of a packet of `length` bytes on a warm core, at least 1.
    #[inline]
    pub const fn work(&self, length: u32) -> u64 {
        let work = self.fixed + self.per_byte_milli * length as u64 / 1000;
        if work == 0 { 1 } else { work }
    }

    /// The work of a packet of `length` bytes on a core that is cold or not. It stops at the largest number there is.
    #[inline]
    pub const fn total(&self, length: u32, cold: bool) -> u64 {
        self.work(length).saturating_add(if cold { self.cold } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_linear_and_never_free() {
        let cost = LinearCost { fixed: 320_000, per_byte_milli: 1_300_000, cold: 0 };
        assert_eq!(cost.work(500), 970_000);
        let cold = LinearCost { cold: 170_000, ..cost };
        assert_eq!((cold.total(500, false), cold.total(500, true)), (970_000, 1_140_000));
        assert_eq!(LinearCost { cold: u64::MAX, ..cost }.total(1, true), u64::MAX);
        assert_eq!(LinearCost::BYTES.work(64), 64);
        assert_eq!(LinearCost::PACKETS.work(64), 1);
        assert_eq!(LinearCost::default().work(64), 1);
    }
}
