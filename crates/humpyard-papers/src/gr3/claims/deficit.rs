//! Adversaries of round robins that keep the rest of a turn: PROPORTIONAL_SHARE sections 2.2 and 2.11.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, Id};
use humpyard_core::mechanism::AlwaysReady;
use humpyard_core::random::Seed;
use humpyard_policies::spec::PolicySpec;

use super::super::errors::errors;
use super::super::paper::PAPER;
use super::super::scheduled::{scheduled, weights};
use crate::harness::{
    About, Column, Experiment, Figure, Plots, Range, Row, Rows, Scale, Table, TableRow, columns, line, logarithmic,
    whole,
};
use humpyard_lab::LabError;
use humpyard_plot::LinePlot;

/// Work of a slot, and of the longest packet.
const SLOT: u32 = 1000;
/// Numbers of clients with the first adversary.
const CLIENTS: [usize; 6] = [32, 64, 128, 256, 512, 1024];
/// Number of rounds per run; in each, every client is entitled to its weight in slots.
const ROUNDS: u64 = 8;
/// The policies, each with the first packet's work of a light client that leaves the most of a turn, or exceeds
/// it the most.
const POLICIES: [(&str, u32); 3] = [("drr", 1), ("drr:surplus=true", SLOT - 1), ("gr3", 1)];
/// Numbers of clients with the second adversary.
const STRATIFIED: [usize; 4] = [6, 8, 10, 12];

const COLUMNS: &[Column] = columns![
    text adversary, text policy, integer clients, real error_min, real error_max, integer longest_run,
];

/// The experiment.
pub(super) struct Deficit;

impl Experiment for Deficit {
    fn about(&self) -> About {
        About {
            id: "gr3-deficit",
            figure: "sections 4.1 and 6, on deficits and strata",
            title: "adversaries of deficit and of stratified round robin",
            description: "Deficits: a client with half of the weights among N - 1 light ones, all of whose packets \
                take a whole slot but the first of each light one, which leaves it with a deficit of a slot, less one \
                unit of work, for good. The error is the heavy client's, in slots, at the ends of rounds for drr, at \
                all times for gr3. Strata: one client has half of the capacity, N - 1 have a part of 2^-N each; the \
                error is the heavy client's for strr, anybody's for gr3, and the longest run is that of consecutive \
                slots of one client.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        CLIENTS.len() * POLICIES.len() + STRATIFIED.len()
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        match part.checked_sub(CLIENTS.len() * POLICIES.len()) {
            None => {
                let (policy, first) = POLICIES[part % POLICIES.len()];
                let clients = CLIENTS[part / POLICIES.len()];
                let (least, greatest) = deficit_errors(&policy.parse()?, clients, first)?;
                let values =
                    ["deficits".into(), policy.into(), clients.into(), least.into(), greatest.into(), 0u32.into()];
                Ok(vec![values.into()])
            }
            Some(part) => stratified(STRATIFIED[part], seed),
        }
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = LinePlot {
            title: "service error of a client with half of the weights, against deficits".to_owned(),
            description:
                "The largest error over the number of clients: it grows in proportion for drr, and stays for gr3."
                    .to_owned(),
            x: logarithmic("clients"),
            y: whole("slots"),
            lines: POLICIES.map(|(policy, _)| line(policy, deficits(data, policy))).into(),
        };
        vec![("deficits".to_owned(), plot.svg())]
    }
}

/// Returns the largest error against the adversary of deficits, by number of clients.
fn deficits<'a>(data: &'a Table, policy: &'a str) -> impl Iterator<Item = (f64, f64)> {
    let rows = data.rows_of("adversary", "deficits").of("policy", policy);
    rows.map(|row| (row.number("clients"), row.number("error_max").max(-row.number("error_min"))))
}

static FIGURES: [Figure; 3] = [
    Figure {
        claim: "gr3-error-bound",
        of: |data| {
            let Range { least, greatest } = errors(data.rows_of("adversary", "deficits").of("policy", "gr3"));
            vec![least, greatest]
        },
    },
    Figure {
        claim: "gr3-deficits-add-up",
        of: |data| {
            let of = |clients: usize| deficits(data, "drr").find(|&(at, _)| at == clients as f64);
            let [few, many] = [CLIENTS[0], CLIENTS[CLIENTS.len() - 1]].map(of);
            few.zip(many).map(|((_, few), (_, many))| many - few).into_iter().collect()
        },
    },
    Figure {
        claim: "gr3-stratified-weaker",
        of: |data| {
            let largest = |policy, clients| errors(std::iter::once(strata(data, policy, clients))).magnitude();
            let ratios = STRATIFIED.map(|clients| largest("strr", clients) / largest("gr3", clients));
            vec![ratios.into_iter().fold(f64::INFINITY, f64::min)]
        },
    },
];

fn strata<'a>(data: &'a Table, policy: &'a str, clients: usize) -> TableRow<'a> {
    let mut rows = data.rows_of("adversary", "strata").of("policy", policy).at("clients", clients as f64);
    rows.next().expect("a row for each policy and number of clients")
}

/// Returns the range of the heavy client's error, in slots, if the light clients' first packets have this work.
fn deficit_errors(spec: &PolicySpec, clients: usize, first: u32) -> Result<(f64, f64), LabError> {
    let heavy = ClientId(0);
    let weights = weights((0..clients).map(|client| if client == 0 { clients as u32 - 1 } else { 1 }));
    let setup = SchedulerConfig {
        clients,
        packets: 3 * clients + 1,
        longest: SLOT.into(),
        weights,
        ..SchedulerConfig::default()
    };
    let work = |client: ClientId, number: u64| if number == 0 && client != heavy { first } else { SLOT };
    let order = (0..clients).map(ClientId::from_index);
    let mut ready = AlwaysReady::new(&setup, order, work, || spec.build_share(&setup))?;
    let in_rounds = !spec.to_string().ends_with("gr3");
    let (mut least, mut greatest) = (0.0f64, 0.0f64);
    // The heavy client has half of the weights: its error is half of its lead over all others together.
    let (mut ahead, mut before) = (0i64, None);
    let end = ROUNDS * 2 * clients as u64 * u64::from(SLOT);
    let mut done = 0;
    while done < end {
        let served = ready.step().next().flatten().expect("somebody is ready");
        let begins = served.client == heavy && before.is_some_and(|client| client != heavy);
        if begins || !in_rounds {
            let error = ahead as f64 / 2.0 / f64::from(SLOT);
            (least, greatest) = (least.min(error), greatest.max(error));
        }
        ahead += if served.client == heavy { i64::from(served.work) } else { -i64::from(served.work) };
        done += u64::from(served.work);
        before = Some(served.client);
    }
    Ok((least, greatest))
}

/// Runs both policies with one client of half the capacity, and others of a part of 2^-N.
fn stratified(clients: usize, seed: Seed) -> Result<Vec<Row>, LabError> {
    let capacity = 1u32 << clients;
    let weights = weights((0..clients).map(|client| if client == 0 { capacity / 2 } else { 1 }));
    let of = |policy: &str, name: &str| {
        let found = scheduled(policy, &weights, 1, 2 * capacity as usize, seed)?;
        let served: Vec<ClientId> = found.slots.iter().filter_map(|slot| slot[0]).collect();
        let longest = served.chunk_by(|one, next| one == next).map(<[ClientId]>::len).max().unwrap_or(0);
        let (least, greatest) = (found.error_min.value(), found.error_max.value());
        Ok(vec!["strata".into(), name.into(), clients.into(), least.into(), greatest.into(), longest.into()])
    };
    [("strr", format!("strr:capacity={capacity}")), ("gr3", "gr3".to_owned())]
        .iter()
        .map(|(name, policy)| of(policy, name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::quick;

    /// Each other client adds half a slot to the error of deficit round robins, whether they keep deficits or
    /// surpluses.
    #[test]
    fn deficits_add_up_to_half_a_slot_each() {
        for (policy, first) in &POLICIES[..2] {
            let (least, greatest) = deficit_errors(&policy.parse().unwrap(), 64, *first).unwrap();
            assert!((greatest.max(-least) / 63.0 - 0.5).abs() < 0.05, "{policy}: {least} to {greatest}");
        }
    }

    /// The errors and the longest runs equal those of the specification's example.
    #[test]
    fn strata_keep_the_heavy_client_waiting() {
        let data = quick(&Deficit);
        for (clients, error, run) in [(8, -6.274, 122.0), (10, -8.689, 504.0)] {
            let row = strata(&data, "strr", clients);
            assert!((row.number("error_min") - error).abs() < 5e-4 && row.number("longest_run") == run, "{clients}");
        }
        let gr3 = errors(data.rows_of("adversary", "strata").of("policy", "gr3"));
        assert!(gr3.magnitude() <= 1.0, "{gr3}");
    }

    /// Two clients of weight 1: after a round, the light one has had 1 of 1000 units, and is 999 behind the
    /// other.
    #[test]
    fn errors_are_half_of_what_one_is_ahead() {
        let (least, greatest) = deficit_errors(&"drr".parse().unwrap(), 2, 1).unwrap();
        assert_eq!((least, greatest), (0.0, 0.4995));
    }

    /// If every packet takes a slot, deficits are 0, and rounds end without an error.
    #[test]
    fn without_an_adversary_rounds_end_even() {
        assert_eq!(deficit_errors(&"drr".parse().unwrap(), 64, SLOT).unwrap(), (0.0, 0.0));
    }
}
