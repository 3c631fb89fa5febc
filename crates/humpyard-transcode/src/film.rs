//! A stream of video, cut to groups of pictures.

use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;

use ffmpeg_next::codec::{Id, Parameters};
use ffmpeg_next::format::context::StreamIo;
use ffmpeg_next::format::{self, context::Input};
use ffmpeg_next::media::Type;
use ffmpeg_next::{Error, Rational};

use crate::picture::{Codec, Signs, signs};
use crate::{Failure, Reason};

/// Loads libav's words for errors, once, and silences what it would print: whatever it finds comes as an error here.
pub(crate) fn prepare() {
    use std::sync::Once;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It registers what is there, and nothing of that fails.
        let _ = ffmpeg_next::init();
        ffmpeg_next::log::set_level(ffmpeg_next::log::Level::Quiet);
    });
}

/// A coded picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Picture {
    /// Its bytes, of those of the stream's video.
    pub(crate) bytes: Range<u64>,
    pub(crate) data: Vec<u8>,
}

/// What all groups of a stream have in common.
pub(crate) struct Track {
    pub(crate) stream: usize,
    pub(crate) parameters: std::sync::Mutex<Parameters>,
    /// Pictures a second.
    pub(crate) rate: (u32, u32),
}

impl std::fmt::Debug for Track {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Track").field("stream", &self.stream).field("rate", &self.rate).finish_non_exhaustive()
    }
}

/// A group of pictures: whatever it needs to be decoded is in it. Any thread may take it.
#[derive(Clone, Debug)]
pub struct Gop {
    pub(crate) track: Arc<Track>,
    /// Where it is in its stream, from 0.
    pub number: u64,
    /// The number of its first picture in the stream, in the order in which they are shown.
    pub first_picture: u64,
    pub(crate) begins_with_key: bool,
    pub(crate) pictures: Vec<Picture>,
}

impl Gop {
    /// The number of its stream, as the reader was told.
    pub fn stream(&self) -> usize {
        self.track.stream
    }

    /// How many pictures it has.
    pub fn pictures(&self) -> u64 {
        self.pictures.len() as u64
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.pictures.iter().map(|picture| picture.bytes.end - picture.bytes.start).sum()
    }

    /// The place of its first byte in the stream's video.
    pub fn offset(&self) -> u64 {
        self.pictures.first().map_or(0, |picture| picture.bytes.start)
    }

    /// Its bytes.
    pub fn coded(&self) -> Vec<u8> {
        self.pictures.iter().flat_map(|picture| &picture.data).copied().collect()
    }

    pub(crate) fn failure(&self, offset: u64, reason: Reason, detail: impl std::fmt::Display) -> Failure {
        Failure::new(self.stream(), offset, reason, detail)
    }
}

/// A stream that was read.
#[derive(Clone, Debug)]
pub struct Film {
    /// How it is coded.
    pub codec: Codec,
    /// Width and height of its pictures, as its headers say.
    pub size: (u32, u32),
    /// Pictures a second, as a fraction.
    pub rate: (u32, u32),
    /// Its groups of pictures, in order.
    pub gops: Vec<Gop>,
    /// Why it was not read to its end, if it was not.
    pub ended: Option<Failure>,
}

impl Film {
    /// Reads a stream from what is in a file: an elementary stream, or a container that libav reads; H.264 needs start codes.
    /// The stream has this number in groups and errors; `rate` is its pictures a second where that is known better than the
    /// stream says.
    ///
    /// Groups begin where nothing later needs anything earlier: at an IDR picture of H.264; at a key picture of MPEG-1 and
    /// MPEG-4 whose group is marked closed, or behind which no picture comes that is shown before it. Pictures before the first
    /// such one are a group, too, which cannot be decoded.
    ///
    /// # Errors
    /// If libav finds no video of the three codecs in it.
    pub fn read(stream: usize, bytes: Vec<u8>, rate: Option<(u32, u32)>) -> Result<Self, Failure> {
        prepare();
        let failure = |error: &dyn std::fmt::Display| Failure::new(stream, 0, Reason::Damaged, error);
        let mut input = open(bytes).map_err(|error| failure(&error))?;
        let video = input.streams().best(Type::Video).ok_or_else(|| failure(&"there is no video"))?;
        let (index, parameters) = (video.index(), video.parameters());
        let codec = codec_of(parameters.id())
            .ok_or_else(|| failure(&format!("a codec that is not known: {:?}", parameters.id())))?;
        if codec == Codec::H264 && has_lengths(&input) {
            return Err(failure(
                &"H.264 is read from containers with start codes alone: elementary streams, MPEG, AVI",
            ));
        }
        let rate =
            rate.or_else(|| fraction(video.avg_frame_rate())).or_else(|| fraction(video.rate())).unwrap_or((25, 1));
        let decoder = ffmpeg_next::codec::Context::from_parameters(parameters.clone())
            .and_then(|context| context.decoder().video())
            .map_err(|error| failure(&error))?;
        let size = (decoder.width(), decoder.height());
        let track = Track { stream, parameters: std::sync::Mutex::new(parameters), rate };
        let mut cutter = Cutter::new(codec, track);
        let ended = read_on(&mut input, index, &mut cutter).err();
        let ended = ended.map(|error| Failure::new(stream, cutter.offset, Reason::Damaged, error));
        Ok(Self { codec, size, rate, gops: cutter.finish(), ended })
    }

    /// How many pictures it has.
    pub fn pictures(&self) -> u64 {
        self.gops.iter().map(Gop::pictures).sum()
    }
}

fn open(bytes: Vec<u8>) -> Result<Input, Error> {
    format::input_from_stream(StreamIo::from_read_seek(Cursor::new(bytes))?, None, None)
}

fn codec_of(id: Id) -> Option<Codec> {
    Some(match id {
        Id::MPEG1VIDEO | Id::MPEG2VIDEO => Codec::Mpeg1,
        Id::MPEG4 => Codec::Mpeg4,
        Id::H264 => Codec::H264,
        _ => return None,
    })
}

fn fraction(rate: Rational) -> Option<(u32, u32)> {
    let part = |number: i32| u32::try_from(number).ok().filter(|&number| number > 0);
    part(rate.numerator()).zip(part(rate.denominator()))
}

/// Whether units of H.264 stand behind their lengths in this container, rather than between start codes.
fn has_lengths(input: &Input) -> bool {
    let name = input.format().name().to_owned();
    ["mov", "matroska", "flv"].iter().any(|container| name.contains(container))
}

/// Reads packets to the end.
fn read_on(input: &mut Input, index: usize, cutter: &mut Cutter) -> Result<(), Error> {
    let mut packet = ffmpeg_next::Packet::empty();
    loop {
        match packet.read(input) {
            Ok(()) if packet.stream() == index => cutter.push(packet.data().unwrap_or_default(), packet.is_key()),
            Ok(()) => {}
            Err(Error::Eof) => return Ok(()),
            Err(error) => return Err(error),
        }
        packet = ffmpeg_next::Packet::empty();
    }
}

/// Cuts pictures to groups as they come.
struct Cutter {
    codec: Codec,
    track: Arc<Track>,
    offset: u64,
    pictures: u64,
    /// A key picture of which the next will tell whether a group begins there.
    pending: Option<Picture>,
    group: Vec<Picture>,
    begins_with_key: bool,
    gops: Vec<Gop>,
}

impl Cutter {
    fn new(codec: Codec, track: Track) -> Self {
        Self {
            codec,
            track: Arc::new(track),
            offset: 0,
            pictures: 0,
            pending: None,
            group: Vec::new(),
            begins_with_key: false,
            gops: Vec::new(),
        }
    }

    /// The next picture in coded order.
    fn push(&mut self, data: &[u8], is_key: bool) {
        let begin = self.offset;
        self.offset += data.len() as u64;
        let picture = Picture { bytes: begin..self.offset, data: data.to_vec() };
        let Signs { is_closed, looks_both_ways } = signs(self.codec, data);
        if let Some(key) = self.pending.take() {
            if !looks_both_ways {
                self.begin();
            }
            self.group.push(key);
        }
        if !is_key {
            self.group.push(picture);
        } else if is_closed {
            self.begin();
            self.group.push(picture);
        } else if self.codec == Codec::H264 {
            // What follows may need pictures from before it, whatever the next one is.
            self.group.push(picture);
        } else {
            self.pending = Some(picture);
        }
    }

    /// A key picture begins a group.
    fn begin(&mut self) {
        self.end();
        self.begins_with_key = true;
    }

    fn end(&mut self) {
        let pictures = core::mem::take(&mut self.group);
        if pictures.is_empty() {
            return;
        }
        let first_picture = self.pictures;
        self.pictures += pictures.len() as u64;
        self.gops.push(Gop {
            track: Arc::clone(&self.track),
            number: self.gops.len() as u64,
            first_picture,
            begins_with_key: self.begins_with_key,
            pictures,
        });
    }

    fn finish(mut self) -> Vec<Gop> {
        if let Some(key) = self.pending.take() {
            self.begin();
            self.group.push(key);
        }
        self.end();
        self.gops
    }
}
