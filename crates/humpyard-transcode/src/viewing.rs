//! Measures the quality of coded pictures: decodes them and compares them with their originals.

use ffmpeg_next::Error;
use ffmpeg_next::format::Pixel;
use ffmpeg_next::frame::Video;

use crate::Failure;
use crate::film::{Film, Gop};
use crate::rate::Rate;
use crate::transcoder::{Transcoder, decode};

/// Returns all pictures of a film, in display order.
///
/// # Errors
/// The failure of the first group that cannot be decoded.
pub fn pictures(film: &Film) -> Result<Vec<Video>, Failure> {
    let mut pictures = Vec::new();
    for gop in &film.gops {
        pictures.extend(decode(gop)?);
    }
    Ok(pictures)
}

/// Returns the pictures of a group, in display order.
///
/// # Errors
/// If the group cannot be decoded.
pub fn pictures_of(gop: &Gop) -> Result<Vec<Video>, Failure> {
    decode(gop)
}

/// Returns the expected output for pictures that come at `shown_at` per second: scaled, and dropped or repeated
/// for the rate.
///
/// # Errors
/// If a picture cannot be scaled.
pub fn expected(pictures: &[Video], shown_at: (u32, u32), rate: &Rate) -> Result<Vec<Video>, Error> {
    let mut scaler = Transcoder::new();
    let (first, end) = rate.shown((0, pictures.len() as u64), shown_at);
    (first..end).map(|number| scaler.scaled(&pictures[rate.seen(number, shown_at) as usize], rate)).collect()
}

/// Returns the peak signal-to-noise ratio of the brightness of two pictures, in dB; infinite if they are equal.
/// `None`: the sizes or formats differ, or the format is not planar with 8 bits.
pub fn psnr(one: &Video, other: &Video) -> Option<f64> {
    let shape = |picture: &Video| (picture.format(), picture.width(), picture.height());
    if shape(one) != shape(other) || one.format() != Pixel::YUV420P {
        return None;
    }
    let (width, height) = (one.width() as usize, one.height() as usize);
    let row = |picture: &Video, number: usize| -> Vec<u8> {
        let begin = number * picture.stride(0);
        picture.data(0)[begin..begin + width].to_vec()
    };
    let squares = |number| -> u64 {
        let pairs = row(one, number).into_iter().zip(row(other, number));
        pairs.map(|(one, other)| u64::from(one.abs_diff(other)).pow(2)).sum()
    };
    let mean = (0..height).map(squares).sum::<u64>() as f64 / (width * height) as f64;
    Some(10.0 * (255.0 * 255.0 / mean).log10())
}

/// Returns the least and the mean ratio over pairs of pictures. `None`: the numbers differ, or a pair is not
/// comparable.
pub fn likeness(one: &[Video], other: &[Video]) -> Option<(f64, f64)> {
    if one.len() != other.len() || one.is_empty() {
        return None;
    }
    let ratios: Option<Vec<f64>> = one.iter().zip(other).map(|(one, other)| psnr(one, other)).collect();
    let ratios: Vec<f64> = ratios?.into_iter().map(|ratio| ratio.min(100.0)).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    Some((least, ratios.iter().sum::<f64>() / ratios.len() as f64))
}
