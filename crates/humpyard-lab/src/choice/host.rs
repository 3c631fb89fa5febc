//! Which driver runs packets, and which time it goes by.

/// Which of the two drivers runs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    /// Virtual time.
    Sim,
    /// Real threads.
    Live,
}

/// The clock of a live run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// That of the machine.
    #[default]
    Real,
    /// The simulator's: services do their work for real, but it takes the time of the cost table. There are no threads.
    Virtual,
}

impl Clock {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Virtual => "virtual",
        }
    }
}
