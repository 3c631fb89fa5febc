//! Sizes, picture rates and bit rates: table 3 of the PS-HRW paper.

/// The size, picture rate and bit rate of a film.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    /// The name of the size.
    pub name: &'static str,
    /// Width of a picture.
    pub width: u32,
    /// Height of a picture.
    pub height: u32,
    /// Pictures per second, as a fraction.
    pub pictures_per_second: (u32, u32),
    /// Bits per second.
    pub bits_per_second: u32,
}

/// The rate of the paper's films: 352x240, 29.97 pictures/s and 920 kb/s.
pub const SOURCE: Rate =
    Rate { name: "SIF", width: 352, height: 240, pictures_per_second: (30_000, 1_001), bits_per_second: 920_000 };

/// The four rates that films are transcoded to.
pub const OUTPUTS: [Rate; 4] = [
    Rate::of("SQCIF", (128, 96), 15, 50_000),
    Rate::of("QCIF", (176, 144), 15, 70_000),
    Rate::of("CIF", (352, 288), 26, 100_000),
    Rate::of("4CIF", (704, 576), 30, 200_000),
];

impl Rate {
    const fn of(name: &'static str, (width, height): (u32, u32), pictures: u32, bits_per_second: u32) -> Self {
        Self { name, width, height, pictures_per_second: (pictures, 1), bits_per_second }
    }

    /// Returns which pictures of this rate are shown during the pictures `pictures` of a source at `source`
    /// pictures/s. Both ranges count from the first picture of the stream, half open. Adjacent ranges of the
    /// source give adjacent ranges, without a gap or an overlap.
    pub fn shown(&self, pictures: (u64, u64), source: (u32, u32)) -> (u64, u64) {
        let (slow, fast) = self.steps(source);
        let first = |picture: u64| u64::try_from((u128::from(picture) * fast).div_ceil(slow)).unwrap_or(u64::MAX);
        (first(pictures.0), first(pictures.1))
    }

    /// Returns the source's picture that picture `number` of this rate shows.
    pub fn seen(&self, number: u64, source: (u32, u32)) -> u64 {
        let (slow, fast) = self.steps(source);
        u64::try_from(u128::from(number) * slow / fast).unwrap_or(u64::MAX)
    }

    /// Returns pictures of the source per picture of this rate, as a fraction.
    fn steps(&self, source: (u32, u32)) -> (u128, u128) {
        let own = self.pictures_per_second;
        (u128::from(source.0) * u128::from(own.1), u128::from(source.1) * u128::from(own.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_side_by_side_leave_nothing_out() {
        for rate in OUTPUTS {
            let mut next = 0;
            for number in 0..400 {
                let group = (13 * number, 13 * (number + 1));
                let shown = rate.shown(group, SOURCE.pictures_per_second);
                assert_eq!(shown.0, next, "{rate:?}, group {number}");
                for picture in shown.0..shown.1 {
                    let seen = rate.seen(picture, SOURCE.pictures_per_second);
                    assert!((group.0..group.1).contains(&seen), "{rate:?}: {picture} shows {seen}, not of {group:?}");
                }
                next = shown.1;
            }
            let seconds = 400.0 * 13.0 * 1_001.0 / 30_000.0;
            let pictures = f64::from(rate.pictures_per_second.0) * seconds;
            assert!((next as f64 - pictures).abs() <= 1.0, "{rate:?}: {next} pictures in {seconds} s");
        }
    }

    #[test]
    fn half_the_pictures_are_every_other_one() {
        let half = Rate { pictures_per_second: (15_000, 1_001), ..SOURCE };
        let seen: Vec<u64> = (0..4).map(|number| half.seen(number, SOURCE.pictures_per_second)).collect();
        assert_eq!(seen, [0, 2, 4, 6]);
        assert_eq!(half.shown((1, 2), SOURCE.pictures_per_second), (1, 1), "none is shown while an odd one is");
    }
}
