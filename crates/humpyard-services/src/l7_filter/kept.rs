//! What packets carried, kept for a while.
//!
//! All packets of a part of the table share one room, side by side in the order in which they were handed in, so that what is
//! written is next to what was written last, and only as much memory is touched as there are bytes.

/// Bytes of packets: new ones take the room of those that have been there longest.
pub(super) struct Kept {
    room: Box<[u8]>,
    /// Where the next ones go.
    at: usize,
    /// How many there were in all, with what was left over at the end of the room.
    written: u64,
    /// What was put here before this many is gone.
    gone: u64,
}

impl Kept {
    /// Room for so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { room: vec![0; bytes].into(), at: 0, written: 0, gone: 0 }
    }

    /// Keeps these, which are no more than there is room for; they are found again by the number that it gives.
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

    /// Keeps so many bytes no longer, if they are the last: for what turned out to be there already.
    pub(super) fn take_back(&mut self, start: u64, bytes: u32) {
        if start + u64::from(bytes) == self.written {
            self.written = start;
            self.at -= bytes as usize;
        }
    }

    /// Whether all are there that were put here from this number on.
    #[inline]
    pub(super) const fn has(&self, start: u64) -> bool {
        start >= self.gone
    }

    /// So many bytes by their number; none if others have taken their room.
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
            // What was taken back took room, and at its end less than the longest may be left over.
            let last = last.take_while(|&sum| sum <= 200 - 40 - 40).count();
            for (age, (start, bytes)) in put.iter().rev().enumerate() {
                let found = kept.get(*start, bytes.len() as u32);
                assert!(found == bytes || found.is_empty() && age >= last, "{number} {age}");
            }
        }
        assert!(kept.get(put[900].0, 1).is_empty());
    }
}
