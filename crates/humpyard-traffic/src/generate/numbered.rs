//! Packets of numbered flows. A flow gets its addresses when a classifier asks for them, not with each packet.

use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;

use super::model::{Looks, Timed};
use super::services::Service;
use super::sketch::{Sketch, Writer};
use crate::header::Headers;
use crate::source::{Numbered, NumberedFlows};

/// A packet whose flow has no addresses yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Draw {
    pub(super) time_ns: u64,
    /// The number of its flow.
    pub(super) flow: u64,
    /// Length on the wire.
    pub(super) length: u32,
    /// The sequence number of TCP or of an echo.
    pub(super) sequence: u32,
    /// The offset of the payload in the prose, if the model sets it.
    pub(super) text: u32,
}

impl Timed for Draw {
    #[inline]
    fn time_ns(&self) -> u64 {
        self.time_ns
    }

    #[inline]
    fn numbered(&self) -> Option<Numbered> {
        let &Self { time_ns, flow, length, .. } = self;
        Some(Numbered { time: Time::from_ns(time_ns), flow, length })
    }
}

/// The headers of packets, by the numbers of their flows.
pub(super) trait DrawnFlows: Send + Sync + 'static {
    /// Returns the packet. Addresses, ports and protocol depend only on its flow's number, and no packet begins
    /// or ends a connection.
    fn sketch(&self, draw: &Draw) -> Sketch;

    /// Returns the offset of the payload of its sketch in the prose.
    fn text(&self, draw: &Draw) -> u32 {
        Sketch::text_at(draw.time_ns)
    }
}

impl<F: DrawnFlows> NumberedFlows for F {
    fn headers(&self, flow: u64) -> Headers {
        self.sketch(&Draw { flow, ..Draw::default() }).headers()
    }
}

/// The flows of several services. The number of a flow is its number in its service, times the number of
/// services, plus the number of its service.
pub(super) struct ServiceFlows<const SERVICES: usize>(pub(super) [Service; SERVICES]);

impl<const SERVICES: usize> ServiceFlows<SERVICES> {
    /// Returns the number of this flow of a service.
    pub(super) const fn number(service: usize, flow: u64) -> u64 {
        flow * SERVICES as u64 + service as u64
    }
}

impl<const SERVICES: usize> DrawnFlows for ServiceFlows<SERVICES> {
    fn sketch(&self, draw: &Draw) -> Sketch {
        let service = &self.0[(draw.flow % SERVICES as u64) as usize];
        let ends = service.ends(draw.flow / SERVICES as u64);
        service.sketch(draw.time_ns, draw.length, ends, draw.sequence)
    }
}

impl<F: DrawnFlows> Looks<Draw> for Arc<F> {
    #[inline]
    fn sketch(&self, packet: &Draw) -> Sketch {
        (**self).sketch(packet)
    }

    #[inline]
    fn write(&self, packet: &Draw, writer: &mut Writer, frame: &mut Frame) {
        writer.write_drawn(packet, self.text(packet), || self.sketch(packet), frame);
    }

    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        Some(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;
    use crate::source::Source;
    use crate::tunnel::Tunnels;
    use crate::{Classifier, ClassifierConfig, First, Granularity};

    const SOURCES: [&str; 5] = [
        "gen:poisson:packets=700,flows=40",
        "gen:poisson:packets=700,version=mixed,length=1000",
        "gen:poisson:packets=900,mix=services",
        "gen:onoff:packets=900",
        "gen:mmpp:packets=900",
    ];

    fn open(source: &str) -> Box<dyn Source + Send> {
        crate::open(source, Seed(3)).unwrap()
    }

    /// Returns all packets of a source, read in pieces.
    fn numbered(mut source: impl Source) -> Vec<Numbered> {
        let mut packets = Vec::new();
        while source.next_numbered(&mut packets, 97).unwrap() {}
        packets
    }

    #[test]
    fn packets_by_numbers_are_those_with_headers() {
        for specification in SOURCES {
            let mut source = open(specification);
            let flows = source.numbered_flows().unwrap();
            let (mut frame, mut headers) = (Frame::default(), Headers::default());
            for Numbered { time, flow, length } in numbered(open(specification)) {
                assert!(source.next_headers(&mut frame, Tunnels::NONE, &mut headers).unwrap());
                assert_eq!((time, length, flows.headers(flow)), (frame.time, frame.wire_length, headers));
            }
            assert!(!source.next(&mut frame).unwrap(), "{specification}");
        }
    }

    #[test]
    fn first_and_repeated_packets_are_numbered_too() {
        let source = SOURCES[0].to_owned();
        assert_eq!(numbered(First::new(open(&source), 10)), numbered(open(&source))[..10]);
        let repeated = || crate::repeat::Repeat::open(std::slice::from_ref(&source), Seed(3), 3).unwrap();
        let (mut plain, mut frame) = (repeated(), Frame::default());
        for packet in numbered(repeated()) {
            assert!(plain.next(&mut frame).unwrap());
            assert_eq!(packet.time, frame.time);
        }
        assert!(!plain.next(&mut frame).unwrap());
    }

    /// With tables for all flows, and with smaller ones, in which flows end.
    #[test]
    fn packets_are_classified_alike_by_numbers_and_by_headers() {
        for specification in SOURCES {
            for (flows, granularity) in
                [(1_000, Granularity::Flow), (7, Granularity::Connection), (7, Granularity::Flow)]
            {
                let config = ClassifierConfig { flows, granularity, ..ClassifierConfig::default() };
                let [mut by_number, mut by_headers] = [(); 2].map(|()| Classifier::new(config.clone()).unwrap());
                let known = open(specification).numbered_flows().unwrap();
                let mut found = 0;
                for Numbered { flow, length, .. } in numbered(open(specification)) {
                    let headers = known.headers(flow);
                    let expected = by_headers.classify_headers(&headers, length).unwrap();
                    let packet = by_number.classify_numbered(flow, length);
                    found += u32::from(packet.is_some());
                    let packet = packet.unwrap_or_else(|| {
                        let classified = by_number.classify_new_number(flow, &headers, length).unwrap();
                        assert_eq!(classified, expected);
                        classified.packet
                    });
                    assert_eq!(packet, expected.packet);
                    by_headers.release(&expected.packet);
                    by_number.release(&packet);
                }
                assert!(found > 10 && (flows < 1_000 || found > 500), "{specification}: {found} of {flows} flows");
                let counts = |classifier: &Classifier| (classifier.flows().seen(), classifier.flows().evicted());
                assert_eq!(counts(&by_number), counts(&by_headers));
            }
        }
    }
}
