//! Video as work: streams are cut to groups of pictures, each of which can be transcoded on any core, and libav does that.
//!
//! A group of pictures (GOP) is to a stream what a packet is to a flow. `Film` reads one stream, in MPEG-1, MPEG-4 part 2 or
//! H.264, and cuts it where nothing later needs anything earlier; `Transcoder` makes pictures of another [`Rate`] of a
//! `Gop`, the same bytes whichever worker does it and when. Which worker does it, a policy decides, and the host is who asks it.
//!
//! What talks to libav is behind the feature `transcode`: it links with the distribution's FFmpeg, which Debian builds
//! under the GPL, so that what is linked with it must not be handed on under other terms. [`rtp`] and [`picture`] are always there.
//!
//! ```
//! use humpyard_transcode::picture::{Codec, signs, units};
//! use humpyard_transcode::{OUTPUTS, SOURCE};
//!
//! // Parameters, then the start of an IDR picture: a decoder can begin here.
//! let stream = [0, 0, 1, 0x67, 66, 0, 0, 1, 0x65, 0x88];
//! assert_eq!(units(&stream).count(), 2);
//! assert!(signs(Codec::H264, &stream).is_closed);
//!
//! // Of 30 pictures of the source, 16 are shown at 15 pictures a second: the last ends after the next group begins.
//! let (first, end) = OUTPUTS[0].shown((0, 30), SOURCE.pictures_per_second);
//! assert_eq!((first, end), (0, 16));
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "transcode")]
mod film;
pub mod picture;
mod rate;
pub mod rtp;
#[cfg(feature = "transcode")]
pub mod source;
#[cfg(feature = "transcode")]
mod transcoder;
#[cfg(feature = "transcode")]
pub mod viewing;

#[cfg(feature = "transcode")]
pub use film::{Film, Gop};
pub use picture::Codec;
pub use rate::{OUTPUTS, Rate, SOURCE};
#[cfg(feature = "transcode")]
pub use transcoder::Transcoder;

use std::fmt;

/// Why a group of pictures was not transcoded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// Its bytes are not what its decoder takes.
    Damaged,
    /// Fewer pictures came of it than it has.
    Incomplete,
    /// It begins in the middle: its stream has no key picture before it.
    NoKeyPicture,
    /// What cannot be encoded.
    Encoder,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Damaged, Self::Incomplete, Self::NoKeyPicture, Self::Encoder];

    /// Its name, as results have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Incomplete => "incomplete",
            Self::NoKeyPicture => "no_key_picture",
            Self::Encoder => "encoder",
        }
    }
}

/// A group of pictures that was not transcoded, or a stream that cannot be read on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("stream {stream}, byte {offset} of its video: {}: {detail}", reason.name())]
#[non_exhaustive]
pub struct Failure {
    /// The number of the stream, as its reader was told.
    pub stream: usize,
    /// Where in the stream's video: the first byte of the picture, or group, at which it was noticed.
    pub offset: u64,
    /// What is wrong.
    pub reason: Reason,
    /// The same, in libav's words or ours.
    pub detail: String,
}

impl Failure {
    #[cfg(feature = "transcode")]
    fn new(stream: usize, offset: u64, reason: Reason, detail: impl fmt::Display) -> Self {
        Self { stream, offset, reason, detail: detail.to_string() }
    }
}

/// What became of groups of pictures: each that came in went out, or was dropped for a named reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Account {
    /// Came in.
    pub gops_in: u64,
    /// Went out.
    pub gops_out: u64,
    /// Dropped, by reason, as [`Reason::ALL`] has them.
    pub dropped: [u64; Reason::ALL.len()],
}

impl Account {
    /// One came in and went out.
    pub fn transcoded(&mut self) {
        self.gops_in += 1;
        self.gops_out += 1;
    }

    /// One came in and was dropped.
    pub fn dropped(&mut self, reason: Reason) {
        self.gops_in += 1;
        self.dropped[reason as usize] += 1;
    }

    /// All that were dropped.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Whether nothing is lost: in = out + dropped.
    pub fn holds(&self) -> bool {
        self.gops_in == self.gops_out + self.dropped_in_all()
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} groups of pictures in, {} out", self.gops_in, self.gops_out)?;
        let reasons = Reason::ALL.iter().zip(self.dropped).filter(|&(_, count)| count > 0);
        reasons.into_iter().try_for_each(|(reason, count)| write!(f, ", {count} dropped ({})", reason.name()))
    }
}
