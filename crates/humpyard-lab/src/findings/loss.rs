//! Who lost packets, how many, and why.

use super::facts::{FEW, Facts, OVERLOAD, Place, PolicyFacts, RunFacts};
use super::hot::{FULL, hot};
use super::split::Figure;
use super::words::{fraction, list, names, part, sentence};
use super::{Finding, Topic};
use crate::bottleneck::{FULL as FULL_READER, READER_REMEDY, remedy, simulated_remedy};
use crate::figures::{bit_rate, percent, time};
use crate::recommend::capital;

/// Loss beyond what overload makes unavoidable by this factor has another cause.
const BEYOND: f64 = 1.5;
/// Late packets, of all, that a policy without loss must be told of.
const MANY_LATE: f64 = 0.1;
/// Cores that switch for this part of their time lose it.
const SWITCHING: f64 = 0.1;
/// From this part of the greatest loss on, all policies lose most of it.
const COMMON: f64 = 0.5;

fn loss(policy: &PolicyFacts) -> f64 {
    policy.median(RunFacts::lost)
}

/// The loss of a policy that counts: the median, or the most where most repetitions have none.
fn weight(policy: &PolicyFacts) -> f64 {
    let median = loss(policy);
    if median > 0.0 { median } else { policy.greatest(RunFacts::lost) }
}

/// Whether a dispatcher was the bottleneck in most runs of a policy.
fn is_dispatcher_full(policy: &PolicyFacts) -> bool {
    policy.median(|run| f64::from(u8::from(run.is_dispatcher_full))) > 0.5
}

fn dispatcher_busy(policy: &PolicyFacts) -> f64 {
    policy.median(|run| run.dispatchers.iter().copied().fold(0.0, f64::max))
}

fn reader_busy(policy: &PolicyFacts) -> f64 {
    policy.median(|run| run.reader.unwrap_or(0.0))
}

/// Why a policy lost packets.
fn cause(facts: &Facts, policy: &PolicyFacts) -> Topic {
    let switching = policy.median(|run| run.switching(facts.switch_cost_ns));
    let busy = policy.median(RunFacts::busy_mean);
    if policy.median(|run| run.link.map_or(0.0, |link| link.used)) >= FULL {
        Topic::Link
    } else if policy.lost_at(&[Place::Output]) >= 0.5 {
        Topic::Output
    } else if is_dispatcher_full(policy) {
        Topic::Dispatcher
    } else if facts.held(policy).is_some() {
        Topic::Imbalance
    } else if is_overload(facts, policy) {
        Topic::Overload
    } else if switching >= SWITCHING && busy + switching >= FULL {
        Topic::Switching
    } else if hot(policy).is_some() {
        Topic::Imbalance
    } else if policy.lost_at(&[Place::Client, Place::Queue]) >= 0.5 {
        Topic::Limit
    } else if facts.shared {
        Topic::Shared
    } else if policy.lost_at(&[Place::Input]) >= 0.5 {
        Topic::Input
    } else {
        Topic::Bursts
    }
}

/// Whether a policy lost what the load makes unavoidable; more than that is its own doing where it left cores idle.
fn is_overload(facts: &Facts, policy: &PolicyFacts) -> bool {
    match facts.load {
        Some(load) => {
            let unavoidable = 1.0 - 1.0 / load;
            load >= OVERLOAD && (hot(policy).is_none() || weight(policy) <= BEYOND * unavoidable)
        }
        None => policy.median(RunFacts::busy_mean) >= FULL && policy.lost_at(&[Place::Client, Place::Queue]) < 0.5,
    }
}

/// The dispatcher as the bottleneck, whether packets are lost or not.
pub(super) fn dispatcher(facts: &Facts) -> Vec<Finding> {
    let full: Vec<&PolicyFacts> = facts.policies.iter().filter(|policy| is_dispatcher_full(policy)).collect();
    if full.is_empty() {
        return Vec::new();
    }
    let most = |of: &dyn Fn(&PolicyFacts) -> f64| full.iter().map(|policy| of(policy)).fold(0.0, f64::max);
    let lossy: Vec<&PolicyFacts> = full.iter().copied().filter(|policy| weight(policy) >= FEW).collect();
    let lost = if lossy.is_empty() { String::new() } else { format!(" {}.", sentence(&facts.lost(&lossy))) };
    let dispatcher = part(most(&dispatcher_busy));
    let worker = part(most(&|policy| policy.busy_by_rank().first().copied().unwrap_or(0.0)));
    let worker = match (facts.cores, facts.on_assumed_host) {
        (0, _) => format!("{worker} with the services' work"),
        (_, true) => format!("the busiest core {worker}"),
        (_, false) => format!("the busiest worker {worker}"),
    };
    let dispatchers = full.iter().flat_map(|policy| &policy.runs).map(|run| run.dispatchers.len()).max().unwrap_or(1);
    let remedy = if facts.on_assumed_host {
        capital(&simulated_remedy(facts.cores, dispatchers))
    } else {
        format!("Try {}", remedy(facts.cores, dispatchers))
    };
    let name = if dispatchers > 1 && facts.on_assumed_host { "The busiest dispatcher" } else { "The dispatcher" };
    let text = match most(&reader_busy) {
        busy if busy > FULL_READER => format!(
            "The reader of all dispatchers is the bottleneck: it was busy {} of the time, {worker}.{lost} {}.",
            part(busy),
            capital(READER_REMEDY)
        ),
        _ => format!("{name} is the bottleneck: it was busy {dispatcher} of the time, {worker}.{lost} {remedy}."),
    };
    vec![Finding::new(Topic::Dispatcher, text)]
}

/// Loss, by cause: first the one that all policies lose most by, then from the greatest. A lack of processors has its own rule.
pub(super) fn lost(facts: &Facts) -> Vec<Finding> {
    let lossy: Vec<&PolicyFacts> = facts.policies.iter().filter(|policy| is_lossy(facts, policy)).collect();
    let common = common(facts);
    let mut causes: Vec<Topic> = common.into_iter().collect();
    for cause in by_loss(&lossy).into_iter().map(|policy| cause(facts, policy)) {
        if cause != Topic::Dispatcher && !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    let before = if facts.is_starved() { Some(Topic::Shared) } else { causes.first().copied() };
    let said = causes.iter().map(|&cause| {
        let is_of_cause = |policy: &&PolicyFacts| Some(cause) == common || self::cause(facts, policy) == cause;
        let group: Vec<&PolicyFacts> = lossy.iter().copied().filter(is_of_cause).collect();
        // What comes first does so whatever its cause.
        let topic = before.map_or(cause, |before| cause.max(before));
        Finding::new(topic, facts.say_loss(cause, &group))
    });
    said.collect()
}

/// Whether a policy lost packets, and not for want of a processor.
fn is_lossy(facts: &Facts, policy: &PolicyFacts) -> bool {
    weight(policy) >= FEW && !facts.lacked_processor(policy)
}

/// These policies by loss, the greatest first.
fn by_loss<'a>(policies: &[&'a PolicyFacts]) -> Vec<&'a PolicyFacts> {
    let mut sorted = policies.to_vec();
    sorted.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    sorted
}

/// The cause for which even the policy with the least loss loses most of what another loses. `None`: there is none, or it is the
/// policies' own doing.
fn common(facts: &Facts) -> Option<Topic> {
    let sorted = by_loss(&facts.all());
    let (most, least) = (sorted.first()?, sorted.last()?);
    let is_common = is_lossy(facts, least) && weight(least) >= COMMON * weight(most) && !facts.is_starved();
    let cause = cause(facts, least);
    (is_common && !matches!(cause, Topic::Imbalance | Topic::Dispatcher)).then_some(cause)
}

impl Facts {
    /// `drr lost 2 % of the packets`, of several with the range and how sure that is.
    fn lost(&self, group: &[&PolicyFacts]) -> String {
        let range = self.range(group, Figure::Lost);
        format!("{} lost {range} of the packets{}", self.who(group), self.range_caveat(group, Figure::Lost))
    }

    fn say_loss(&self, cause: Topic, group: &[&PolicyFacts]) -> String {
        let lost = self.lost(group);
        let mean = |of: &dyn Fn(&PolicyFacts) -> f64| {
            group.iter().map(|policy| of(policy)).sum::<f64>() / group.len().max(1) as f64
        };
        let busy = format!("{} busy", part(mean(&|policy| policy.median(RunFacts::busy_mean))));
        match cause {
            Topic::Overload => match self.load {
                Some(load) => format!("The cores are overloaded: the offered load is {load:.2}, and {lost}."),
                None => format!("The cores are overloaded ({busy}): {lost}."),
            },
            Topic::Link => {
                let link = group.iter().flat_map(|policy| &policy.runs).find_map(|run| run.link);
                let used = mean(&|policy| policy.median(|run| run.link.map_or(0.0, |link| link.used)));
                let rate = bit_rate(link.map_or(0.0, |link| link.bps));
                format!("The link is the bottleneck: its {rate} were {} used, and {lost}.", part(used))
            }
            Topic::Output => format!("The output took no more: {lost} there, with cores {busy}."),
            Topic::Input => format!("The input lost packets before they were taken: {lost}, with cores {busy}."),
            Topic::Switching => {
                let of_time = mean(&|policy| policy.median(|run| run.switching(self.switch_cost_ns)));
                format!(
                    "Switching services took {} of the cores' time ({:.0} switches of {}), and {lost}.",
                    part(of_time),
                    mean(&|policy| policy.median(|run| run.switches as f64)),
                    time(self.switch_cost_ns as f64).replace(".0 ", " ")
                )
            }
            Topic::Imbalance => match group.iter().find_map(|policy| self.held(policy)) {
                Some(held) => format!("{held}, and {lost}. {}", self.hold_remedy()),
                None => self.say_imbalance(group),
            },
            Topic::Limit => {
                let client = mean(&|policy| policy.lost_at(&[Place::Client])) >= 0.5;
                let (limit, who) = if client { (self.client_limit, "client") } else { (self.queue_limit, "queue") };
                let limit = limit.unwrap_or_default();
                format!("The limit of {limit} packets a {who} was reached: {lost}, with cores {busy}.")
            }
            Topic::Shared => format!("Threads shared processors: {lost}, with workers {busy}."),
            _ => format!(
                "Bursts overran the buffer of {} packets{}: {lost}, with cores {busy}.",
                self.buffer,
                self.sometimes(group)
            ),
        }
    }

    /// In how many repetitions packets were lost, where most have no loss.
    fn sometimes(&self, group: &[&PolicyFacts]) -> String {
        if group.iter().any(|policy| loss(policy) > 0.0) {
            return String::new();
        }
        let lossy = |policy: &&PolicyFacts| policy.runs.iter().filter(|run| run.lost() > 0.0).count();
        let most = group.iter().map(lossy).max().unwrap_or(0);
        format!(" in {most} of {} repetitions", self.whole_repetitions())
    }

    /// What the other policies lost: `; rr lost none in this one run`.
    pub(super) fn against(&self, group: &[&PolicyFacts]) -> String {
        let others: Vec<&PolicyFacts> =
            self.policies.iter().filter(|policy| group.iter().all(|one| !core::ptr::eq(*one, *policy))).collect();
        if others.is_empty() {
            return self.range_caveat(group, Figure::Lost);
        }
        let mut said: Vec<(String, Vec<&PolicyFacts>)> = Vec::new();
        for policy in &others {
            let lost = if weight(policy) == 0.0 { self.lost_none(policy) } else { fraction(policy, RunFacts::lost) };
            match said.iter_mut().find(|(same, _)| *same == lost) {
                Some((_, policies)) => policies.push(policy),
                None => said.push((lost, vec![policy])),
            }
        }
        let said: Vec<String> =
            said.iter().map(|(lost, policies)| format!("{} lost {lost}", names(policies))).collect();
        format!("; {}{}", list(&said), self.sure(Figure::Lost, &others, group).caveat())
    }

    /// `none`, or that many were late all the same.
    fn lost_none(&self, policy: &PolicyFacts) -> String {
        let late = policy.median(|run| run.late);
        if late < MANY_LATE {
            return "none".to_owned();
        }
        format!("none, but finished {} later than {}", percent(late), time(self.tolerance_ns as f64))
    }
}

/// Overload that nobody lost packets by: the backlog had room, this time.
pub(super) fn backlog(facts: &Facts) -> Vec<Finding> {
    let is_lossless = facts.policies.iter().all(PolicyFacts::is_lossless);
    // Packets that a full dispatcher does not take in do not wait for cores.
    let is_theirs = is_lossless && !facts.policies.iter().any(is_dispatcher_full);
    let Some(load) = facts.load.filter(|load| *load >= OVERLOAD && is_theirs && facts.packets > 0) else {
        return Vec::new();
    };
    let waited = facts.policies.iter().map(|policy| policy.greatest(|run| run.queue_max as f64)).fold(0.0, f64::max);
    let text = format!(
        "The cores are overloaded: the offered load is {load:.2}, so up to {waited:.0} packets waited, and delay grows with the \
         length of the run."
    );
    vec![Finding::new(Topic::Overload, text)]
}

#[cfg(test)]
mod tests {
    use super::super::facts::LinkFacts;
    use super::super::tests::{facts, lost, run, said};
    use super::*;

    fn busy(busy: [f64; 4], run: RunFacts) -> RunFacts {
        RunFacts { busy: busy.to_vec(), ..run }
    }

    #[test]
    fn each_cause_of_loss_is_told_from_the_others() {
        let loss = |place: Place| lost(place, 500);
        let of = |run: RunFacts| facts(&[("a", &[run])]);
        let full = busy([1.0; 4], loss(Place::Buffer));
        let one = busy([1.0, 0.2, 0.2, 0.2], loss(Place::Buffer));
        let link = Some(LinkFacts { bps: 1e9, used: 1.0 });
        let switching = RunFacts { switches: 1000, ..busy([0.7; 4], loss(Place::Buffer)) };
        let dispatcher = RunFacts { is_dispatcher_full: true, ..loss(Place::Input) };
        for (facts, topic, text) in [
            (
                Facts { load: Some(1.5), ..of(full.clone()) },
                Topic::Overload,
                "the offered load is 1.50, and a lost 5.00 %",
            ),
            (of(full), Topic::Overload, "The cores are overloaded (100 % busy): a lost 5.00 %"),
            (
                Facts { load: Some(1.02), ..of(one.clone()) },
                Topic::Imbalance,
                "a overloaded one core (busy 100 %, the others 20 %)",
            ),
            (Facts { flows: 3, ..of(one) }, Topic::Imbalance, "The traffic has only 3 flows for 4 cores."),
            (
                of(RunFacts { link, ..loss(Place::Link) }),
                Topic::Link,
                "its 1.00 Gb/s were 100 % used, and a lost 5.00 %",
            ),
            (
                Facts { switch_cost_ns: 1_000_000, ..of(switching) },
                Topic::Switching,
                "Switching services took 25 % of the cores' time (1000 switches of 1.00 ms)",
            ),
            (
                Facts { client_limit: Some(8), ..of(loss(Place::Client)) },
                Topic::Limit,
                "The limit of 8 packets a client",
            ),
            (Facts { queue_limit: Some(9), ..of(loss(Place::Queue)) }, Topic::Limit, "The limit of 9 packets a queue"),
            (of(loss(Place::Output)), Topic::Output, "The output took no more: a lost 5.00 % of the packets there"),
            (of(loss(Place::Input)), Topic::Input, "The input lost packets before they were taken: a lost 5.00 %"),
            (
                Facts { shared: true, ..of(loss(Place::Buffer)) },
                Topic::Shared,
                "Threads shared processors: a lost 5.00 %",
            ),
            (of(loss(Place::Buffer)), Topic::Bursts, "Bursts overran the buffer of 64 packets: a lost 5.00 %"),
        ] {
            let found = super::lost(&facts);
            assert!(found.len() == 1 && found[0].topic == topic && found[0].text.contains(text), "{text}: {found:?}");
        }
        assert_eq!(super::lost(&of(dispatcher)), [], "the dispatcher has its own rule");
        assert_eq!(super::lost(&of(run())), []);
        assert_eq!(
            super::lost(&Facts { packets: 1_000_000, ..of(RunFacts { packets: 1_000_000, ..lost(Place::Buffer, 5) }) }),
            []
        );
    }

    #[test]
    fn a_full_dispatcher_is_the_bottleneck_with_and_without_loss() {
        let of = |run: RunFacts| said(&dispatcher(&facts(&[("a", &[run])])));
        let full = |run: RunFacts| RunFacts { dispatchers: vec![0.3, 0.99], is_dispatcher_full: true, ..run };
        let text =
            "Dispatcher: The dispatcher is the bottleneck: it was busy 99 % of the time, the busiest worker 50 %.";
        assert_eq!(of(full(run())), format!("{text} Try --dispatchers 3."));
        let read = |reader| {
            let run = RunFacts { reader: Some(reader), ..full(run()) };
            said(&dispatcher(&Facts { on_assumed_host: true, ..facts(&[("a", &[run])]) }))
        };
        assert!(
            read(0.99).starts_with("Dispatcher: The reader of all dispatchers is the bottleneck: it was busy 99 %")
        );
        assert!(read(0.5).starts_with("Dispatcher: The busiest dispatcher is the bottleneck"), "{}", read(0.5));
        let lossy = of(full(lost(Place::Input, 500)));
        assert_eq!(lossy, format!("{text} a lost 5.00 % of the packets. Try --dispatchers 3."));
        assert_eq!(of(RunFacts { dispatchers: vec![0.99], ..run() }), "", "the workers have no time left either");
        let simulated = Facts { on_assumed_host: true, ..facts(&[("a", &[full(run())])]) };
        let said_of_it = said(&dispatcher(&simulated));
        assert!(
            said_of_it.contains("the busiest core 50 %. Offer fewer packets (--load, --multiplier),"),
            "{said_of_it}"
        );
        assert_eq!(backlog(&Facts { load: Some(2.0), ..simulated }), [], "packets do not wait for cores");
        let alone = Facts { cores: 0, ..facts(&[("a", &[full(run())])]) };
        assert!(said(&dispatcher(&alone)).contains("busy 99 % of the time, 50 % with the services' work."));
    }

    #[test]
    fn overload_without_loss_grows() {
        let of = |load: f64, run: RunFacts| said(&backlog(&Facts { load: Some(load), ..facts(&[("a", &[run])]) }));
        assert!(of(1.2, run()).contains("the offered load is 1.20, so up to 20 packets waited"));
        assert_eq!(of(0.9, run()) + &of(1.2, lost(Place::Buffer, 500)), "");
    }

    #[test]
    fn a_cause_that_all_policies_share_comes_first() {
        let even = |packets: u64| busy([0.4; 4], lost(Place::Buffer, packets));
        let one = || busy([1.0, 0.1, 0.1, 0.1], lost(Place::Buffer, 6000));
        let texts = |least: u64| {
            let found = super::lost(&facts(&[("a", &[one()]), ("b", &[even(least)])]));
            found.into_iter().map(|finding| finding.text).collect::<Vec<_>>()
        };
        let both = texts(5000);
        let first = "Bursts overran the buffer of 64 packets: the policies lost 50.0 % (b) to 60.0 % (a) of the packets in this one \
                     run, with cores 36 % busy.";
        assert_eq!(both[0], first);
        assert!(both[1].starts_with("a overloaded one core (busy 100 %, the others 10 %) and lost 60.0 %"), "{both:?}");
        assert!(texts(2000)[0].starts_with("a overloaded one core"), "b lost much less");
    }
}
