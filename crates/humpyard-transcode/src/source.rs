//! Films that are made here: pictures from libavfilter's sources, coded as the paper's films are.

use ffmpeg_next::Error;
use ffmpeg_next::codec::Id;
use ffmpeg_next::filter::{self, Graph};
use ffmpeg_next::frame::Video;

use crate::film::prepare;
use crate::picture::Codec;
use crate::rate::Rate;
use crate::transcoder::{Encoder, NO_CUTS};

/// What is to be seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pattern {
    /// A test card with things that move.
    TestCard,
    /// The old test card, with a clock.
    Clock,
    /// Into the Mandelbrot set.
    Mandelbrot,
    /// Colours that run into each other.
    Gradients,
    /// Bars that move sideways.
    Bars,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::TestCard, Self::Clock, Self::Mandelbrot, Self::Gradients, Self::Bars];

    /// The source of libavfilter, at this rate.
    fn filter(self, rate: &Rate) -> String {
        let Rate { width, height, pictures_per_second: (pictures, seconds), .. } = *rate;
        let of = |name: &str, more: &str| format!("{name}=size={width}x{height}:rate={pictures}/{seconds}{more}");
        match self {
            Self::TestCard => of("testsrc2", ""),
            Self::Clock => of("testsrc", ""),
            Self::Mandelbrot => of("mandelbrot", ""),
            // The seed decides where they run. Colours that are not named are drawn anew each time, whatever the seed.
            Self::Gradients => of("gradients", ":seed=1:c0=0x1040ff:c1=0xffb020:speed=0.02"),
            Self::Bars => of("smptehdbars", ",scroll=horizontal=0.004:vertical=0.002"),
        }
    }
}

/// So many pictures of a pattern, at this rate.
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

/// How pictures are coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coding {
    /// The codec.
    pub codec: Codec,
    /// Pictures of a group.
    pub group: u32,
    /// Whether no picture needs any of the group before. Else the first ones that are shown of a group do, but for MPEG-4, which is
    /// coded without pictures that look both ways.
    pub is_closed: bool,
}

/// Codes pictures at this rate: an elementary stream with start codes. MPEG-1 and H.264 have two pictures between others that are
/// coded from both sides; MPEG-1 takes only the picture rates of its standard.
///
/// # Errors
/// If libav has no such encoder, or it refuses the rate.
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
