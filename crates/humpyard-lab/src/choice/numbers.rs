//! Lists of numbers, as options have them.

use humpyard_core::unit::Weight;

use crate::LabError;

/// Reads numbers above 0, separated by commas, in thousandths.
///
/// # Errors
/// Anything else.
pub fn parse_speeds(text: &str) -> Result<Vec<u32>, LabError> {
    let permille = |part: &str| part.trim().parse::<f64>().ok().map(|speed| (speed * 1000.0).round());
    let parsed = text.split(',').map(|part| match permille(part) {
        Some(speed) if (1.0..=1e6).contains(&speed) => Ok(speed as u32),
        _ => Err(LabError::of_option(
            "speeds",
            format!(
                "takes numbers from 0.001 to 1000, separated by commas, 1,1,0.5 for example; not `{}`",
                part.trim()
            ),
        )),
    });
    parsed.collect()
}

/// Reads whole numbers from 1, separated by commas.
///
/// # Errors
/// Anything else.
pub fn parse_weights(text: &str) -> Result<Vec<Weight>, LabError> {
    let weight = |part: &str| part.trim().parse().ok().and_then(Weight::new);
    let parsed = text.split(',').map(|part| {
        weight(part).ok_or_else(|| {
            LabError::of_option(
                "weights",
                format!("takes whole numbers from 1 to {}, separated by commas, not `{}`", u32::MAX, part.trim()),
            )
        })
    });
    parsed.collect()
}
