//! Delay, lateness and throughput.

use super::facts::{FEW, Facts, PolicyFacts, RunFacts};
use super::hot::hot;
use super::split::{DIFFERENT, Figure, Outcome, Split, Sure};
use super::words::{names, part};
use super::{Finding, Topic};
use crate::figures::{packet_rate, time};

/// Late packets, of all, from which on lateness comes before delay.
pub(super) const MANY: f64 = 0.001;

fn p99(policy: &PolicyFacts) -> f64 {
    policy.median(|run| run.p99)
}

/// Later than tolerated.
pub(super) fn late(facts: &Facts) -> Vec<Finding> {
    let many = facts.policies.iter().any(|policy| policy.median(|run| run.late) >= MANY);
    if facts.line_rate || facts.packets == 0 {
        return Vec::new();
    }
    let lossy = facts.policies.iter().any(|policy| policy.greatest(RunFacts::lost) > 0.0);
    let finished = if lossy { "lost or finished" } else { "finished" };
    let later = format!("of the packets later than the {} tolerated", time(facts.tolerance_ns as f64));
    let range = |policies: &[&PolicyFacts]| facts.range(policies, Figure::Late);
    let text = match facts.outcome(Figure::Late) {
        Outcome::Split(Split { ahead, behind, sure }) => format!(
            "{} {finished} {} {later}, {} {}{}{}.",
            names(&behind),
            range(&behind),
            names(&ahead),
            range(&ahead),
            sure.caveat(),
            kept_busy(&behind)
        ),
        Outcome::Alike | Outcome::Unsettled => {
            let all = facts.all();
            let busy = all.iter().map(|policy| policy.median(RunFacts::busy_mean)).sum::<f64>() / all.len() as f64;
            let (who, caveat) = (facts.who(&all), facts.range_caveat(&all, Figure::Late));
            format!("{who} {finished} {} {later}{caveat}, with cores {} busy.", range(&all), part(busy))
        }
    };
    // Lost packets are late, too, and have been told.
    let any = facts.policies.iter().any(|policy| policy.greatest(|run| run.late - run.lost()) >= FEW);
    let topic = if many { Topic::Late } else { Topic::Detail };
    any.then(|| Finding::new(topic, text)).into_iter().collect()
}

/// Why a policy is behind: it kept a core busy, and not the others.
fn kept_busy(behind: &[&PolicyFacts]) -> String {
    let [one] = behind else { return String::new() };
    let Some(hot) = hot(one) else { return String::new() };
    format!(". {} kept {}, the others {}", one.name, hot.said(), part(hot.others))
}

/// Delay, unless packets came as fast as they were taken.
pub(super) fn delay(facts: &Facts) -> Vec<Finding> {
    if facts.packets == 0 || facts.policies.iter().all(|policy| p99(policy) == 0.0) {
        return Vec::new();
    }
    if facts.line_rate {
        let text = "Packets came as fast as they were taken, so delay is mostly time in the buffer: give --rate to measure delay.";
        return vec![Finding::new(Topic::Short, text)];
    }
    if let [one] = facts.policies.as_slice() {
        let (half, slow) = (time(one.median(|run| run.p50)), time(p99(one)));
        let text = if one.greatest(RunFacts::lost) > 0.0 || one.greatest(|run| run.late) > 0.0 {
            format!(
                "Under {} half of the{} packets were done within {half}, and 99 of 100 within {slow}.",
                one.name,
                served(facts)
            )
        } else {
            format!(
                "{} lost no packet, and none took longer than {}: half were done within {half}, and 99 of 100 within {slow}.",
                one.name,
                time(facts.tolerance_ns as f64)
            )
        };
        return vec![Finding::new(Topic::Alike, text)];
    }
    match facts.outcome(Figure::Delay) {
        Outcome::Split(split) => vec![Finding::new(Topic::Delay, shortest(facts, &split))],
        Outcome::Alike | Outcome::Unsettled => undecided(facts),
    }
}

/// Percentiles are of the packets that were served.
fn served(facts: &Facts) -> &'static str {
    let lossy = facts.policies.iter().any(|policy| policy.greatest(RunFacts::lost) >= FEW);
    if lossy { " served" } else { "" }
}

fn shortest(facts: &Facts, Split { ahead, behind, sure }: &Split<'_>) -> String {
    let most = |group: &[&PolicyFacts]| group.iter().map(|policy| p99(policy)).fold(0.0, f64::max);
    let worst = behind[behind.len() - 1];
    // Where packets are lost, that has been told.
    let hot = hot(worst).filter(|_| served(facts).is_empty());
    let hot = hot.map(|hot| format!(", which kept {}", hot.full_said())).unwrap_or_default();
    format!(
        "{} had the shortest delays{}: 99 of 100{} packets within {}, against {} under {}{hot}.{}",
        names(ahead),
        sure.caveat(),
        served(facts),
        time(most(ahead)),
        time(p99(worst)),
        worst.name,
        typical(facts, ahead)
    )
}

/// Who serves the typical packet soonest, if that is another, by far, in every repetition.
fn typical(facts: &Facts, ahead: &[&PolicyFacts]) -> String {
    let p50 = |policy: &PolicyFacts| policy.median(|run| run.p50);
    let best = ahead.iter().map(|policy| p50(policy)).fold(f64::INFINITY, f64::min);
    let Some(soonest) = facts.policies.iter().min_by(|a, b| p50(a).total_cmp(&p50(b))) else { return String::new() };
    let sure = facts.sure_of(|run| run.p50, true, &[soonest], ahead);
    if best <= DIFFERENT * p50(soonest) || matches!(sure, Sure::TooFew(seen, of) if seen < of) {
        return String::new();
    }
    let (least, other, caveat) = (time(p50(soonest)), time(best), sure.caveat());
    format!(" The typical packet was done sooner under {}{caveat}: half within {least}, against {other}.", soonest.name)
}

fn undecided(facts: &Facts) -> Vec<Finding> {
    let mut ranked = facts.all();
    ranked.sort_by(|a, b| p99(a).total_cmp(&p99(b)));
    let (Some(least), Some(most)) = (ranked.first(), ranked.last()) else { return Vec::new() };
    let is_same = |one: &PolicyFacts| {
        let same = |figure: Figure| one.values(|run| figure.of(run)) == ranked[0].values(|run| figure.of(run));
        [Figure::Lost, Figure::Late, Figure::OutOfOrder, Figure::Delay, Figure::Throughput].into_iter().all(same)
            && one.values(|run| run.p50) == ranked[0].values(|run| run.p50)
            && one.values(|run| run.max) == ranked[0].values(|run| run.max)
    };
    let served = served(facts);
    if ranked.iter().all(|policy| is_same(policy)) {
        let text = "No delay, loss, order or throughput differs between the policies, in any run.";
        return vec![Finding::new(Topic::Same, text)];
    }
    let text = match facts.outcome(Figure::Delay) {
        Outcome::Alike => format!(
            "Delays do not differ: under every policy 99 of 100{served} packets were done within {}.",
            time(p99(most))
        ),
        _ => format!(
            "Delays do not differ significantly: 99 of 100{served} packets were done within {} to {}, and {}.",
            time(p99(least)),
            time(p99(most)),
            if facts.is_starved() {
                "threads lacked a processor"
            } else {
                "the repetitions rank the policies differently"
            }
        ),
    };
    vec![Finding::new(Topic::Alike, text)]
}

/// Throughput, where packets came as fast as they were taken or policies differ.
pub(super) fn throughput(facts: &Facts) -> Vec<Finding> {
    let pps = |policy: &PolicyFacts| policy.median(|run| run.pps);
    if facts.packets == 0 {
        return Vec::new();
    }
    let topic = if facts.line_rate { Topic::Throughput } else { Topic::Detail };
    let text = match (facts.policies.as_slice(), facts.outcome(Figure::Throughput)) {
        ([one], _) => format!("{} processed {}.", one.name, packet_rate(pps(one))),
        (_, Outcome::Split(Split { ahead, behind, sure })) => {
            let least = ahead.iter().map(|policy| pps(policy)).fold(f64::INFINITY, f64::min);
            let worst = behind[behind.len() - 1];
            format!(
                "{} had the highest throughput{}: {}, against {} under {}.",
                names(&ahead),
                sure.caveat(),
                packet_rate(least),
                packet_rate(pps(worst)),
                worst.name
            )
        }
        (all, Outcome::Alike) => {
            format!(
                "Throughput was {} under every policy.",
                packet_rate(all.iter().map(pps).fold(f64::INFINITY, f64::min))
            )
        }
        (all, Outcome::Unsettled) => format!(
            "Throughput was {} to {}, without a significant difference.",
            packet_rate(all.iter().map(pps).fold(f64::INFINITY, f64::min)),
            packet_rate(all.iter().map(pps).fold(0.0, f64::max))
        ),
    };
    vec![Finding::new(topic, text)]
}

#[cfg(test)]
mod tests {
    use super::super::facts::Place;
    use super::super::tests::{facts, lost, run, said};
    use super::*;

    fn slow(p99: f64) -> RunFacts {
        RunFacts { p99, ..run() }
    }

    #[test]
    fn late_packets_are_counted_beyond_those_lost() {
        let of = |a: RunFacts, b: RunFacts| said(&late(&facts(&[("a", &[a]), ("b", &[b])])));
        let later = |part: f64| RunFacts { late: part, ..run() };
        assert_eq!(of(run(), run()), "");
        assert!(
            of(later(0.2), run())
                .starts_with("Late: a finished 20.0 % of the packets later than the 2.00 ms tolerated, b none")
        );
        assert!(of(later(0.0005), run()).starts_with("Detail: a finished 0.05 %"));
        assert!(of(later(0.2), later(0.2)).contains("The policies finished 20.0 %"));
        assert_eq!(of(lost(Place::Buffer, 500), run()), "", "the loss has been told");
    }

    #[test]
    fn delay_is_that_of_the_packets_served() {
        let of = |a: RunFacts, b: RunFacts| said(&delay(&facts(&[("a", &[a]), ("b", &[b])])));
        let text = "Delay: a had the shortest delays in this one run: 99 of 100 packets within 50.0 us, against 90.0 us under b.";
        assert_eq!(of(run(), slow(90_000.0)), text);
        assert!(of(run(), RunFacts { p99: 90_000.0, ..lost(Place::Buffer, 500) }).contains("99 of 100 served packets"));
        let hot = RunFacts { busy: vec![1.0, 0.1, 0.1, 0.1], ..slow(90_000.0) };
        assert!(of(run(), hot).contains("under b, which kept one core busy 100 % of the time."));
        assert!(of(run(), slow(51_000.0)).starts_with("Alike: Delays do not differ"));
        assert!(of(run(), run()).starts_with("Same: No delay, loss, order or throughput differs"));
        let typical = RunFacts { p50: 5_000.0, ..slow(90_000.0) };
        let sooner =
            "The typical packet was done sooner under b in this one run: half within 5.00 us, against 10.0 us.";
        assert!(of(run(), typical).ends_with(sooner));
        let repetitions = [slow(40_000.0), slow(90_000.0)];
        let turned = [slow(60_000.0), slow(50_000.0)];
        let mixed = said(&delay(&facts(&[("a", &repetitions), ("b", &turned)])));
        assert!(mixed.starts_with("Alike: Delays do not differ significantly"), "{mixed}");
        assert!(
            said(&delay(&facts(&[("a", &[run()])])))
                .starts_with("Alike: a lost no packet, and none took longer than 2.00 ms")
        );
    }

    #[test]
    fn packets_as_fast_as_they_are_taken_measure_throughput() {
        let fast = |pps: f64| RunFacts { pps, ..run() };
        let line = Facts { line_rate: true, ..facts(&[("a", &[fast(1e4)]), ("b", &[fast(2e4)])]) };
        let text = "Throughput: b had the highest throughput in this one run: 20.0 kpps, against 10.0 kpps under a.";
        assert_eq!(said(&throughput(&line)), text);
        assert!(said(&delay(&line)).starts_with("Short: Packets came as fast as they were taken"));
        assert_eq!(late(&line), []);
        let paced = facts(&[("a", &[fast(1e4)]), ("b", &[fast(1e4)])]);
        assert_eq!(said(&throughput(&paced)), "Detail: Throughput was 10.0 kpps under every policy.");
        assert_eq!(said(&throughput(&facts(&[("a", &[run()])]))), "Detail: a processed 10.0 kpps.");
    }
}
