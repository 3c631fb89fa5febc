//! Reads a stream of video, and cuts it into groups of pictures.

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

/// Loads libav's error messages, once, and silences its log: errors are returned here instead.
pub(crate) fn prepare() {
    use std::sync::Once;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // This only registers formats and codecs, which cannot fail.
        let _ = ffmpeg_next::init();
        ffmpeg_next::log::set_level(ffmpeg_next::log::Level::Quiet);
    });
}

/// A coded picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Picture {
    /// The range of its bytes in the stream's video.
    pub(crate) bytes: Range<u64>,
    pub(crate) data: Vec<u8>,
}

/// The properties that all groups of a stream share.
pub(crate) struct Track {
    pub(crate) stream: usize,
    pub(crate) parameters: std::sync::Mutex<Parameters>,
    /// Pictures per second, as a fraction.
    pub(crate) rate: (u32, u32),
}

impl std::fmt::Debug for Track {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Track").field("stream", &self.stream).field("rate", &self.rate).finish_non_exhaustive()
    }
}

/// A group of pictures. It contains everything that its decoder needs, so any thread may transcode it.
#[derive(Clone, Debug)]
pub struct Gop {
    pub(crate) track: Arc<Track>,
    /// Its place in the stream, from 0.
    pub number: u64,
    /// The number of its first picture in the stream, in display order.
    pub first_picture: u64,
    pub(crate) begins_with_key: bool,
    pub(crate) pictures: Vec<Picture>,
}

impl Gop {
    /// Returns the number of its stream, as given to [`Film::read`].
    pub fn stream(&self) -> usize {
        self.track.stream
    }

    /// Returns the number of its pictures.
    pub fn pictures(&self) -> u64 {
        self.pictures.len() as u64
    }

    /// Returns its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.pictures.iter().map(|picture| picture.bytes.end - picture.bytes.start).sum()
    }

    /// Returns the offset of its first byte in the stream's video.
    pub fn offset(&self) -> u64 {
        self.pictures.first().map_or(0, |picture| picture.bytes.start)
    }

    /// Returns a copy of its bytes.
    pub fn coded(&self) -> Vec<u8> {
        self.pictures.iter().flat_map(|picture| &picture.data).copied().collect()
    }

    pub(crate) fn failure(&self, offset: u64, reason: Reason, detail: impl std::fmt::Display) -> Failure {
        Failure::new(self.stream(), offset, reason, detail)
    }
}

/// A stream in memory, cut into groups.
#[derive(Clone, Debug)]
pub struct Film {
    /// The codec.
    pub codec: Codec,
    /// Width and height of its pictures, from its headers.
    pub size: (u32, u32),
    /// Pictures per second, as a fraction.
    pub rate: (u32, u32),
    /// Its groups of pictures, in order.
    pub gops: Vec<Gop>,
    /// Why reading stopped early. `None`: it reached the end.
    pub ended: Option<Failure>,
}

impl Film {
    /// Reads a stream from the bytes of a file: an elementary stream, or a container that libav reads. H.264
    /// needs start codes. `stream` is the stream's number in groups and errors. `rate`, in pictures per second,
    /// overrides the rate in the stream.
    ///
    /// A group begins where no later picture needs an earlier one:
    ///
    /// - H.264: at an IDR picture.
    /// - MPEG-1 and MPEG-4: at a key picture whose group is marked closed, or whose next picture is not a B
    ///   picture.
    ///
    /// Pictures before the first such key picture form a group that cannot be decoded.
    ///
    /// # Errors
    /// If libav finds no video of the three codecs.
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

    /// Returns the number of its pictures.
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

/// Returns whether this container stores H.264 units behind their lengths, instead of between start codes.
fn has_lengths(input: &Input) -> bool {
    let name = input.format().name().to_owned();
    ["mov", "matroska", "flv"].iter().any(|container| name.contains(container))
}

/// Reads packets up to the end of the input.
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

/// Cuts a sequence of pictures into groups.
struct Cutter {
    codec: Codec,
    track: Arc<Track>,
    offset: u64,
    pictures: u64,
    /// A key picture. The next picture decides whether it begins a group.
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

    /// Takes the next picture, in coded order.
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
            // Later pictures may need pictures from before this one, whatever the next one is.
            self.group.push(picture);
        } else {
            self.pending = Some(picture);
        }
    }

    /// Begins a group at a key picture.
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
