//! Makes test films: pictures from libavfilter's sources, coded like the paper's films.

use ffmpeg_next::Error;
use ffmpeg_next::codec::Id;
use ffmpeg_next::filter::{self, Graph};
use ffmpeg_next::frame::Video;

use crate::film::prepare;
use crate::picture::Codec;
use crate::rate::Rate;
use crate::transcoder::{Encoder, NO_CUTS};

/// The contents of a film.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pattern {
    /// A test card with moving parts.
    TestCard,
    /// The old test card, with a clock.
    Clock,
    /// A zoom into the Mandelbrot set.
    Mandelbrot,
    /// Colours that blend into each other.
    Gradients,
    /// Bars that move sideways.
    Bars,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 5] = [Self::TestCard, Self::Clock, Self::Mandelbrot, Self::Gradients, Self::Bars];

    /// Returns the libavfilter source, at this rate.
    fn filter(self, rate: &Rate) -> String {
        let Rate { width, height, pictures_per_second: (pictures, seconds), .. } = *rate;
        let of = |name: &str, more: &str| format!("{name}=size={width}x{height}:rate={pictures}/{seconds}{more}");
        match self {
            Self::TestCard => of("testsrc2", ""),
            Self::Clock => of("testsrc", ""),
            Self::Mandelbrot => of("mandelbrot", ""),
            // The seed decides the motion. libavfilter draws colours that are not named anew each time,
            // whatever the seed.
            Self::Gradients => of("gradients", ":seed=1:c0=0x1040ff:c1=0xffb020:speed=0.02"),
            Self::Bars => of("smptehdbars", ",scroll=horizontal=0.004:vertical=0.002"),
        }
    }
}

/// Returns `count` pictures of a pattern, at this rate.
///
/// # Errors
/// If libavfilter has no such source.
pub fn pictures(pattern: Pattern, rate: &Rate, count: u64) -> Result<Vec<Video>, Error> {
    prepare();
    let mut graph = Graph::new();
    graph.add(&filter::find("buffersink").ok_or(Error::FilterNotFound)?, "out", "")?;
    graph.input("out", 0)?.parse(&format!("{},format=yuv420p[out]", pattern.filter(rate)))?;
    graph.validate()?;
    let mut sink = graph.get("out").ok_or(Error::FilterNotFound)?;
    let picture = |number: u64| {
        let mut picture = Video::empty();
        sink.sink().frame(&mut picture)?;
        picture.set_pts(Some(number as i64));
        picture.set_kind(ffmpeg_next::picture::Type::None);
        Ok(picture)
    };
    (0..count).map(picture).collect()
}

/// How a film is coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coding {
    /// The codec.
    pub codec: Codec,
    /// Pictures per group.
    pub group: u32,
    /// Whether no picture needs the group before its own. Otherwise the first pictures of a group do; not in
    /// MPEG-4, which is coded without B pictures.
    pub is_closed: bool,
}

/// Codes pictures at this rate as an elementary stream with start codes. MPEG-1 and H.264 use two B pictures
/// between others. MPEG-1 accepts only the picture rates of its standard.
///
/// # Errors
/// If libav has no such encoder, or the encoder refuses the rate.
pub fn encode(coding: Coding, rate: &Rate, pictures: &[Video]) -> Result<Vec<u8>, Error> {
    prepare();
    let flags = ("flags", if coding.is_closed { "+cgop+bitexact" } else { "+bitexact" });
    let h264 = if coding.is_closed { "scenecut=0:open-gop=0" } else { "scenecut=0:open-gop=1" };
    let both_ways = ("bf", "2");
    let (id, more): (Id, &[(&str, &str)]) = match coding.codec {
        Codec::Mpeg1 => (Id::MPEG1VIDEO, &[flags, both_ways, NO_CUTS]),
        Codec::Mpeg4 => (Id::MPEG4, &[flags, NO_CUTS]),
        Codec::H264 => (Id::H264, &[("preset", "veryfast"), flags, both_ways, ("x264-params", h264)]),
    };
    let mut encoder = Encoder::open(id, rate, coding.group, more)?;
    pictures.iter().try_for_each(|picture| encoder.push(picture))?;
    encoder.finish()
}
