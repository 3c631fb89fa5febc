//! Which flows are split, as it is said on the command line.

use core::time::Duration;

use humpyard_core::mechanism::Split;
use humpyard_core::name::Named;
use humpyard_core::params;
use humpyard_core::policy::{ParameterError, Params};

use crate::LabError;
use crate::choice::time::{Span, show_time, time};

params! {
    /// What `--split` takes.
    pub struct SplitParams {
        /// The share of a core with which a flow becomes an elephant; 0 makes every flow one.
        share: f64 = 0.5, in 0.0..=16.0;
        /// Cores of one elephant.
        cores: u64 = 2, in 2..=16;
        /// The time over which the share is measured.
        window: Span = Span::new(Duration::from_millis(1));
    }
}

/// Reads `share=0.5,cores=2,window=1ms`, or a part of that.
///
/// # Errors
/// Anything else.
pub fn parse_split(text: &str) -> Result<Split, LabError> {
    let of_split = |error: ParameterError| LabError::from(error).of("split");
    let named: Named = format!("@split:{text}").parse().map_err(of_split)?;
    let params = SplitParams::from_pairs(&named.name, &named.parameters).map_err(of_split)?;
    Ok(Split {
        cores: params.cores as u16,
        share_millionths: (params.share * 1e6).round() as u32,
        window: time(params.window.duration()),
    })
}

/// Shows a split as [`parse_split`] reads it.
pub(crate) fn show_split(split: Split) -> String {
    let share = f64::from(split.share_millionths) / 1e6;
    format!("share={share},cores={},window={}", split.cores, show_time(split.window))
}

#[cfg(test)]
mod tests {
    use humpyard_core::unit::Time;

    use super::*;

    #[test]
    fn what_is_left_out_is_as_by_default() {
        assert_eq!(parse_split("cores=2").unwrap(), Split::default());
        let split = parse_split("share=0.25,cores=4,window=2ms").unwrap();
        assert_eq!(split, Split { cores: 4, share_millionths: 250_000, window: Time::from_ns(2_000_000) });
        assert_eq!(parse_split(&show_split(split)).unwrap(), split);
        let ranges = SplitParams::parameters().into_iter().find(|parameter| parameter.name == "cores").unwrap().accepts;
        assert_eq!(ranges, format!("2 to {}", Split::CORES_MAX));
    }

    #[test]
    fn slips_are_told() {
        for (text, said) in [
            ("corse=3", "split: no parameter `corse`; did you mean `cores`? There are: share, cores, window"),
            ("cores=1", "split: `cores` takes 2 to 16, not `1`"),
            ("share=half", "split: `share` takes 0 to 16, not `half`"),
            ("window=10", "split: `window` takes a time with its unit from 1us, 10ms for example, not `10`"),
            ("share", "split: a parameter reads name=value, not `share`"),
            ("share=1,share=2", "split: `share` is given twice"),
        ] {
            assert_eq!(parse_split(text).unwrap_err().to_string(), said);
        }
    }
}
