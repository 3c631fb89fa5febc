//! Finds where a coded stream can be cut: at a key picture such that no later picture needs an earlier one.

/// A video codec.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Codec {
    /// MPEG-1, and MPEG-2, whose headers are the same.
    Mpeg1,
    /// MPEG-4 part 2.
    Mpeg4,
    /// H.264.
    H264,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Self; 3] = [Self::Mpeg1, Self::Mpeg4, Self::H264];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mpeg1 => "mpeg1",
            Self::Mpeg4 => "mpeg4",
            Self::H264 => "h264",
        }
    }
}

/// The properties of a coded picture that its headers show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signs {
    /// Up to the next key picture, no picture needs one from before this picture.
    pub is_closed: bool,
    /// It is a B picture: it is shown before a picture that was coded before it, and needs that picture.
    pub looks_both_ways: bool,
}

/// Returns what the headers in `data` up to the first picture show. `data` has start codes.
pub fn signs(codec: Codec, data: &[u8]) -> Signs {
    match codec {
        Codec::Mpeg1 => mpeg1(data),
        Codec::Mpeg4 => mpeg4(data),
        Codec::H264 => h264(data),
    }
}

fn mpeg1(data: &[u8]) -> Signs {
    const PICTURE: u8 = 0x00;
    const GROUP: u8 = 0xb8;
    const BOTH_WAYS: u8 = 3;
    let mut signs = Signs::default();
    for unit in units(data) {
        match *unit {
            // 25 bits of time, then the flag.
            [GROUP, _, _, _, flags, ..] => signs.is_closed = flags & 0x40 != 0,
            // Ten bits of order, three of type.
            [PICTURE, _, kind, ..] => {
                signs.looks_both_ways = kind >> 3 & 7 == BOTH_WAYS;
                break;
            }
            _ => {}
        }
    }
    signs
}

fn mpeg4(data: &[u8]) -> Signs {
    const GROUP: u8 = 0xb3;
    const PICTURE: u8 = 0xb6;
    const BOTH_WAYS: u8 = 2;
    let mut signs = Signs::default();
    for unit in units(data) {
        match *unit {
            // 18 bits of time, then the flag.
            [GROUP, _, _, flags, ..] => signs.is_closed = flags & 0x20 != 0,
            [PICTURE, kind, ..] => {
                signs.looks_both_ways = kind >> 6 == BOTH_WAYS;
                break;
            }
            _ => {}
        }
    }
    signs
}

/// Only an IDR picture (type 5) empties the decoder's memory; other key pictures do not.
fn h264(data: &[u8]) -> Signs {
    const IDR: u8 = 5;
    let is_closed = units(data).any(|unit| unit.first().is_some_and(|header| header & 0x1f == IDR));
    Signs { is_closed, looks_both_ways: false }
}

/// Returns the units between start codes (00 00 01), without the codes.
pub fn units(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut next = start(data, 0);
    core::iter::from_fn(move || {
        let begin = next?;
        next = start(data, begin);
        let end = next.map_or(data.len(), |next| next - 3);
        Some(&data[begin..end])
    })
}

/// Returns the offset behind the first start code at or after `from`.
fn start(data: &[u8], from: usize) -> Option<usize> {
    data[from..].windows(3).position(|window| window == [0, 0, 1]).map(|place| from + place + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSED: Signs = Signs { is_closed: true, looks_both_ways: false };
    const BOTH_WAYS: Signs = Signs { is_closed: false, looks_both_ways: true };

    #[test]
    fn units_stand_between_start_codes() {
        let data = [9, 0, 0, 1, 7, 8, 0, 0, 0, 1, 5, 0, 0, 1];
        let found: Vec<&[u8]> = units(&data).collect();
        assert_eq!(found, [&[7, 8, 0][..], &[5], &[]]);
        assert_eq!(units(&[0, 0]).count(), 0);
    }

    #[test]
    fn groups_of_mpeg1_say_whether_they_are_closed() {
        let picture =
            |group: u8, kind: u8| [&[0, 0, 1, 0xb8, 0, 8, 0, group, 0, 0, 1, 0, 0, kind << 3][..], &[0; 4]].concat();
        assert_eq!(signs(Codec::Mpeg1, &picture(0x40, 1)), CLOSED);
        assert_eq!(signs(Codec::Mpeg1, &picture(0x80, 1)), Signs::default());
        assert_eq!(signs(Codec::Mpeg1, &picture(0, 3)), BOTH_WAYS);
    }

    #[test]
    fn groups_of_mpeg4_say_whether_they_are_closed() {
        let picture = |group: u8, kind: u8| [0, 0, 1, 0xb3, 0, 1, group, 0, 0, 1, 0xb6, kind << 6];
        assert_eq!(signs(Codec::Mpeg4, &picture(0x20, 0)), CLOSED);
        assert_eq!(signs(Codec::Mpeg4, &picture(0x10, 2)), BOTH_WAYS);
    }

    #[test]
    fn an_idr_picture_of_h264_is_found_behind_parameter_sets() {
        let by_start_codes = |kind: u8| [0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2, 0, 0, 1, 0x60 | kind, 3];
        assert_eq!(signs(Codec::H264, &by_start_codes(5)), CLOSED);
        assert_eq!(signs(Codec::H264, &by_start_codes(1)), Signs::default());
    }
}
