//! On a worker, with real services whose costs were measured just before.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use humpyard_core::mechanism::FlowOrder;
use humpyard_core::random::Seed;

use super::super::{About, Column, Experiment, Row, Scale, Table, Verdict};
use super::traffic::{Sender, write};
use super::{CLIENT_LIMIT, COLUMNS, Came, PAPER, Place, SETTING, held, keeping, plot, row, senders, told};
use crate::LabError;
use crate::admit::{Admission, AdmitOptions, FlowVerdict, Network, Reservation, admit};
use crate::calibrate::{CalibrateOptions, calibrate, parse_services};
use crate::config::{Host, Rate, RunConfig, ServiceChoice};
use crate::costs::Costs;
use crate::plot::Svg;
use crate::run::{Control, run_live};

const POLICIES: [&str; 2] = ["efq", "fcfs"];
/// What is measured and done.
const SERVICES: &str = "encrypt:cipher=cast-128,compress,fec";
/// Each flow's service, and the part of a core that it asks for.
const FLOWS: [(&str, f64); 6] =
    [("encrypt", 0.1), ("compress", 0.1), ("fec", 0.05), ("encrypt", 0.1), ("compress", 0.1), ("encrypt", 0.2)];
/// Length of packets, in bytes, and packets of a burst.
const LENGTH: u32 = 1_400;
const BURST: u32 = 4;
/// What is kept free for handing packets over, which costs a worker time, too.
const MARGIN: f64 = 0.3;
/// Estimates of measured services are off by so much, as a part of them.
const ERROR: f64 = 0.25;
/// How long flows send, in ns.
const SENDING: (f64, f64) = (1e9, 10e9);
/// How long costs are measured.
const MEASURING: Duration = Duration::from_secs(2);

pub(super) struct AdmitBoundLive;

fn measure(seed: Seed) -> Result<Costs, LabError> {
    let options = CalibrateOptions { services: parse_services(SERVICES)?, longest: MEASURING, matrix: false, seed };
    let stop = AtomicBool::new(false);
    Ok(Costs::File(calibrate(&options, &stop, &mut |_, _, _| {})?.cost_file()))
}

fn decide(costs: &Costs) -> Result<Admission, LabError> {
    let flow = |(id, &(service, engines)): (usize, &(&str, f64))| {
        let cost = costs.cost(service).map_err(LabError::option)?;
        let rate = engines * 8e9 * f64::from(LENGTH) / cost.total(LENGTH, true) as f64;
        let burst = BURST * LENGTH;
        let text =
            format!("name=f{id},service={service},rate={rate:.0},length={LENGTH},burst={burst},longest={LENGTH}");
        Reservation::parse(&text, id)
    };
    let flows: Vec<Reservation> = FLOWS.iter().enumerate().map(flow).collect::<Result<_, _>>()?;
    let options = AdmitOptions::new(flows, Network::router(1, &[], None), costs.clone());
    admit(&AdmitOptions { margin: MARGIN, errors: vec![(String::new(), ERROR)], ..options })
}

fn config(
    policy: &str,
    input: &str,
    costs: &Costs,
    admission: &Admission,
    flows: &[(Sender, FlowVerdict)],
) -> Result<RunConfig, LabError> {
    let total = admission.nodes[0].total_weight;
    let policy = if policy == "efq" { format!("efq:total={total}") } else { policy.to_owned() };
    let mut config = RunConfig::new(Host::Live, input, policy.parse()?);
    config.cores = 1;
    config.costs = costs.clone();
    config.rate = Rate::Trace;
    config.in_flight = 1;
    config.flow_order = Some(FlowOrder::Keep);
    config.limits.client = CLIENT_LIMIT;
    config.services.clear();
    for (sender, verdict) in flows {
        let (name, weight) = (&sender.flow.name, verdict.weight.unwrap_or(1));
        let work = if sender.flow.service == "encrypt" { "encrypt:cipher=cast-128" } else { &sender.flow.service };
        config.services.push(ServiceChoice { name: name.clone(), matches: None, work: work.parse()? });
        let rule = format!("protocol=udp,port={},service={name},client={name},weight={weight}", sender.port);
        config.rules.push(rule.parse()?);
    }
    config.rules.push(super::rest(&config)?);
    Ok(config)
}

impl Experiment for AdmitBoundLive {
    fn about(&self) -> About {
        About {
            id: "admit-bound-live",
            paper: PAPER,
            figure: "sections 3.3.2 and 4.1, on real workers",
            title: "delays of admitted flows on a worker with real services",
            setting: SETTING,
            description: "One worker encrypts by CAST-128, compresses, and makes parity, 1400 bytes a packet; what that costs is measured \
                          just before. 30 % of the worker is kept free, for packets are handed over to it and back, and estimates are \
                          taken to be off by 25 %. A worker has one packet at a time. Nothing hangs on it: a system that runs \
                          something else on the worker's processor for a while is no part of the bound.",
        }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, _: Scale) -> usize {
        1
    }

    fn run(&self, _: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let costs = measure(seed)?;
        let admission = decide(&costs)?;
        let flows = senders(&admission, 1);
        let no_place = |error| LabError::option(format!("no place for a capture: {error}"));
        let directory = tempfile::tempdir().map_err(no_place)?;
        let path = directory.path().join("flows.pcapng");
        let path = path.to_string_lossy();
        let all: Vec<Sender> = flows.iter().map(|(sender, _)| sender.clone()).collect();
        write(&path, &all, scale.pick(SENDING.0, SENDING.1), seed)?;
        let mut rows = Vec::new();
        for policy in POLICIES {
            let stop = AtomicBool::new(false);
            let mut progress = |_, _| ();
            let config = config(policy, &path, &costs, &admission, &flows)?;
            let result = run_live(&config, &mut Control::new(&stop, &mut progress))?;
            for (flow, service) in flows.iter().zip(&result.summary.services) {
                let came = Came {
                    max_ns: service.delay_ns.max,
                    p50_ns: service.delay_ns.p50,
                    packets: service.packets,
                    beyond: super::beyond(&service.delay_counts, super::bound_ns(&flow.1)),
                };
                rows.push(row(Place { cores: 1, draw: 1 }, policy, flow, came));
            }
        }
        Ok(rows)
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let verdict = |policy: &str| {
            let held = held(keeping(data, policy));
            let claim = format!("under {policy}, packets of flows that keep to their reservation beyond their bounds");
            let within = if held.0 == 0.0 { "inside" } else { "outside" };
            Verdict::measured(claim, "none, by the bound for efq", format!("{}: {within}", told(held)))
        };
        POLICIES.map(verdict).into_iter().collect()
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let title = "Delay of admitted flows on a worker, while others overload";
        vec![("live".to_owned(), plot(data, &POLICIES, title, |_| true))]
    }

    fn is_timed(&self) -> bool {
        true
    }
}
