//! Flows that send exactly their reservation, and flows that send more.

use humpyard_core::frame::Frame;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use humpyard_traffic::sink::create;

use humpyard_lab::LabError;
use humpyard_lab::admit::Reservation;

/// Rate of flows that exceed their reservation, relative to it.
pub(super) const TIMES: f64 = 3.0;
/// Time for which a flow sends at its rate after a burst, relative to the time of a burst at its rate.
const STEADY: f64 = 10.0;

/// A flow, and its way of sending.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) flow: Reservation,
    /// Whether it keeps to its reservation.
    pub(super) keeps: bool,
    /// The first of its ports; each packet goes to a random one of consecutive ports.
    pub(super) port: u16,
    pub(super) ports: u16,
}

impl Sender {
    /// Returns the times at which it sends packets of its length, in ns, within this duration.
    ///
    /// A flow that keeps to its reservation sends all it may. It sends its burst at once, then at its rate, then
    /// nothing until it may send a burst again, and so on. The others send at a multiple of their rate.
    fn times(&self, random: &mut Random, duration_ns: f64) -> Vec<f64> {
        let gap = 8e9 * self.flow.length_bytes / self.flow.bandwidth_bps;
        let mut times = Vec::new();
        let mut now = random.unit() * gap * STEADY;
        if !self.keeps {
            while now < duration_ns {
                times.push(now);
                now += gap / TIMES;
            }
            return times;
        }
        let burst = (self.flow.burst_bytes / self.flow.length_bytes).floor();
        while now < duration_ns {
            times.extend((0..burst as u64).map(|_| now));
            let steady = (burst * STEADY).floor();
            times.extend((1..=steady as u64).map(|packet| now + packet as f64 * gap));
            // The bucket is full again, including a whole last token.
            now += (steady + burst) * gap + 1.0;
        }
        times
    }
}

/// Writes the packets of all flows within this duration to a capture.
pub(super) fn write(path: &str, senders: &[Sender], duration_ns: f64, seed: Seed) -> Result<(), LabError> {
    let mut random = seed.stream("senders");
    let mut packets = Vec::new();
    for (id, sender) in senders.iter().enumerate() {
        let times = sender.times(&mut random, duration_ns);
        packets.extend(times.into_iter().map(|time| (time.ceil() as u64, id)));
    }
    packets.sort_unstable();
    let mut sink = create(path)?;
    let mut frame = Frame::default();
    for (time, id) in packets {
        let sender = &senders[id];
        let port = sender.port + random.below(u64::from(sender.ports)) as u16;
        fill(&mut frame, sender.flow.length_bytes as usize, port, &mut random);
        frame.time = Time::from_ns(time);
        sink.write(&frame)?;
    }
    sink.finish()?;
    Ok(())
}

/// Makes a frame of UDP over IPv4 and Ethernet with this length and port; half of its payload repeats.
fn fill(frame: &mut Frame, length: usize, port: u16, random: &mut Random) {
    let ip = (length - 14) as u16;
    frame.wire_length = length as u32;
    frame.data.clear();
    frame.data.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]);
    frame.data.extend(ip.to_be_bytes());
    frame.data.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]);
    let sum = frame.data[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame.data[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame.data.extend([port, port, ip - 20, 0].map(u16::to_be_bytes).concat());
    while frame.data.len() + 8 <= length {
        let word = random.bits().to_le_bytes();
        frame.data.extend([word[0], word[1], word[2], word[3], 0, 0, 0, 0]);
    }
    frame.data.resize(length, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packets of a flow fit its bucket at every time, and empty it.
    #[test]
    fn who_keeps_to_its_reservation_sends_all_of_it() {
        let flow = Reservation::parse("service=fec,rate=1Mbit,length=500,burst=4k", 1).unwrap();
        let sender = Sender { flow: flow.clone(), keeps: true, port: 1, ports: 1 };
        let times = sender.times(&mut Seed(1).stream("test"), 5e9);
        let (mut tokens, mut last, mut least) = (flow.burst_bytes, 0.0, f64::INFINITY);
        for &time in &times {
            tokens = (tokens + (time - last) * flow.bandwidth_bps / 8e9).min(flow.burst_bytes) - flow.length_bytes;
            assert!(tokens > -1e-6, "{tokens} at {time}");
            (last, least) = (time, least.min(tokens));
        }
        assert!(times.len() > 1_000 && least < 1.0, "{} packets, {least}", times.len());
        let over = Sender { keeps: false, ..sender }.times(&mut Seed(1).stream("test"), 5e9);
        assert!((over.len() as f64 / 1_250.0 - TIMES).abs() < 0.05);
    }
}
