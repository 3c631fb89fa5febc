//! `ffmpeg`: groups of pictures of films to transcode, one packet each.

use humpyard_core::params;
use humpyard_core::random::{Random, Seed};

use super::addresses::Addresses;
use super::laws::LogNormal;
use super::model::{Generator, Model};
use super::packet::Version;
use super::profile::{OpenedSource, Opener, Profile};
use super::protocol::Protocol;
use super::sketch::{Sketch, Transport};

/// Output formats: million pixels/s to encode. SQCIF, QCIF, CIF and 4CIF, by width, height and frames per
/// second.
const OUTPUTS: [f64; 4] = [128.0 * 96.0 * 15e-6, 176.0 * 144.0 * 15e-6, 352.0 * 288.0 * 26e-6, 704.0 * 576.0 * 30e-6];
/// Million pixels/s to decode.
const INPUT: f64 = 352.0 * 240.0 * 29.97e-6;
/// Cost of encoding a pixel, relative to decoding one.
const ENCODE: f64 = 3.0;
/// Standard deviation of the logarithm of the work of a group of pictures.
const SIGMA: f64 = 0.3;
/// Port of the first format; the others have the next ports.
const PORT: u16 = 5_100;

params! {
    /// Parameters of films.
    pub(super) struct FfmpegParams {
        /// How many groups of pictures there are, one packet each.
        packets: u64 = 2_000, unit "packets";
        /// How many films are transcoded at a time, a quarter of them to each format.
        streams: u64 = 20, in 1..=65_536, unit "streams";
        /// How long a group of pictures plays.
        group: f64 = 500.0, in 1.0..=100_000.0, unit "ms";
        /// By up to which part of that a group comes later, by chance: without it films always come in the same order.
        jitter: f64 = 0.0, in 0.0..=1.0;
        /// Length of a packet for each million pixels per second of its work.
        scale: f64 = 100.0, in 20.0..=400.0, unit "bytes";
    }
}

pub(super) struct Ffmpeg;

impl Profile for Ffmpeg {
    const NAME: &'static str = "ffmpeg";
    const SUMMARY: &'static str =
        "groups of pictures of 20 films, one packet each, as long as its work: 3.1, 3.7, 10.4, 39";
    const SOURCE: &'static str = "The PS-HRW paper's transcoding: films of 352x240 at 29.97 pictures/s become SQCIF, QCIF, CIF or \
         4CIF (table 3). A unit of work is a group of pictures: decoding counts once for each pixel, encoding three times, and \
         the sum varies by a log-normal factor (0.3). The length of the packet stands for the work, so a cost per byte makes \
         it time: with the default scale 100 bytes are a million pixels per second. One flow for each film; its UDP port, from \
         5100, tells the format. Groups of a film come in equal steps, or later by a part of one.";
    type Params = FfmpegParams;

    fn open(params: &FfmpegParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let mut random = seed.stream("traffic/ffmpeg");
        let step_ns = (params.group * 1e6) as u64;
        let mut first_ns: Vec<u64> = (0..params.streams).map(|_| random.below(step_ns)).collect();
        first_ns.sort_unstable();
        let films = Films::new(params, random, Addresses::new(seed, "ffmpeg"), step_ns, &first_ns);
        Generator::open(films, params.packets, 65_535, description)
    }
}

struct Films {
    random: Random,
    addresses: Addresses,
    step_ns: u64,
    /// Greatest delay of a group after its due time, in ns.
    late_ns_max: u64,
    scale: f64,
    films: Vec<Film>,
}

/// A film: when its next group is due, and when it arrives.
struct Film {
    due_ns: u64,
    comes_ns: u64,
}

impl Films {
    fn new(params: &FfmpegParams, random: Random, addresses: Addresses, step_ns: u64, first_ns: &[u64]) -> Self {
        let late_ns_max = (params.jitter * step_ns as f64) as u64;
        let mut films = Self { random, addresses, step_ns, late_ns_max, scale: params.scale, films: Vec::new() };
        for &due_ns in first_ns {
            let comes_ns = films.comes(due_ns);
            films.films.push(Film { due_ns, comes_ns });
        }
        films
    }

    /// Returns the arrival time of a group that is due at this time.
    fn comes(&mut self, due_ns: u64) -> u64 {
        if self.late_ns_max == 0 { due_ns } else { due_ns.saturating_add(self.random.below(self.late_ns_max)) }
    }
}

impl Model for Films {
    type Packet = Sketch;

    fn next(&mut self) -> Option<Sketch> {
        let film = (0..self.films.len()).min_by_key(|&film| self.films[film].comes_ns)?;
        let Film { due_ns, comes_ns: time_ns } = self.films[film];
        let format = film % 4;
        // The law's mean is the work; its median is lower.
        let law =
            LogNormal { median: (INPUT + ENCODE * OUTPUTS[format]) * libm::exp(-SIGMA * SIGMA / 2.0), sigma: SIGMA };
        let length = (law.draw(&mut self.random) * self.scale).round() as u32;
        let due_ns = due_ns.saturating_add(self.step_ns);
        self.films[film] = Film { due_ns, comes_ns: self.comes(due_ns) };
        let ends = self.addresses.ends_at(film as u64, Protocol::Udp, PORT + format as u16);
        Some(Sketch::new(time_ns, length, Version::V4, ends, Transport::Udp))
    }
}
