//! The packets of a queue that wait for their verdicts.

/// A packet that waits: what the kernel calls it, and what it was.
#[derive(Debug, Default)]
struct Place {
    /// `None`: there is no packet.
    id: Option<u32>,
    bytes: Vec<u8>,
}

/// Every packet that was taken and has no verdict yet, by its place.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Waiting {
    /// Keeps a packet; answers its place.
    pub(super) fn add(&mut self, id: u32, bytes: &[u8]) -> u32 {
        let number = self.free.pop().unwrap_or(self.places.len() as u32);
        if number as usize == self.places.len() {
            self.places.push(Place::default());
        }
        let place = &mut self.places[number as usize];
        place.id = Some(id);
        place.bytes.clear();
        place.bytes.extend_from_slice(bytes);
        number
    }

    /// Takes out the packet at this place: what the kernel calls it, and what it was. None if there is none, so that no packet gets
    /// two verdicts.
    pub(super) fn take(&mut self, number: u32) -> Option<(u32, &[u8])> {
        let place = self.places.get_mut(number as usize)?;
        let id = place.id.take()?;
        self.free.push(number);
        Some((id, &place.bytes))
    }

    /// Takes out any packet; none if there is none.
    pub(super) fn take_any(&mut self) -> Option<u32> {
        let number = self.places.iter().position(|place| place.id.is_some())?;
        self.take(number as u32).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_taken_out_once() {
        let mut waiting = Waiting::default();
        let (a, b) = (waiting.add(10, b"a"), waiting.add(11, b"bb"));
        assert_eq!((a, b), (0, 1));
        assert_eq!(waiting.take(a), Some((10, b"a".as_slice())));
        assert_eq!(waiting.take(a), None);
        assert_eq!(waiting.take(9), None);
        assert_eq!(waiting.add(12, b""), a);
        assert_eq!((waiting.take_any(), waiting.take_any(), waiting.take_any()), (Some(12), Some(11), None));
    }
}
