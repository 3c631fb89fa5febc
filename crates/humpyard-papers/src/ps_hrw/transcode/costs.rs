//! The time to transcode a group of pictures: the measured costs of figures 8, 10 and 12.

use humpyard_core::random::Seed;
use humpyard_transcode::source::Pattern;
use humpyard_transcode::{Codec, OUTPUTS, Rate, Transcoder};

use super::super::paper::PAPER;
use super::films::{Work, film, of_film};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Range, Row, Rows, Scale, Table, rows, short, thread_time,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Bar, BarGroup, BarPlot};

/// The experiment.
#[derive(Debug)]
pub(super) struct GopCosts;

/// Groups per film (quick, full).
const GROUPS: (u64, u64) = (6, 40);

rows! {
    COLUMNS, fn row(codec: Codec, rate: &Rate, work: &[Work], bytes_out: usize, costs: &[f64]) {
        let (mean, variation) = spread(costs);
        let range = Range::of(costs.iter().copied());
        let of_each = |sum: u64| sum as f64 / work.len() as f64;
    } => {
        text codec = codec.name(), text rate = rate.name, integer gops = work.len(),
        real pictures_mean = of_each(work.iter().map(|work| work.gop.pictures()).sum()),
        real bytes_in_mean = of_each(work.iter().map(|work| work.gop.bytes()).sum()),
        real bytes_out_mean = of_each(bytes_out as u64), real cost_mean_us = mean, real cost_cv = variation,
        real cost_min_us = range.least,
        real cost_max_us = range.greatest,
    }
}

/// Returns the mean and the coefficient of variation.
fn spread(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, squares.sqrt() / mean)
}

impl Experiment for GopCosts {
    fn about(&self) -> About {
        About {
            id: "ps-hrw-gop-costs",
            figure: "table 3",
            title: "what it takes to transcode a group of pictures",
            description: "Films of five patterns, 352x240 at 29.97 pictures a second, in each of three codecs, become \
                those of table 3 in MPEG-4. A group of pictures is half a second. Its cost is the processor time of \
                its thread, with opening a decoder and an encoder; the deviation is over all groups of all patterns.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        Codec::ALL.len()
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn run(&self, part: usize, scale: Scale, _: Seed) -> Result<Vec<Row>, LabError> {
        let codec = Codec::ALL[part];
        let groups = scale.of(GROUPS);
        let films: Result<Vec<_>, LabError> =
            Pattern::ALL.into_iter().map(|pattern| film(part, codec, pattern, groups)).collect();
        let films = films?;
        let mut transcoder = Transcoder::new();
        let rows = OUTPUTS.iter().map(|rate| {
            let work: Vec<_> = films.iter().flat_map(|film| of_film(film, rate, groups).work).collect();
            let failed = |failure: humpyard_transcode::Failure| LabError::option(failure.to_string());
            // Creates the scalers, and loads the code into caches, before the timing.
            work[0].done(&mut transcoder).map_err(failed)?;
            let (mut costs, mut bytes_out) = (Vec::new(), 0);
            for work in &work {
                let begun = thread_time()?;
                bytes_out += work.done(&mut transcoder).map_err(failed)?.len();
                costs.push((thread_time()? - begun).as_secs_f64() * 1e6);
            }
            Ok(row(codec, rate, &work, bytes_out, &costs))
        });
        rows.collect()
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let of = |codec: Codec| {
            let cost = |rate: &str| data.rows_of("codec", codec.name()).find(|row| row.text("rate") == rate);
            let costs = OUTPUTS.map(|rate| cost(rate.name).expect("every codec has every rate"));
            let measured = costs.map(|row| {
                format!("{} (CV {})", short(row.number("cost_mean_us") / 1e3), short(row.number("cost_cv")))
            });
            let least = costs[0].number("cost_mean_us");
            let ratios = costs.map(|row| short(row.number("cost_mean_us") / least));
            [
                Note::new(
                    format!("{}: ms of a group of pictures, to each rate", codec.name()),
                    "4 to 50 by the specification's model",
                    measured.join(", "),
                ),
                Note::new(
                    format!("{}: the same over the least", codec.name()),
                    "1, 1.2, 3.4, 12.6 by the specification's model",
                    ratios.join(", "),
                ),
            ]
        };
        Codec::ALL.into_iter().flat_map(of).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let group = |codec: Codec| {
            let bars = data.rows_of("codec", codec.name()).map(|row| {
                let (mean, variation) = (row.number("cost_mean_us") / 1e3, row.number("cost_cv"));
                let error = Some((mean * (1.0 - variation).max(0.0), mean * (1.0 + variation)));
                Bar { name: row.text("rate").to_owned(), value: mean, error }
            });
            BarGroup { name: codec.name().to_owned(), bars: bars.collect() }
        };
        let plot = BarPlot {
            title: "processor time of a group of pictures".to_owned(),
            description: self.about().description.to_owned(),
            value: Axis::linear("processor time, with its deviation", |ms| format!("{ms:.1} ms")),
            groups: Codec::ALL.into_iter().map(group).collect(),
        };
        vec![("costs".to_owned(), plot.svg())]
    }
}

/// Duration of a group of pictures, in s: 15 pictures at 29.97 per second.
const GROUP_S: f64 = 0.5005;

static FIGURES: [Figure; 1] = [Figure {
    claim: "ps-hrw-table3-bit-rates",
    of: |data| {
        let kbit_per_s = |bytes: f64| bytes * 8.0 / GROUP_S / 1e3;
        OUTPUTS.map(|rate| kbit_per_s(data.rows_of("rate", rate.name).mean("bytes_out_mean"))).into()
    },
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::parts;

    #[test]
    fn larger_pictures_take_longer() {
        let data = parts(&GopCosts, [0]);
        let column = |name: &str| data.rows().map(|row| row.number(name)).collect::<Vec<_>>();
        let (costs, bytes) = (column("cost_mean_us"), column("bytes_out_mean"));
        assert_eq!(costs.len(), OUTPUTS.len());
        // The two smallest differ by less than the error of measurement.
        assert!(costs[1..].is_sorted() && costs[3] > 3.0 * costs[0] && bytes.is_sorted(), "{costs:?}, {bytes:?}");
    }

    #[test]
    fn spread_is_deviation_over_mean() {
        assert_eq!(spread(&[1.0, 3.0]), (2.0, 0.5));
    }
}
