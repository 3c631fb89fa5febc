//! The packets that services are measured on: thousands that differ, half of them text and half noise, so that no branch
//! predictor learns them by heart.

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::name::Named;
use humpyard_core::random::Seed;
use humpyard_services::{Context, Generated, checksum, entries, prepare};

use super::{FLOWS, LENGTHS, PACKETS};
use crate::LabError;

const WORDS: [&str; 16] = [
    "station ",
    "signal\r\n",
    "route=",
    "of the ",
    "Accept: ",
    "text/html",
    "POST /",
    "track ",
    "3.1415, ",
    "and a ",
    "wagon ",
    "404 Not Found\r\n",
    "Length: ",
    "with ",
    "points\n",
    "1917 ",
];

/// The services whose packets another has worked on before.
const INVERSES: [(&str, &str); 3] = [("decrypt", "encrypt"), ("decompress", "compress"), ("fec-decode", "fec")];

/// Packets as they are on the wire, by length.
#[derive(Debug)]
pub(super) struct Packets {
    pools: Vec<Vec<Frame>>,
}

impl Packets {
    /// UDP over IPv4 over Ethernet, of some flows in turn.
    pub(super) fn generate(seed: Seed) -> Self {
        let mut random = seed.stream("calibrate");
        let mut pool =
            |length: usize| (0..PACKETS).map(|number| frame(number, length, &mut || random.bits())).collect();
        Self { pools: LENGTHS.into_iter().map(&mut pool).collect() }
    }

    /// The pools that this service works on, by length: for an inverse, what the service before it makes of them.
    pub(super) fn of(&self, named: &Named) -> Result<Vec<Vec<Frame>>, LabError> {
        self.pools.iter().map(|pool| prepared(named, pool.clone())).collect()
    }

    /// Returns the pool of packets of this length, cut to this number of packets.
    pub(super) fn pool(&self, named: &Named, length: usize, packets: usize) -> Result<Vec<Frame>, LabError> {
        let at = LENGTHS.iter().position(|&of| of == length).unwrap_or_default();
        prepared(named, self.pools[at][..packets.min(PACKETS)].to_vec())
    }
}

/// What another translator makes for `nat64` of the packets: of IPv6, for IPv4 hosts behind the default prefix.
fn translator() -> Named {
    let map: Vec<String> = (0..FLOWS).map(|flow| format!("203.0.113.{flow}=64:ff9b::203.0.113.{flow}")).collect();
    let parameters = [("prefix", "2001:db8:64::/96".to_owned()), ("mtu", "2000".to_owned()), ("map", map.join(";"))];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Named { name: "nat64".to_owned(), parameters }
}

/// What the service works on.
fn prepared(named: &Named, frames: Vec<Frame>) -> Result<Vec<Frame>, LabError> {
    if named.name == "nat64" {
        return worked_on(&translator(), frames);
    }
    let Some((_, before)) = INVERSES.iter().find(|(name, _)| *name == named.name) else { return Ok(frames) };
    let known = entries().into_iter().find(|entry| entry.name == *before);
    let takes = |name: &str| known.iter().flat_map(|entry| &entry.parameters).any(|parameter| parameter.name == name);
    let mut parameters: Vec<(String, String)> =
        named.parameters.iter().filter(|(name, _)| takes(name)).cloned().collect();
    if takes("spi") {
        // The same keys in every run: else they are of the time.
        parameters.push(("spi".to_owned(), "256".to_owned()));
    }
    worked_on(&Named { name: (*before).to_owned(), parameters }, frames)
}

/// What a service makes of frames.
fn worked_on(before: &Named, mut frames: Vec<Frame>) -> Result<Vec<Frame>, LabError> {
    let mut service = prepare(before)?.make();
    let mut generated = Generated::default();
    for frame in &mut frames {
        service.process(frame, &Context::default(), &mut generated);
        generated.clear();
    }
    Ok(frames)
}

fn frame(number: usize, length: usize, random: &mut impl FnMut() -> u64) -> Frame {
    let flow = (number % FLOWS) as u8;
    let mut data = Vec::with_capacity(length + 16);
    data.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00]);
    let total = (length - 14) as u16;
    data.extend([0x45, 0]);
    data.extend(total.to_be_bytes());
    data.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 198, 51, 100, flow, 203, 0, 113, flow]);
    let sum = checksum::checksum(&data[14..34]);
    data[24..26].copy_from_slice(&sum.to_be_bytes());
    data.extend([0x80, flow, 0x20, flow]);
    data.extend((total - 20).to_be_bytes());
    data.extend([0, 0]);
    while data.len() < length {
        let bits = random();
        if number.is_multiple_of(2) {
            data.extend_from_slice(WORDS[(bits % 16) as usize].as_bytes());
        } else {
            data.extend(bits.to_be_bytes());
        }
    }
    data.truncate(length);
    Frame { wire_length: length as u32, link: LinkType::Ethernet, data, ..Frame::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use humpyard_services::Verdict;

    use super::*;

    #[test]
    fn packets_differ_and_every_service_takes_them() {
        let packets = Packets::generate(Seed(3));
        let forward = packets.of(&"forward".parse().unwrap()).unwrap();
        assert_eq!(forward.len(), LENGTHS.len());
        for (pool, length) in forward.iter().zip(LENGTHS) {
            assert!(pool.iter().all(|frame| frame.data.len() == length && frame.wire_length as usize == length));
            let noise: HashSet<&[u8]> = pool.iter().skip(1).step_by(2).map(|frame| &frame.data[42..]).collect();
            assert_eq!(noise.len(), PACKETS / 2, "{length}");
        }
        for entry in entries() {
            let named = Named { name: entry.name.into(), parameters: Vec::new() };
            let mut service = prepare(&named).unwrap().make();
            let mut generated = Generated::default();
            for mut frame in packets.pool(&named, 512, 64).unwrap() {
                let verdict = service.process(&mut frame, &Context::default(), &mut generated);
                assert_eq!(verdict, Verdict::Forward, "{}", entry.name);
            }
        }
    }

    #[test]
    fn an_inverse_has_the_parameters_of_the_service_before_it() {
        let packets = Packets::generate(Seed(3));
        for spec in ["decrypt:cipher=cast-128", "fec-decode"] {
            let named: Named = spec.parse().unwrap();
            let mut service = prepare(&named).unwrap().make();
            for (mut frame, plain) in packets
                .pool(&named, 256, 8)
                .unwrap()
                .into_iter()
                .zip(packets.pool(&"dpi".parse().unwrap(), 256, 8).unwrap())
            {
                assert!(frame.data.len() > plain.data.len());
                assert_eq!(
                    service.process(&mut frame, &Context::default(), &mut Generated::default()),
                    Verdict::Forward
                );
                assert_eq!(frame.data, plain.data, "{spec}");
            }
        }
    }
}
