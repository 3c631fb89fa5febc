//! Keeps payloads of packets for a while.
//!
//! All packets of a part of the table share one ring of bytes, in the order in which they were handed in. New
//! bytes are next to the latest ones, and only as much memory is touched as there are bytes.

/// Payloads of packets. New bytes overwrite the oldest ones.
pub(super) struct Kept {
    room: Box<[u8]>,
    /// Where the next bytes go.
    at: usize,
    /// Bytes written in all, including those skipped at the end of the ring.
    written: u64,
    /// Bytes written before this count are overwritten.
    gone: u64,
}

impl Kept {
    /// Returns a ring of this many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { room: vec![0; bytes].into(), at: 0, written: 0, gone: 0 }
    }

    /// Keeps these bytes, which must fit into the ring. Returns a number to find them.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) -> u64 {
        let left = self.room.len() - self.at;
        if bytes.len() > left {
            self.written += left as u64;
            self.at = 0;
        }
        let start = self.written;
        self.room[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self.written += bytes.len() as u64;
        self.gone = self.gone.max(self.written.saturating_sub(self.room.len() as u64));
        start
    }

    /// Removes these bytes, if they are the latest ones: for bytes that turn out to be duplicates.
    pub(super) fn take_back(&mut self, start: u64, bytes: u32) {
        if start + u64::from(bytes) == self.written {
            self.written = start;
            self.at -= bytes as usize;
        }
    }

    /// Returns whether all bytes from this number on are still there.
    #[inline]
    pub(super) const fn has(&self, start: u64) -> bool {
        start >= self.gone
    }

    /// Returns bytes by their number; empty if they are overwritten.
    #[inline]
    pub(super) fn get(&self, start: u64, bytes: u32) -> &[u8] {
        if !self.has(start) {
            return &[];
        }
        let at = (start % self.room.len() as u64) as usize;
        &self.room[at..at + bytes as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_what_was_put_and_the_last_is_there() {
        let mut kept = Kept::new(200);
        let mut put: Vec<(u64, Vec<u8>)> = Vec::new();
        for number in 0..1000_usize {
            let bytes = vec![number as u8; number * 7 % 41];
            put.push((kept.put(&bytes), bytes));
            let again = kept.put(&[0xff; 40]);
            kept.take_back(again, 40);
            let last = put.iter().rev().scan(0, |sum, (_, bytes)| {
                *sum += bytes.len();
                Some(*sum)
            });
            // Removed bytes took room, and up to the longest payload may be skipped at the end of the ring.
            let last = last.take_while(|&sum| sum <= 200 - 40 - 40).count();
            for (age, (start, bytes)) in put.iter().rev().enumerate() {
                let found = kept.get(*start, bytes.len() as u32);
                assert!(found == bytes || found.is_empty() && age >= last, "{number} {age}");
            }
        }
        assert!(kept.get(put[900].0, 1).is_empty());
    }
}
