//! The films: patterns of libavfilter, coded like the paper's films: 20 at a time, five for each of four rates.

use std::sync::Arc;

use humpyard_transcode::source::{Coding, Pattern, encode, pictures};
use humpyard_transcode::{Codec, Failure, Film, Gop, OUTPUTS, Rate, SOURCE, Transcoder};

use humpyard_lab::LabError;

/// Pictures per group: half a second.
pub(super) const GROUP: u32 = 15;
/// Number of films at a time.
pub(super) const STREAMS: usize = 20;

/// A group of pictures to transcode.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) gop: Arc<Gop>,
    pub(super) rate: &'static Rate,
}

impl Work {
    pub(super) fn done(&self, transcoder: &mut Transcoder) -> Result<Vec<u8>, Failure> {
        transcoder.transcode(&self.gop, self.rate)
    }
}

/// A film to transcode to another: its groups in order.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) work: Vec<Work>,
}

/// Returns a film of this pattern, with this many groups.
///
/// # Errors
/// If libav has no such encoder, with libav's message.
pub(super) fn film(stream: usize, codec: Codec, pattern: Pattern, groups: u64) -> Result<Film, LabError> {
    let coding = Coding { codec, group: GROUP, is_closed: true };
    let count = groups * u64::from(GROUP);
    let bytes = pictures(pattern, &SOURCE, count).and_then(|pictures| encode(coding, &SOURCE, &pictures));
    let bytes = bytes.map_err(|error| LabError::option(format!("libav makes no film in {}: {error}", codec.name())))?;
    read(stream, bytes)
}

/// Reads the film in these bytes.
///
/// # Errors
/// If there is no film.
pub(super) fn read(stream: usize, bytes: Vec<u8>) -> Result<Film, LabError> {
    Film::read(stream, bytes, None).map_err(|failure| LabError::option(failure.to_string()))
}

/// Returns all films, each with this many groups: five films are made, and each is transcoded to four rates.
///
/// # Errors
/// If libav has no such encoder, with libav's message.
pub(super) fn streams(groups: u64) -> Result<Vec<Stream>, LabError> {
    let films: Result<Vec<Film>, LabError> = Pattern::ALL
        .into_iter()
        .zip(Codec::ALL.into_iter().cycle())
        .enumerate()
        .map(|(number, (pattern, codec))| film(number, codec, pattern, groups))
        .collect();
    let films = films?;
    let stream = |number: usize| of_film(&films[number / OUTPUTS.len()], &OUTPUTS[number % OUTPUTS.len()], groups);
    Ok((0..STREAMS).map(stream).collect())
}

/// Returns the first groups of a film, to transcode to this rate.
pub(super) fn of_film(film: &Film, rate: &'static Rate, groups: u64) -> Stream {
    let gops = film.gops.iter().take(groups as usize);
    Stream { work: gops.map(|gop| Work { gop: Arc::new(gop.clone()), rate }).collect() }
}
