//! Measured times to transcode a group of pictures with libav.
//!
//! The table is the output of `humpyard reproduce ps-hrw-gop-costs --full` (feature `transcode`; FFmpeg 5.1 of
//! Debian 12, on an otherwise idle core of the development machine). It is stored, so that figures need no
//! libav and are the same everywhere.

const MEASURED: &str = include_str!("gop_costs.csv");

/// Number of codecs of films, and of rates to transcode to, in the order of the table.
pub(super) const CODECS: usize = 3;
pub(super) const RATES: usize = 4;

/// The time to transcode a group of pictures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct GopCost {
    /// The mean, in ns.
    pub(super) mean_ns: f64,
    /// The standard deviation over the mean.
    pub(super) variation: f64,
}

/// Returns the times by codec and rate.
pub(super) fn measured() -> Vec<[GopCost; RATES]> {
    let mut lines = MEASURED.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |name: &str| names.iter().position(|known| *known == name).expect("the table has this column");
    let (mean, variation) = (place("cost_mean_us"), place("cost_cv"));
    let costs: Vec<GopCost> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |place: usize| fields[place].parse::<f64>().expect("the table has numbers");
            GopCost { mean_ns: 1e3 * number(mean), variation: number(variation) }
        })
        .collect();
    let (codecs, rest) = costs.as_chunks();
    assert!(codecs.len() == CODECS && rest.is_empty(), "a line for each codec and rate");
    codecs.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_pictures_take_longer() {
        for codec in measured() {
            assert!(codec.is_sorted_by(|one, other| one.mean_ns < other.mean_ns), "{codec:?}");
            assert!(
                codec.iter().all(|cost| cost.mean_ns > 1e6 && cost.mean_ns < 1e8 && cost.variation < 0.5),
                "{codec:?}"
            );
        }
    }
}
