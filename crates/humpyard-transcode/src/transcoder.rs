//! Transcodes groups of pictures to another rate: decodes, scales, repeats or drops pictures, and encodes.

use ffmpeg_next::codec::decoder::Check;
use ffmpeg_next::codec::{self, Context, Id};
use ffmpeg_next::format::Pixel;
use ffmpeg_next::frame::Video;
use ffmpeg_next::software::scaling;
use ffmpeg_next::{Dictionary, Error, Packet, Rational};

use crate::film::{Gop, prepare};
use crate::rate::Rate;
use crate::{Failure, Reason};

/// The state of a transcoding worker: its scalers. Decoders and encoders are new for each group, so the output
/// depends on the group alone.
#[derive(Default)]
pub struct Transcoder {
    scalers: Vec<(scaling::context::Definition, scaling::context::Definition, scaling::Context)>,
}

impl std::fmt::Debug for Transcoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transcoder").field("scalers", &self.scalers.len()).finish()
    }
}

impl Transcoder {
    /// Returns a transcoder without scalers.
    pub fn new() -> Self {
        prepare();
        Self::default()
    }

    /// Transcodes a group to MPEG-4 part 2 at this rate. Returns the bytes that follow those of the previous
    /// group in the output stream. Returns no bytes if that rate shows none of the group's pictures.
    ///
    /// # Errors
    /// If it cannot be decoded or encoded: the failure gives the byte in the stream.
    pub fn transcode(&mut self, gop: &Gop, rate: &Rate) -> Result<Vec<u8>, Failure> {
        let mut transcoding = Transcoding::begin(gop, rate)?;
        loop {
            if let Some(bytes) = self.go_on(&mut transcoding)? {
                return Ok(bytes);
            }
        }
    }

    /// Decodes or encodes the next picture of a group. Returns the bytes of the whole group after its last picture:
    /// those of [`Transcoder::transcode`], whichever transcoders have done the pictures.
    ///
    /// # Errors
    /// If it cannot be decoded or encoded: the failure gives the byte in the stream.
    ///
    /// # Panics
    /// If the group is done.
    pub fn go_on(&mut self, transcoding: &mut Transcoding<'_>) -> Result<Option<Vec<u8>>, Failure> {
        let Transcoding { gop, rate, stage } = transcoding;
        let gop = *gop;
        match stage {
            Stage::Decoding(decoding) => {
                if let Some(pictures) = decoding.go_on(gop)? {
                    let shown = (gop.first_picture, gop.first_picture + gop.pictures());
                    let (first, end) = rate.shown(shown, gop.track.rate);
                    if first == end {
                        return Ok(Some(Vec::new()));
                    }
                    let encoder = Encoder::new(rate, end - first);
                    let encoder = Some(encoder.map_err(|error| gop.failure(gop.offset(), Reason::Encoder, error))?);
                    *stage = Stage::Encoding(Encoding { encoder, pictures, next: first, end });
                }
                Ok(None)
            }
            Stage::Encoding(encoding) => {
                let encoded = encoding.go_on(self, gop, rate);
                encoded.map_err(|error| gop.failure(gop.offset(), Reason::Encoder, error))
            }
        }
    }

    /// Scales a picture to this rate's size.
    ///
    /// # Errors
    /// If it cannot be scaled.
    pub fn scaled(&mut self, picture: &Video, rate: &Rate) -> Result<Video, Error> {
        let from = definition(picture.format(), picture.width(), picture.height());
        let to = definition(Pixel::YUV420P, rate.width, rate.height);
        let place = self.scalers.iter().position(|(known, wanted, _)| (known, wanted) == (&from, &to));
        let place = match place {
            Some(place) => place,
            None => {
                let flags = scaling::Flags::BICUBIC | scaling::Flags::BITEXACT | scaling::Flags::ACCURATE_RND;
                let scaler =
                    scaling::Context::get(from.format, from.width, from.height, to.format, to.width, to.height, flags)?;
                self.scalers.push((from, to, scaler));
                self.scalers.len() - 1
            }
        };
        let mut scaled = Video::empty();
        self.scalers[place].2.run(picture, &mut scaled)?;
        Ok(scaled)
    }
}

const fn definition(format: Pixel, width: u32, height: u32) -> scaling::context::Definition {
    scaling::context::Definition { format, width, height }
}

/// Returns options for every codec: one thread, and output that does not depend on the processor.
pub(crate) fn options<'a>(more: &[(&str, &str)]) -> Dictionary<'a> {
    let mut options = Dictionary::new();
    for (name, value) in [("threads", "1"), ("flags", "+bitexact")].iter().chain(more) {
        options.set(name, value);
    }
    options
}

/// A group that is being transcoded to a rate, picture by picture. A policy with a quantum may give it to another
/// worker between two pictures: its decoder and encoder go with it.
pub struct Transcoding<'g> {
    gop: &'g Gop,
    rate: &'g Rate,
    stage: Stage,
}

impl std::fmt::Debug for Transcoding<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_decoded = matches!(self.stage, Stage::Encoding(_));
        f.debug_struct("Transcoding").field("rate", self.rate).field("is_decoded", &is_decoded).finish_non_exhaustive()
    }
}

impl<'g> Transcoding<'g> {
    /// Begins with a group; nothing of it is decoded yet.
    ///
    /// # Errors
    /// If there is no decoder for it, or it begins in the middle.
    pub fn begin(gop: &'g Gop, rate: &'g Rate) -> Result<Self, Failure> {
        Ok(Self { gop, rate, stage: Stage::Decoding(Decoding::begin(gop)?) })
    }
}

/// First all pictures of a group are decoded, then those that the rate shows are encoded.
enum Stage {
    Decoding(Decoding),
    Encoding(Encoding),
}

/// A group whose pictures are encoded one by one.
struct Encoding {
    /// `None`: the group is done.
    encoder: Option<Encoder>,
    pictures: Vec<Video>,
    /// The next picture of the output, and the one after the last.
    next: u64,
    end: u64,
}

impl Encoding {
    /// Encodes the next picture. Returns the bytes of the group after its last.
    fn go_on(&mut self, transcoder: &mut Transcoder, gop: &Gop, rate: &Rate) -> Result<Option<Vec<u8>>, Error> {
        let encoder = self.encoder.as_mut().expect("the group is not done");
        let picture = &self.pictures[(rate.seen(self.next, gop.track.rate) - gop.first_picture) as usize];
        let mut scaled = transcoder.scaled(picture, rate)?;
        scaled.set_pts(Some(self.next as i64));
        encoder.push(&scaled)?;
        self.next += 1;
        let done = if self.next == self.end { self.encoder.take() } else { None };
        done.map(Encoder::finish).transpose()
    }
}

/// A group whose pictures are decoded one by one.
struct Decoding {
    decoder: codec::decoder::Video,
    /// Pictures that the decoder was given.
    given: usize,
    pictures: Vec<Video>,
}

impl Decoding {
    fn begin(gop: &Gop) -> Result<Self, Failure> {
        if !gop.begins_with_key {
            return Err(gop.failure(gop.offset(), Reason::NoKeyPicture, "it cannot be decoded from its beginning"));
        }
        let parameters = gop.track.parameters.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let decoder = decoder(parameters).map_err(|error| gop.failure(gop.offset(), Reason::Damaged, error))?;
        Ok(Self { decoder, given: 0, pictures: Vec::with_capacity(gop.pictures.len()) })
    }

    /// Decodes the next picture. Returns all of them, in display order, after the last.
    fn go_on(&mut self, gop: &Gop) -> Result<Option<Vec<Video>>, Failure> {
        let Self { decoder, given, pictures } = self;
        let damaged = |offset, error: Error| gop.failure(offset, Reason::Damaged, error);
        if let Some(picture) = gop.pictures.get(*given) {
            let mut packet = Packet::copy(&picture.data);
            // The decoder needs times to tell pictures apart.
            packet.set_dts(Some(*given as i64));
            *given += 1;
            let sent = decoder.send_packet(&packet).and_then(|()| receive(decoder, pictures));
            return sent.map(|()| None).map_err(|error| damaged(picture.bytes.start, error));
        }
        let drained = decoder.send_eof().and_then(|()| receive(decoder, pictures));
        drained.map_err(|error| damaged(gop.offset(), error))?;
        if pictures.len() != gop.pictures.len() {
            let detail = format!("{} of {} pictures were decoded", pictures.len(), gop.pictures.len());
            return Err(gop.failure(gop.offset(), Reason::Incomplete, detail));
        }
        Ok(Some(std::mem::take(pictures)))
    }
}

/// Returns the pictures of a group, in display order.
pub(crate) fn decode(gop: &Gop) -> Result<Vec<Video>, Failure> {
    let mut decoding = Decoding::begin(gop)?;
    loop {
        if let Some(pictures) = decoding.go_on(gop)? {
            return Ok(pictures);
        }
    }
}

/// Returns a decoder that rejects damaged data instead of guessing.
fn decoder(parameters: codec::Parameters) -> Result<codec::decoder::Video, Error> {
    let id = parameters.id();
    let codec = codec::decoder::find(id).ok_or(Error::DecoderNotFound)?;
    let mut decoder = Context::from_parameters(parameters)?.decoder();
    decoder.check(Check::CRC | Check::BITSTREAM | Check::BUFFER | Check::EXPLODE);
    decoder.open_as_with(codec, options(&[]))?.video()
}

/// Takes all pictures that the decoder has finished.
fn receive(decoder: &mut codec::decoder::Video, pictures: &mut Vec<Video>) -> Result<(), Error> {
    loop {
        let mut picture = Video::empty();
        match decoder.receive_frame(&mut picture) {
            // The decoder concealed damage, and reports it.
            Ok(()) if picture.is_corrupt() || picture.has_decode_errors() => return Err(Error::InvalidData),
            Ok(()) => pictures.push(picture),
            Err(Error::Eof | Error::Other { errno: ffmpeg_next::error::EAGAIN }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// The encoder's buffer has the bits of at least this many pictures: it refuses a buffer for a single one.
const PICTURES_MIN: u64 = 4;
/// Most pictures between key pictures that libav's encoder accepts.
const GROUP_MAX: u32 = 600;
/// The encoder's first guess of a picture's complexity: bits of a block at the finest quantizer. It keeps the
/// first pictures of a group from using the bits of all.
const COMPLEXITY: &str = "30000";
/// Disables key pictures at scene changes.
pub(crate) const NO_CUTS: (&str, &str) = ("sc_threshold", "1000000000");

/// An encoder of one group.
pub(crate) struct Encoder {
    encoder: codec::encoder::video::Encoder,
    bytes: Vec<u8>,
}

impl Encoder {
    /// Returns an MPEG-4 encoder for one group of this many pictures, limited to the bits of the rate.
    fn new(rate: &Rate, pictures: u64) -> Result<Self, Error> {
        let gop = u32::try_from(pictures).unwrap_or(u32::MAX).clamp(1, GROUP_MAX);
        let (pictures_per_second, seconds) = rate.pictures_per_second;
        let together = pictures.max(PICTURES_MIN) * u64::from(seconds);
        let bits = u64::from(rate.bits_per_second) * together / u64::from(pictures_per_second);
        let [bits, bits_per_second] = [bits, u64::from(rate.bits_per_second)].map(|number| number.to_string());
        let more = [("bufsize", bits.as_str()), ("maxrate", &bits_per_second), ("rc_init_cplx", COMPLEXITY), NO_CUTS];
        Self::open(Id::MPEG4, rate, gop, &more)
    }

    /// Returns an encoder for any codec.
    pub(crate) fn open(id: Id, rate: &Rate, gop: u32, more: &[(&str, &str)]) -> Result<Self, Error> {
        let codec = codec::encoder::find(id).ok_or(Error::EncoderNotFound)?;
        let mut encoder = Context::new_with_codec(codec).encoder().video()?;
        let (pictures, seconds) = rate.pictures_per_second;
        encoder.set_width(rate.width);
        encoder.set_height(rate.height);
        encoder.set_format(Pixel::YUV420P);
        encoder.set_time_base(Rational::new(seconds as i32, pictures as i32));
        encoder.set_frame_rate(Some(Rational::new(pictures as i32, seconds as i32)));
        encoder.set_bit_rate(rate.bits_per_second as usize);
        encoder.set_gop(gop);
        let encoder = encoder.open_as_with(codec, options(more))?;
        Ok(Self { encoder, bytes: Vec::new() })
    }

    pub(crate) fn push(&mut self, picture: &Video) -> Result<(), Error> {
        self.encoder.send_frame(picture)?;
        self.receive()
    }

    pub(crate) fn finish(mut self) -> Result<Vec<u8>, Error> {
        self.encoder.send_eof()?;
        self.receive()?;
        Ok(self.bytes)
    }

    fn receive(&mut self) -> Result<(), Error> {
        loop {
            let mut packet = Packet::empty();
            match self.encoder.receive_packet(&mut packet) {
                Ok(()) => self.bytes.extend(packet.data().unwrap_or_default()),
                Err(Error::Eof | Error::Other { errno: ffmpeg_next::error::EAGAIN }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}
