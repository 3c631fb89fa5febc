//! Turns: a service gives a packet back before it is done, and goes on with it later, on any core.

use core::any::Any;
use core::fmt;

/// The work that a service has done on a packet so far. It holds all that another instance of the service needs to go
/// on with the packet.
pub type Work = Box<dyn Any + Send>;

/// The turn of a packet at a core.
///
/// A service asks [`Turn::is_over`] at its *yield points*: places at which it can keep its work and go on later. If the
/// turn is over, it keeps the work with [`Turn::keep`] and returns. In the packet's next turn, [`Turn::resume`] returns
/// the work, at this core or another.
///
/// ```
/// use humpyard_services::Turn;
///
/// /// Adds up bytes, 2 at a time. `None`: the turn was over before the last.
/// fn sum(bytes: &[u8], turn: &mut Turn<'_>) -> Option<u64> {
///     let (mut sum, mut at) = turn.resume::<(u64, usize)>().map_or((0, 0), |work| *work);
///     while at < bytes.len() {
///         let piece = &bytes[at..bytes.len().min(at + 2)];
///         sum += piece.iter().map(|&byte| u64::from(byte)).sum::<u64>();
///         at += piece.len();
///         if at < bytes.len() && turn.is_over() {
///             turn.keep(Box::new((sum, at)));
///             return None;
///         }
///     }
///     Some(sum)
/// }
///
/// let over = || true;
/// let mut first = Turn::new(&over, None);
/// assert_eq!(sum(&[1, 2, 3], &mut first), None);
/// assert_eq!(sum(&[1, 2, 3], &mut Turn::new(&over, first.into_work())), Some(6));
/// ```
pub struct Turn<'a> {
    is_over: &'a dyn Fn() -> bool,
    work: Option<Work>,
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("has_work", &self.work.is_some()).finish_non_exhaustive()
    }
}

impl<'a> Turn<'a> {
    /// Returns a turn that ends when `is_over` says so; `work` is what the packet's last turn kept.
    pub fn new(is_over: &'a dyn Fn() -> bool, work: Option<Work>) -> Self {
        Self { is_over, work }
    }

    /// Whether the core should give the packet back now. Reads a clock, which takes some 20 ns: ask about once a
    /// microsecond of work, and only after some work, so that every turn gets on.
    pub fn is_over(&self) -> bool {
        (self.is_over)()
    }

    /// Takes the work of the packet's earlier turns. `None`: this is its first turn.
    ///
    /// # Panics
    /// If the work is of another type: another service has kept it.
    pub fn resume<T: Any>(&mut self) -> Option<Box<T>> {
        let work = self.work.take()?;
        Some(work.downcast().expect("the packet is still at the service that kept the work"))
    }

    /// Keeps the work for the packet's next turn.
    pub fn keep<T: Any + Send>(&mut self, work: Box<T>) {
        self.work = Some(work);
    }

    /// Returns the work that was kept.
    pub fn into_work(self) -> Option<Work> {
        self.work
    }
}
