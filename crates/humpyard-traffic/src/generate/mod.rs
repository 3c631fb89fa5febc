//! Generated traffic: named profiles with parameters.
//!
//! A specification is `PROFILE` or `PROFILE:name=value,name=value`; numbers may be written as `100_000`,
//! `100k`, `2M` or `1G`. A seed gives the same packets on every machine, byte for byte; their times start at 0.

mod addresses;
mod compose;
mod connections;
mod ffmpeg;
mod flow;
mod flowb;
mod imix;
mod laws;
mod messages;
mod mit;
mod mmpp;
mod model;
mod numbered;
mod nyp;
mod onoff;
mod packet;
mod permutation;
mod poisson;
mod poisson_clock;
mod ports;
mod profile;
mod protocol;
mod rewrite;
mod scale;
mod services;
mod sketch;
mod spc;
mod spc_apps;
mod specification;
mod text;
mod tu;

pub use compose::ComposeOptions;
pub(crate) use compose::composed;
pub(crate) use scale::scaled;

use humpyard_core::name::{Named, unknown};
use humpyard_core::policy::{Entry, Parameter, Params};
use humpyard_core::random::Seed;
use humpyard_text::quantity::parse_whole;

use crate::error::TrafficError;
use profile::{OpenedSource, Opener, Profile};

/// An entry of the list of profiles.
struct Registered {
    name: &'static str,
    entry: fn() -> Entry,
    open: Open,
}

type Open = fn(&[(String, String)], Seed, Opener) -> OpenedSource;

impl Registered {
    const fn of<P: Profile>() -> Self {
        Self { name: P::NAME, entry: entry::<P>, open: open_one::<P> }
    }
}

/// All profiles, in reading order. A new profile needs one line here.
const PROFILES: &[Registered] = &[
    Registered::of::<poisson::Poisson>(),
    Registered::of::<messages::Messages>(),
    Registered::of::<onoff::Onoff>(),
    Registered::of::<mmpp::Mmpp>(),
    Registered::of::<flow::Flow>(),
    Registered::of::<flowb::Flowb>(),
    Registered::of::<mit::Mit>(),
    Registered::of::<tu::Tu>(),
    Registered::of::<nyp::Nyp>(),
    Registered::of::<ffmpeg::Ffmpeg>(),
    Registered::of::<spc::Spc>(),
    Registered::of::<spc_apps::SpcApps>(),
    Registered::of::<imix::Imix>(),
    Registered::of::<compose::Compose>(),
    Registered::of::<scale::Scale>(),
];

fn entry<P: Profile>() -> Entry {
    let parameters = P::Params::parameters();
    Entry { name: P::NAME, family: "profile", summary: P::SUMMARY, source: P::SOURCE, parameters }
}

fn open_one<P: Profile>(pairs: &[(String, String)], seed: Seed, open: Opener) -> OpenedSource {
    let params = P::Params::from_pairs(P::NAME, pairs)?;
    let description = format!("gen:{}", Named { name: P::NAME.into(), parameters: in_full::<P>(pairs) });
    P::open(&params, seed, description, open)
}

/// Returns all parameters with their values; missing ones have their defaults.
fn in_full<P: Profile>(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let value = |parameter: Parameter| {
        let given = pairs.iter().rfind(|(name, _)| name.replace('_', "-") == parameter.name);
        (parameter.name, given.map_or(parameter.default, |(_, value)| value.clone()))
    };
    P::Params::parameters().into_iter().map(value).collect()
}

/// Returns every profile, in reading order.
pub fn entries() -> Vec<Entry> {
    PROFILES.iter().map(|profile| (profile.entry)()).collect()
}

/// Opens a generator by its specification, without the `gen:` prefix; `open` opens the sources that it uses.
///
/// # Errors
/// If the profile or a parameter does not exist, or a value is outside its range.
pub(crate) fn open(specification: &str, seed: Seed, open: Opener) -> OpenedSource {
    let Named { name, mut parameters } = specification.parse()?;
    for (_, value) in &mut parameters {
        *value = parse_whole(value).map_or_else(|| value.clone(), |number| number.to_string());
    }
    match PROFILES.iter().find(|profile| profile.name == name) {
        Some(profile) => (profile.open)(&parameters, seed, open),
        None => {
            let names = PROFILES.iter().map(|profile| profile.name);
            Err(TrafficError::usage(unknown("traffic profile", &name, names)))
        }
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::hash::mix;

    use super::*;

    fn open(specification: &str, seed: Seed) -> OpenedSource {
        super::open(specification, seed, crate::open)
    }

    #[test]
    fn profiles_describe_themselves_and_run_with_their_defaults() {
        for entry in entries() {
            assert!(!entry.summary.is_empty() && !entry.source.is_empty(), "{}", entry.name);
            for parameter in &entry.parameters {
                assert!(!parameter.summary.is_empty() && !parameter.accepts.is_empty(), "{}", parameter.name);
            }
            let mut source = open(entry.name, Seed(1)).unwrap();
            let mut frame = humpyard_core::frame::Frame::default();
            assert!(source.next(&mut frame).unwrap());
        }
    }

    #[test]
    fn a_description_is_a_specification_in_full() {
        for (specification, description) in [
            ("poisson", "gen:poisson:flows=64,pps=1000000,packets=100000,length=64,version=4,mix=udp"),
            (
                "poisson:packets=3k, version=mixed,flows=1_000",
                "gen:poisson:flows=1000,pps=1000000,packets=3000,length=64,version=mixed,mix=udp",
            ),
            (
                "messages:elephant=0.30",
                "gen:messages:flows=256,packets=100000,pps=200000,elephant=0.30,elephants=1,udp=0.4,ipv6=0.4,vlan=0.1,expiring=0.002",
            ),
        ] {
            assert_eq!(open(specification, Seed(1)).unwrap().description(), description);
            let again = description.strip_prefix("gen:").unwrap();
            assert_eq!(open(again, Seed(1)).unwrap().description(), description);
        }
    }

    #[test]
    fn messages_name_what_is_accepted() {
        for (specification, expected) in [
            (
                "poison",
                "no traffic profile `poison`; did you mean `poisson`? There are: poisson, messages, onoff, mmpp, flow, \
                 flowb, mit, tu, nyp, ffmpeg, spc, spc-apps, imix, compose, scale",
            ),
            (
                "poisson:flow=3",
                "poisson: no parameter `flow`; did you mean `flows`? There are: flows, pps, packets, length, version, \
                 mix",
            ),
            ("poisson:flows=0k", "poisson: `flows` takes 1 to 268435456 (in flows), not `0`"),
            ("poisson:flows=99999999999G", "poisson: `flows` takes 1 to 268435456 (in flows), not `99999999999G`"),
            ("poisson:version=5", "poisson: `version` takes one of 4 6 mixed, not `5`"),
            ("messages:udp=1.1", "messages: `udp` takes 0 to 1, not `1.1`"),
            ("messages:udp=NaN", "messages: `udp` takes 0 to 1, not `NaN`"),
            ("messages:udp", "messages: a parameter reads name=value, not `udp`"),
        ] {
            let error = open(specification, Seed(1)).err().expect(specification);
            assert_eq!(error.kind(), crate::ErrorKind::Usage);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn entries_as_json() {
        let json = serde_json::to_value(entries()).unwrap();
        assert_eq!((&json[0]["name"], &json[0]["family"]), (&"poisson".into(), &"profile".into()));
        let parameter = serde_json::json!({
            "name": "pps",
            "summary": "Mean rate of arrivals.",
            "default": "1000000",
            "accepts": "1 to 1000000000",
            "unit": "packets/s",
        });
        assert_eq!(json[0]["parameters"][1], parameter);
    }

    #[test]
    fn packets_are_the_same_everywhere() {
        let digest = |specification: &str| {
            let mut source = open(specification, Seed(1)).unwrap();
            let mut frame = humpyard_core::frame::Frame::default();
            let mut digest = 0;
            while source.next(&mut frame).unwrap() {
                digest = mix(digest ^ frame.time.as_ns());
                digest = frame.data.iter().fold(digest, |digest, &byte| mix(digest ^ u64::from(byte)));
            }
            digest
        };
        assert_eq!(digest("poisson:packets=1000,version=mixed,length=100"), 0x9462_91c2_95f5_95b3);
        assert_eq!(digest("messages:packets=5000"), 0x9fcc_1495_1c34_215b);
        assert_eq!(digest("onoff:packets=5000"), 0x3714_b63e_582b_b076);
        assert_eq!(digest("mmpp:packets=5000"), 0x841e_e980_6fde_31a1);
    }
}
