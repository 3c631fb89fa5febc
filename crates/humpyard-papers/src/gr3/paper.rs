//! The paper.

/// The paper.
pub(crate) const PAPER: &str = "Caprita, Chan, Nieh, Stein, Zheng. Group ratio round-robin: O(1) proportional share \
    scheduling for uniprocessor and multiprocessor systems. USENIX ATC 2005";
