//! The scenarios: even traffic and bursts, few flows and many, one service and several, and goals that all,
//! some or no policies meet.

use humpyard_core::random::Seed;

use humpyard_lab::{Host, LabError, Rate, RunConfig, ServiceChoice};

/// A scenario.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// The traffic, without the number of packets.
    pub(super) input: &'static str,
    services: &'static str,
    costs: &'static str,
    pub(super) cores: u32,
    pub(super) load: f64,
    pub(super) goal: &'static str,
}

const fn scenario(
    name: &'static str,
    input: &'static str,
    (services, costs): (&'static str, &'static str),
    (cores, load): (u32, f64),
    goal: &'static str,
) -> Scenario {
    Scenario { name, input, services, costs, cores, load, goal }
}

const FORWARD: (&str, &str) = ("forward", "table:measured");
const LAYER_7: (&str, &str) = ("dpi", "table:ps-hrw");
const BY_KIND: (&str, &str) = ("tcp=compress,udp=encrypt,other=forward", "table:measured");
const SLOW: (&str, &str) = ("tcp=encrypt,udp=fec,other=forward", "table:predictive");

/// All scenarios; quick runs use the first few.
pub(super) const SCENARIOS: [Scenario; 20] = [
    scenario("even", "gen:poisson:flows=1000", FORWARD, (4, 0.8), "p99<50us,ooo<0.01%,min=p99"),
    scenario("bursts", "gen:onoff", FORWARD, (4, 0.7), "late<0.1%@100us,ooo<0.01%"),
    scenario("kinds", "gen:onoff", BY_KIND, (8, 0.7), "late<1%@1ms,ooo<0.01%"),
    scenario("few flows", "gen:poisson:flows=12", FORWARD, (4, 0.5), "p99<50us,ooo<0.01%,min=p99"),
    scenario("any order", "gen:onoff", FORWARD, (8, 0.85), "late<0.1%@50us,min=p99"),
    scenario("waves", "gen:mmpp", FORWARD, (4, 0.7), "p99<1ms,ooo<0.01%,min=p99"),
    scenario("overload", "gen:mmpp", FORWARD, (2, 1.2), "loss<5%,p50<2ms"),
    scenario("mit", "gen:mit", LAYER_7, (8, 0.8), "p99<2ms,ooo<0.01%,min=p99"),
    scenario("tu", "gen:tu", LAYER_7, (16, 0.85), "late<1%@1ms,ooo<0.1%"),
    scenario("nyp", "gen:nyp", LAYER_7, (8, 0.9), "p99<5ms,ooo<0.01%,min=mean"),
    scenario("tails", "gen:imix", ("encrypt", "table:measured"), (8, 0.8), "p999<1ms,ooo<0.01%,min=p999"),
    scenario("dense", "gen:imix", ("encrypt", "table:measured"), (4, 0.97), "late<1%@200us,ooo<0.01%"),
    scenario("films", "gen:ffmpeg", ("compress", "table:predictive"), (16, 0.7), "p99<1s,min=p99"),
    scenario("messages", "gen:messages", ("dpi", "table:measured"), (4, 0.5), "p99<200us,min=p99"),
    scenario("connections", "gen:flow", FORWARD, (4, 0.6), "late<0.1%@20us,ooo<0.01%"),
    scenario("bursty", "gen:flowb", FORWARD, (8, 0.8), "late<0.1%@20us,ooo<0.01%,min=mean"),
    scenario("fair", "gen:messages", FORWARD, (2, 1.3), "fairness>0.5,max=fairness"),
    scenario("row", "gen:onoff", ("dpi,encrypt", "table:measured"), (8, 0.75), "p99<100us,ooo<0.01%,min=p99"),
    scenario("slow", "gen:onoff", SLOW, (8, 0.6), "late<0.1%@200ms,ooo<0.01%,min=p99"),
    scenario("out of reach", "gen:onoff", FORWARD, (4, 0.9), "late<0.01%@1us,ooo<0.01%"),
];

impl Scenario {
    /// Returns its configuration, for this many packets.
    ///
    /// # Errors
    /// If the table has an error.
    pub(super) fn config(&self, packets: u64, seed: Seed) -> Result<RunConfig, LabError> {
        let separator = if self.input.matches(':').count() > 1 { ',' } else { ':' };
        let input = format!("{}{separator}packets={packets}", self.input);
        let mut config = RunConfig::new(Host::Sim, &input, "hrw".parse()?);
        match ServiceChoice::parse_row(self.services)? {
            Some(row) => {
                let then = row[1..].iter().map(|service| service.name.clone()).collect();
                config.chains.push((row[0].name.clone(), then));
                config.services = row;
            }
            None => config.services = ServiceChoice::parse_list(self.services)?,
        }
        config.costs = self.costs.parse()?;
        config.cores = self.cores as usize;
        config.rate = Rate::Load { load: self.load, of: None };
        config.seed = seed;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_lab::recommend::Goal;

    #[test]
    fn scenarios_can_be_run() {
        for scenario in &SCENARIOS {
            let config = scenario.config(10, Seed(1)).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
            assert!(scenario.goal.parse::<Goal>().is_ok(), "{}", scenario.name);
            humpyard_lab::check(&config).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        }
    }
}
