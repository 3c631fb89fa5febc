//! Service errors, exactly.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::BuildError;
use humpyard_core::unit::Weight;

/// An exact quotient in lowest terms, with a positive denominator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fraction {
    /// Above the line.
    pub numerator: i128,
    /// Below the line.
    pub denominator: i128,
}

impl Fraction {
    fn new(numerator: i128, denominator: i128) -> Self {
        let divisor = greatest_common_divisor(numerator.unsigned_abs(), denominator.unsigned_abs()) as i128;
        Self { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    /// As a real number.
    pub fn value(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

impl core::fmt::Display for Fraction {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.denominator == 1 {
            write!(f, "{}", self.numerator)
        } else {
            write!(f, "{}/{}", self.numerator, self.denominator)
        }
    }
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { greatest_common_divisor(b, a % b) }
}

/// Rejects runs whose service errors may not fit into 64 bits: too much work for this sum of
/// weights.
pub(super) fn check_bounds(total_weight: u64, work: u64) -> Result<(), BuildError> {
    let fits = total_weight.checked_mul(work).is_some_and(|product| i64::try_from(product).is_ok());
    if fits {
        return Ok(());
    }
    Err(BuildError::too_large(format!(
        "service errors are exact while all work times the sum of the weights stays below 2^63: {work} times {total_weight} \
         is more; have fewer slots, or lower weights"
    )))
}

/// A service error, and where it first occurred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peak {
    /// The error, times the sum of the weights.
    pub(super) scaled: i64,
    /// The client with the error.
    pub(super) client: ClientId,
    /// Slots before the error.
    pub(super) slots: u64,
}

impl Peak {
    /// Everybody's error before the first slot.
    const START: Self = Self { scaled: 0, client: ClientId(0), slots: 0 };
}

#[derive(Clone, Copy, Debug)]
struct Client {
    /// Its service, times the sum of the weights.
    scaled_service: i64,
    weight: u32,
}

/// Exact service errors, all multiplied by the total weight. A client's error falls while others
/// are served and rises when it is served. So it is least just before a service and greatest just
/// after, and no other client need be checked.
#[derive(Debug)]
pub(super) struct Errors {
    clients: Vec<Client>,
    total_weight: i64,
    total_service: i64,
    slots: u64,
    least: Peak,
    greatest: Peak,
}

impl Errors {
    /// Returns the errors of clients with these weights before any service. [`check_bounds`] limits
    /// the work.
    pub(super) fn new(weights: &[Weight]) -> Self {
        let clients: Vec<Client> =
            weights.iter().map(|weight| Client { scaled_service: 0, weight: weight.get() }).collect();
        let total_weight = clients.iter().map(|client| i64::from(client.weight)).sum();
        Self { clients, total_weight, total_service: 0, slots: 0, least: Peak::START, greatest: Peak::START }
    }

    #[inline]
    fn of(&self, client: ClientId) -> i64 {
        let Client { scaled_service, weight } = self.clients[client.index()];
        scaled_service - self.total_service * i64::from(weight)
    }

    /// Gives each of these clients one unit of work in the next slot.
    #[inline]
    pub(super) fn on_slot(&mut self, served: &[ClientId]) {
        for &client in served {
            self.look_for_least(client);
        }
        for client in served {
            self.clients[client.index()].scaled_service += self.total_weight;
        }
        self.total_service += served.len() as i64;
        self.slots += 1;
        for &client in served {
            self.look_for_greatest(client);
        }
    }

    #[inline]
    fn look_for_least(&mut self, client: ClientId) {
        let scaled = self.of(client);
        if scaled < self.least.scaled {
            self.least = Peak { scaled, client, slots: self.slots };
        }
    }

    #[inline]
    fn look_for_greatest(&mut self, client: ClientId) {
        let scaled = self.of(client);
        if scaled > self.greatest.scaled {
            self.greatest = Peak { scaled, client, slots: self.slots };
        }
    }

    /// Returns the least and the greatest error so far; of equals the first.
    pub(super) fn extremes(mut self) -> [Peak; 2] {
        for client in (0..self.clients.len()).map(ClientId::from_index) {
            self.look_for_least(client);
            self.look_for_greatest(client);
        }
        [self.least, self.greatest]
    }

    /// Returns the unscaled error.
    pub(super) fn exact(scaled: i64, total_weight: u64) -> Fraction {
        Fraction::new(i128::from(scaled), i128::from(total_weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(weights: &[u32]) -> Vec<Weight> {
        weights.iter().map(|&weight| Weight::new(weight).unwrap()).collect()
    }

    /// Computes the error of every client after every slot, by its definition.
    fn by_definition(weights: &[u32], served: &[Vec<u32>]) -> [(i64, u32, u64); 2] {
        let total: i64 = weights.iter().map(|&weight| i64::from(weight)).sum();
        let (mut least, mut greatest) = ((0, 0, 0), (0, 0, 0));
        let (mut service, mut all) = (vec![0i64; weights.len()], 0i64);
        for (slot, served) in served.iter().enumerate() {
            for &client in served {
                service[client as usize] += 1;
                all += 1;
            }
            for (client, &weight) in weights.iter().enumerate() {
                let error = service[client] * total - all * i64::from(weight);
                least = if error < least.0 { (error, client as u32, slot as u64 + 1) } else { least };
                greatest = if error > greatest.0 { (error, client as u32, slot as u64 + 1) } else { greatest };
            }
        }
        [least, greatest]
    }

    #[test]
    fn looking_at_the_served_alone_finds_the_extremes_of_all() {
        let mut random = humpyard_core::random::Seed(1).stream("errors");
        for _ in 0..200 {
            let numbers: Vec<u32> = (0..1 + random.below(6)).map(|_| 1 + random.below(20) as u32).collect();
            let processors = 1 + random.below(numbers.len() as u64);
            let served: Vec<Vec<u32>> = (0..random.below(60))
                .map(|_| {
                    let mut slot: Vec<u32> =
                        (0..processors).map(|_| random.below(numbers.len() as u64) as u32).collect();
                    slot.sort_unstable();
                    slot.dedup();
                    slot
                })
                .collect();
            let mut errors = Errors::new(&weights(&numbers));
            for slot in &served {
                errors.on_slot(&slot.iter().map(|&client| ClientId(client)).collect::<Vec<_>>());
            }
            let found = errors.extremes().map(|peak| (peak.scaled, peak.slots));
            let expected = by_definition(&numbers, &served).map(|(error, _, slots)| (error, slots));
            assert_eq!(found, expected, "{numbers:?} {served:?}");
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        assert_eq!(check_bounds(1 << 18, 1 << 18), Ok(()));
        assert_eq!(check_bounds(7, i64::MAX as u64 / 7), Ok(()));
        assert_eq!(check_bounds(u64::MAX, 0), Ok(()));
        for (total, work) in [(7, i64::MAX as u64 / 7 + 1), (1 << 32, 1 << 31), (1 << 32, 1 << 32), (u64::MAX, 2)] {
            let refused = check_bounds(total, work).unwrap_err().to_string();
            assert!(refused.contains("have fewer slots"), "{refused}");
        }
    }

    /// At the limit of 64 bits: the heaviest client gets nothing until its error is the least
    /// possible.
    #[test]
    fn errors_are_exact_up_to_the_bound() {
        let weights = weights(&[u32::MAX, 1]);
        let (total, half) = (1u64 << 32, 1u64 << 30);
        assert_eq!(check_bounds(total, 2 * half - 1), Ok(()));
        let mut errors = Errors::new(&weights);
        errors.total_service = half as i64;
        errors.clients[1].scaled_service = (half * total) as i64;
        errors.on_slot(&[ClientId(0)]);
        let [least, greatest] = errors.extremes();
        assert_eq!(i128::from(least.scaled), -i128::from(half) * i128::from(u32::MAX));
        assert_eq!(i128::from(greatest.scaled), i128::from(half) * i128::from(total) - i128::from(half) - 1);
    }

    #[test]
    fn fractions_are_in_lowest_terms() {
        for (scaled, total, text) in [(-45, 24, "-15/8"), (48, 24, "2"), (0, 7, "0"), (7, 7, "1")] {
            assert_eq!(Errors::exact(scaled, total).to_string(), text);
        }
    }
}
