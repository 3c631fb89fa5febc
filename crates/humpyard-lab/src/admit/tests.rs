//! Admission as a whole.

use super::*;

fn flow(text: &str) -> Reservation {
    Reservation::parse(text, 1).unwrap()
}

fn options(flows: &[&str], network: Network) -> AdmitOptions {
    let flows = flows.iter().enumerate().map(|(id, text)| Reservation::parse(text, id + 1).unwrap()).collect();
    let costs = "predictive".parse().unwrap();
    AdmitOptions { margin: 0.0, cold: 0.0, ..AdmitOptions::new(flows, network, costs) }
}

const ENCRYPT: &str = "service=encrypt,rate=10Mbit,length=500,burst=8k";

/// PREDICTIVE section 3: 2.425 engines at 167 MHz, a tenth of that at speed 10, of which the table of costs is.
#[test]
fn the_worked_example() {
    let engines = |speed: f64| {
        let network = Network::router(3, &[speed; 3], None);
        let options = AdmitOptions { flow_order: FlowOrder::Free, ..options(&[ENCRYPT], network) };
        let admission = admit(&options).unwrap();
        assert!(admission.flows[0].admitted);
        admission.flows[0].engines
    };
    assert!((engines(0.1) - 2.425).abs() < 1e-12, "{}", engines(0.1));
    assert!((engines(1.0) - 0.2425).abs() < 1e-12);
}

/// All of equation 18 by hand: engines ten times as fast, two flows, on one engine.
#[test]
fn bounds_are_the_sum_of_their_parts() {
    let forward = "service=forward,rate=10Mbit,length=500,burst=2000,longest=500";
    let encrypt = format!("{ENCRYPT},longest=1000");
    let admission = admit(&options(&[&encrypt, forward], Network::router(1, &[], Some(100e6)))).unwrap();
    let bounds: Vec<Bound> = admission.flows.iter().map(|flow| flow.bound_ns.unwrap()).collect();
    let (long, own, other) = (32_000.0 + 130.0 * 1_000.0, 0.05 * 162_000.0, 0.05 * 5_100.0);
    assert_eq!(bounds[0].burst, 8.0 * 8_000.0 / 1e7 * 1e9);
    assert_eq!(bounds[0].packet, long + own);
    assert!((bounds[0].misordering - (other - own + own / 0.2425)).abs() < 1e-6);
    let reserved = 2_500.0 * 5_100.0 / 1e9;
    assert!((bounds[1].misordering - (own - other + other / reserved)).abs() < 1e-6);
    // Its packet at its own rate (a packet each 400 us, of 5 % more work), and the longest of all on the link.
    assert!((bounds[1].links - (1.05 * 400e3 + 8.0 * 1_000.0 / 100e6 * 1e9)).abs() < 1e-3, "{bounds:?}");
    assert_eq!(bounds[1].total, bounds[1].engines + bounds[1].links);
    // On two engines the errors of others count half, and half a packet is added.
    let two = admit(&options(&[&encrypt, forward], Network::router(2, &[], None))).unwrap();
    let bound = two.flows[0].bound_ns.unwrap();
    assert!((bound.packet - 1.5 * (long + own)).abs() < 1e-6);
    assert!((bound.misordering - ((other - own) / 2.0 + own / 0.2425)).abs() < 1e-6);
}

#[test]
fn cold_cores_and_a_margin_take_their_part() {
    let network = Network::router(1, &[], None);
    let at = |margin, cold| AdmitOptions { margin, cold, ..options(&[ENCRYPT], network.clone()) };
    let engines = |margin, cold| admit(&at(margin, cold)).unwrap().flows[0].engines;
    assert!((engines(0.0, 1.0) - 2_500.0 * 114_000.0 / 1e9).abs() < 1e-12);
    assert!((engines(0.0, 0.5) - 2_500.0 * 105_500.0 / 1e9).abs() < 1e-12);
    let admission = admit(&at(0.5, 1.0)).unwrap();
    assert_eq!((admission.nodes[0].limit, admission.flows[0].weight), (0.5, Some(570_000)));
    // A cold packet is off the estimate by all of it.
    let off = 0.05 * (32_000.0 + 130.0 * 1_500.0) + 17_000.0;
    assert!((admission.flows[0].bound_ns.unwrap().misordering - (off / 0.285 - off)).abs() < 1e-6);
}

#[test]
fn who_is_refused_hears_what_would_fit() {
    let flows = [ENCRYPT, &ENCRYPT.replace("10M", "35M"), &ENCRYPT.replace("10M", "20M")];
    let admission = admit(&options(&flows, Network::router(1, &[], Some(29e6)))).unwrap();
    assert_eq!((admission.admitted, admission.refused), (1, 2));
    let refusal = admission.flows[1].refusal.clone().unwrap();
    let [Lack::Engines { needed, free, would_do: Some(2), .. }, Lack::Link { needed_bps, free_bps, would_do_bps, .. }] =
        &refusal.lacks[..]
    else {
        panic!("{refusal:?}");
    };
    assert!((needed - 3.5 * 0.2425).abs() < 1e-9 && (free - 0.7575).abs() < 1e-9);
    assert_eq!((*needed_bps, *free_bps, *would_do_bps), (35e6, 19e6, 45e6));
    assert_eq!(refusal.largest_bandwidth_bps, 19e6);
    assert_eq!(admission.flows[2].refusal.as_ref().unwrap().largest_bandwidth_bps, 19e6);
    // What is said to fit does, and what is said to do does.
    let fits = [flows[0].to_owned(), ENCRYPT.replace("10M", "19M")];
    let fits: Vec<&str> = fits.iter().map(String::as_str).collect();
    assert_eq!(admit(&options(&fits, Network::router(1, &[], Some(29e6)))).unwrap().refused, 0);
    assert_eq!(admit(&options(&flows[..2], Network::router(2, &[], Some(45e6)))).unwrap().refused, 0);
}

#[test]
fn what_largest_says_fits_and_more_does_not() {
    use humpyard_core::random::Seed;
    let mut fit = 0;
    for seed in 0..300 {
        let mut random = Seed(seed).stream("largest");
        let mut asks = |n: u64| {
            let (rate, length) = (1 + random.below(40_000_000), 40 + random.below(1_400));
            let service = ["forward", "encrypt", "compress", "fec"][random.below(4) as usize];
            flow(&format!("name=f{n},service={service},rate={rate},length={length},burst=4k"))
        };
        let flows: Vec<Reservation> = (0..6).map(&mut asks).collect();
        let network = Network::router(1 + random.below(3) as usize, &[], Some(1e6 * (1 + random.below(100)) as f64));
        let base = AdmitOptions { reservations: flows.clone(), margin: 0.1, ..options(&[], network) };
        let admission = admit(&base).unwrap();
        assert!(admission.nodes[0].reserved <= admission.nodes[0].limit * (1.0 + 1e-6));
        assert!(admission.links[0].reserved_bps <= admission.links[0].rate_bps * (1.0 + 1e-6));
        for (id, verdict) in admission.flows.iter().enumerate() {
            let Some(refusal) = &verdict.refusal else { continue };
            let admitted = |rate: f64| {
                let mut flows = flows[..=id].to_vec();
                flows[id].bandwidth_bps = rate;
                admit(&AdmitOptions { reservations: flows, ..base.clone() }).unwrap().flows[id].admitted
            };
            let largest = refusal.largest_bandwidth_bps;
            assert!(!refusal.lacks.is_empty());
            assert!(largest == 0.0 || admitted(largest), "seed {seed}: {largest} fits");
            assert!(!admitted(largest + 2.0 + largest * 1e-6), "seed {seed}: no more than {largest} fits");
            fit += u32::from(largest > 0.0);
        }
    }
    assert!(fit > 100, "{fit} refusals with something that fits");
}

#[test]
fn a_flow_that_keeps_its_order_has_one_engine() {
    let held = |speed| {
        let network = Network::router(4, &[speed; 4], None);
        AdmitOptions { flow_order: FlowOrder::Hold, ..options(&[ENCRYPT], network) }
    };
    let slow = held(0.1);
    let refusal = admit(&slow).unwrap().flows[0].refusal.clone().unwrap();
    let [Lack::OneEngine { needed, would_do_speed: Some(0.243), .. }] = refusal.lacks[..] else {
        panic!("{refusal:?}")
    };
    assert!((needed - 2.425).abs() < 1e-9);
    assert_eq!(admit(&held(0.243)).unwrap().admitted, 1);
    assert_eq!(refusal.largest_bandwidth_bps, (1e7f64 / 2.425).floor());
    assert_eq!(admit(&AdmitOptions { flow_order: FlowOrder::Free, ..slow }).unwrap().admitted, 1);
}

const NETWORK: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"near\"\nengines = 1\n[[node]]\nname = \"far\"\nengines = 2\n\
    [[node]]\nname = \"b\"\n\
    [[link]]\nfrom = \"a\"\nto = \"near\"\nrate = \"1Gbit\"\ndelay = \"10us\"\n\
    [[link]]\nfrom = \"near\"\nto = \"b\"\nrate = \"1Gbit\"\ndelay = \"10us\"\n\
    [[link]]\nfrom = \"a\"\nto = \"far\"\nrate = \"1Gbit\"\ndelay = \"1ms\"\nboth-ways = false\n\
    [[link]]\nfrom = \"far\"\nto = \"b\"\nrate = \"30Mbit\"\ndelay = \"1ms\"\nboth-ways = false\n";

#[test]
fn flows_go_where_there_is_room() {
    let ask = |name: &str| format!("name={name},{},from=a,to=b", ENCRYPT.replace("10M", "25M"));
    let flows = ["one", "two", "three"].map(ask);
    let network = Network::parse("n.toml", NETWORK).unwrap();
    let admission = admit(&options(&flows.each_ref().map(String::as_str), network)).unwrap();
    let [one, two, three] = &admission.flows[..] else { panic!("three flows") };
    assert_eq!((one.node.as_deref(), &one.path[..]), (Some("near"), &["a", "near", "b"].map(str::to_owned)[..]));
    assert_eq!((two.node.as_deref(), &two.path[..]), (Some("far"), &["a", "far", "b"].map(str::to_owned)[..]));
    assert!(two.bound_ns.unwrap().links > 2e6, "it is under way for 2 ms");
    // The slow link has 5 Mb/s left, and the near engine 0.39375 of itself.
    let refusal = three.refusal.as_ref().unwrap();
    let lacks =
        Lack::Engines { node: "near".to_owned(), needed: three.engines, free: 1.0 - one.engines, would_do: Some(2) };
    assert_eq!((&refusal.lacks[..], three.path.len()), (&[lacks][..], 0));
    assert_eq!(refusal.largest_bandwidth_bps, ((1.0 - one.engines) / one.engines * 25e6).floor());
}

#[test]
fn slips_are_told() {
    let router = || Network::router(1, &[], None);
    let slip = |flows: &[&str], network: Network| admit(&options(flows, network)).unwrap_err().to_string();
    let network = || Network::parse("n.toml", NETWORK).unwrap();
    assert!(slip(&[&ENCRYPT.replace("encrypt", "encript")], router()).contains("did you mean `encrypt`?"));
    assert!(slip(&[&format!("{ENCRYPT},from=a")], router()).contains("`from` and `to` are nodes of a topology"));
    assert!(slip(&[ENCRYPT], network()).contains("flow `flow1`: in a topology a flow has a `from` and a `to`"));
    assert!(slip(&[&format!("{ENCRYPT},from=a,to=c")], network()).contains("no node `c`"));
    let named = format!("{ENCRYPT},name=x");
    assert!(slip(&[&named, &named], router()).contains("two flows are called `x`"));
}
