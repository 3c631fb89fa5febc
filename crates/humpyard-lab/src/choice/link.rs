//! The link behind the cores, as it is said on the command line.

use humpyard_policies::spec::PolicySpec;
use humpyard_text::quantity::parse_bit_rate;

use crate::LabError;

/// The link behind the cores.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkChoice {
    /// Bits per second.
    pub rate_bps: u64,
    /// How it is shared: a sharing policy.
    pub share: PolicySpec,
    /// Packets of a client that may wait there before the client is withheld from the cores. `None`: it never is.
    pub queue: Option<u32>,
}

/// Packets of a client that may wait at the link by default.
pub(crate) const QUEUE: u32 = 64;

/// Reads `1Gbit`, `1Gbit:share=drr:quantum=3000` or `1Gbit:queue=16,share=drr`: the policy is all after `share=`.
///
/// # Errors
/// Anything else.
pub fn parse_link(text: &str) -> Result<LinkChoice, LabError> {
    let refuse = |said: String| Err(LabError::option(format!("@link: {said}")));
    let (rate, rest) = text.split_once(':').unwrap_or((text, ""));
    let Some(rate_bps) = parse_bit_rate(rate).filter(|rate| *rate <= 1e13) else {
        return refuse(format!("a link has bits per second from 1 to 1e13, 1Gbit for example, not `{rate}`"));
    };
    let (rest, share) = match rest.split_once("share=") {
        Some((rest, share)) => (rest, share),
        None => (rest, "wf2q+"),
    };
    let share: PolicySpec = share.parse().map_err(|error| LabError::option(format!("@link: {error}")))?;
    if !share.is_share_alone() {
        return refuse(format!("a link has one sender, which a sharing policy shares; `{share}` is none"));
    }
    let mut queue = None;
    for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
        let given = match pair.split_once('=') {
            Some(("queue", "none")) => None,
            Some(("queue", packets)) => match packets.parse() {
                Ok(packets) if packets > 0 => Some(packets),
                _ => return refuse(format!("`queue` takes packets from 1, or none, not `{packets}`")),
            },
            _ => return refuse(format!("a link has RATE:queue=PACKETS,share=POLICY, not `{pair}`")),
        };
        if queue.replace(given).is_some() {
            return refuse("`queue` is given twice".to_owned());
        }
    }
    let queue = queue.unwrap_or(Some(QUEUE));
    Ok(LinkChoice { rate_bps: rate_bps.round() as u64, share, queue })
}

/// Shows a link as [`parse_link`] reads it.
pub(crate) fn show_link(link: &LinkChoice) -> String {
    let queue = link.queue.map_or_else(|| "none".to_owned(), |packets| packets.to_string());
    format!("{}bit:queue={queue},share={}", link.rate_bps, link.share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_read_back_as_shown() {
        let link = parse_link("1Gbit").unwrap();
        assert_eq!((link.rate_bps, link.queue, link.share.to_string().as_str()), (1_000_000_000, Some(QUEUE), "wf2q+"));
        let link = parse_link("2.5M:queue=none,share=drr:quantum=3000,surplus=true").unwrap();
        assert_eq!((link.rate_bps, link.queue), (2_500_000, None));
        assert_eq!(parse_link(&show_link(&link)).unwrap(), link);
    }

    #[test]
    fn slips_are_told() {
        for (text, said) in [
            ("fast", "link: a link has bits per second from 1 to 1e13, 1Gbit for example, not `fast`"),
            ("1G:share=dr", "did you mean `drr`?"),
            ("1G:share=hrw", "which a sharing policy shares; `hrw` is none"),
            ("1G:queue=0,share=drr", "`queue` takes packets from 1, or none, not `0`"),
            ("1G:queue=none,queue=8", "link: `queue` is given twice"),
            ("1G:queues=3", "a link has RATE:queue=PACKETS,share=POLICY, not `queues=3`"),
        ] {
            let error = parse_link(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
