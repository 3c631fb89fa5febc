//! Transcoding as work for a scheduler. Streams of video are cut into groups of pictures, and libav transcodes
//! each group on any core.
//!
//! A group of pictures (GOP) is to a stream what a packet is to a flow. `Film` reads one stream, in MPEG-1,
//! MPEG-4 part 2 or H.264, and cuts it where no later picture needs an earlier one. `Transcoder` turns a `Gop`
//! into pictures of another [`Rate`]; the bytes are the same for every worker and time. A policy decides which
//! worker does it; the host asks it. A group that takes long is a `Transcoding`, which may go to another worker after
//! each picture.
//!
//! The feature `transcode` enables the parts that call libav. It links with the distribution's FFmpeg, which
//! Debian builds under the GPL: do not distribute the linked program under other terms. [`rtp`] and [`picture`]
//! need no feature.
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
pub use transcoder::{Transcoder, Transcoding};

use std::fmt;

/// Why a group of pictures was not transcoded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// Its decoder rejects the bytes.
    Damaged,
    /// The decoder returned fewer pictures than the group has.
    Incomplete,
    /// It begins in the middle: its stream has no key picture before it.
    NoKeyPicture,
    /// The pictures cannot be encoded.
    Encoder,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Damaged, Self::Incomplete, Self::NoKeyPicture, Self::Encoder];

    /// Returns the name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Incomplete => "incomplete",
            Self::NoKeyPicture => "no_key_picture",
            Self::Encoder => "encoder",
        }
    }
}

/// Why a group was not transcoded, or why reading a stream stopped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("stream {stream}, byte {offset} of its video: {}: {detail}", reason.name())]
#[non_exhaustive]
pub struct Failure {
    /// The number of the stream, as given to its reader.
    pub stream: usize,
    /// The offset in the stream's video: the first byte of the picture or group with the error.
    pub offset: u64,
    /// The kind of error.
    pub reason: Reason,
    /// Details, in libav's words or ours.
    pub detail: String,
}

impl Failure {
    #[cfg(feature = "transcode")]
    fn new(stream: usize, offset: u64, reason: Reason, detail: impl fmt::Display) -> Self {
        Self { stream, offset, reason, detail: detail.to_string() }
    }
}

/// Counts of groups of pictures: each group that came in went out, or was dropped for a named reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Account {
    /// Groups that came in.
    pub gops_in: u64,
    /// Groups that went out.
    pub gops_out: u64,
    /// Groups dropped, by reason, in the order of [`Reason::ALL`].
    pub dropped: [u64; Reason::ALL.len()],
}

impl Account {
    /// Counts a group that came in and went out.
    pub fn transcoded(&mut self) {
        self.gops_in += 1;
        self.gops_out += 1;
    }

    /// Counts a group that came in and was dropped.
    pub fn dropped(&mut self, reason: Reason) {
        self.gops_in += 1;
        self.dropped[reason as usize] += 1;
    }

    /// Returns the number of groups dropped for any reason.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Returns whether no group is lost: in = out + dropped.
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
