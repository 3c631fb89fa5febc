//! Counts of verdicts over all instances: after a packet was overtaken, one instance may take back another's
//! count.

use std::sync::atomic::{AtomicU64, Ordering};

use super::connections::State;

/// Connections by verdict: no match, and each protocol.
#[derive(Debug)]
pub(super) struct Tally {
    no_match: AtomicU64,
    found: Box<[AtomicU64]>,
}

impl Tally {
    /// Returns zero counts, for this many protocols.
    pub(super) fn new(protocols: usize) -> Self {
        Self { no_match: AtomicU64::new(0), found: (0..protocols).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts a changed verdict.
    pub(super) fn change(&self, before: State, now: State) {
        if let Some(count) = self.of(before) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(count) = self.of(now) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn of(&self, state: State) -> Option<&AtomicU64> {
        match state {
            State::New | State::Open => None,
            State::NoMatch => Some(&self.no_match),
            State::Found(protocol) => Some(&self.found[usize::from(protocol)]),
        }
    }

    /// Takes over the counts of another tally.
    pub(super) fn take(&self, from: &Self) {
        let pairs = core::iter::once((&self.no_match, &from.no_match)).chain(self.found.iter().zip(&from.found));
        for (own, other) in pairs {
            // A count that was taken over here and then taken back there is negative, and stays there.
            let counted = |count: u64| (0 < count && count < 1 << 63).then_some(0);
            if let Ok(count) = other.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted) {
                own.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Returns the connections without a match, and those of each protocol.
    pub(super) fn counts(&self) -> (u64, impl Iterator<Item = u64>) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.no_match), self.found.iter().map(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_twice_and_nothing_is_lost() {
        let (shared, one, other) = (Tally::new(2), Tally::new(2), Tally::new(2));
        shared.change(State::Open, State::Found(1));
        shared.change(State::Open, State::NoMatch);
        one.take(&shared);
        shared.change(State::NoMatch, State::Found(0));
        shared.change(State::Open, State::NoMatch);
        shared.change(State::Open, State::NoMatch);
        other.take(&shared);
        one.take(&shared);
        let counts = |tally: &Tally| (tally.counts().0, tally.counts().1.collect::<Vec<_>>());
        assert_eq!(counts(&one), (1, vec![0, 1]));
        assert_eq!(counts(&other), (1, vec![1, 0]));
    }
}
