//! Sets of matching signatures, and their result for a packet.

use super::table::Table;

/// The set of matching signatures, by index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Matched {
    words: Box<[u64]>,
}

/// The result of the matching signatures for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// No signature matches.
    Nothing,
    /// The packet has this protocol.
    Protocol(u8),
    /// This signature matches, but needs several datagrams in a row.
    Maybe(u16),
}

impl Matched {
    /// Returns an empty set, with room for this many signatures.
    pub(super) fn new(signatures: usize) -> Self {
        Self { words: vec![0; signatures.div_ceil(64)].into() }
    }

    #[inline]
    pub(super) fn insert(&mut self, signature: usize) {
        self.words[signature / 64] |= 1 << (signature % 64);
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns its members, in the order of the table.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let next = |word: &u64| Some(word & (word - 1)).filter(|&rest| rest != 0);
            core::iter::successors(Some(word).filter(|&word| word != 0), next)
                .map(move |word| at * 64 + word.trailing_zeros() as usize)
        })
    }

    /// Returns the result for a packet between these ports: the first certain signature of the table, else the
    /// first one.
    #[inline]
    pub(super) fn says(&self, table: &Table, ports: (u16, u16)) -> Said {
        let mut said = Said::Nothing;
        for number in self.iter() {
            let signature = &table.signatures[number];
            if !signature.is_at(ports) {
                continue;
            }
            if signature.times <= 1 {
                return Said::Protocol(signature.protocol);
            }
            if said == Said::Nothing {
                said = Said::Maybe(number as u16);
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_order() {
        let mut matched = Matched::new(130);
        [129, 0, 64, 63].into_iter().for_each(|member| matched.insert(member));
        assert_eq!(matched.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        matched.clear();
        assert_eq!(matched.iter().next(), None);
    }
}
