//! Tests every service with its inverse: on all captures, each frame comes back unchanged.

use humpyard_core::frame::Frame;
use humpyard_services::{Context, DropReason, Generated, Service, Verdict};
use proptest::prelude::*;

use crate::support::{arbitrary_frame, captures, each_frame, files, service};

/// Each service with its inverse, and the reasons for which the service may drop a frame.
const PAIRS: [(&str, &str, &[DropReason]); 6] = [
    ("encrypt", "decrypt", TUNNEL),
    ("encrypt:cipher=cast-128", "decrypt:cipher=cast-128", TUNNEL),
    ("compress:codec=lz4", "decompress", &[DropReason::Incomplete]),
    ("compress:codec=deflate", "decompress", &[DropReason::Incomplete]),
    ("fec", "fec-decode", &[DropReason::Incomplete]),
    ("fec:code=8+2,groups=64,wait=20", "fec-decode", &[DropReason::Incomplete]),
];

/// Reasons why a frame cannot enter a tunnel: not IP, incomplete, invalid, or too long.
const TUNNEL: &[DropReason] =
    &[DropReason::NotIp, DropReason::Incomplete, DropReason::Truncated, DropReason::BadVersion, DropReason::TooLong];

/// Sends a frame through both services. Returns true if it came through, after checking that it is unchanged.
fn there_and_back(
    services: (&mut dyn Service, &mut dyn Service),
    accepted: &[DropReason],
    original: &Frame,
    context: &Context,
) -> Result<bool, String> {
    let mut frame = original.clone();
    let mut generated = Generated::default();
    match services.0.process(&mut frame, context, &mut generated) {
        Verdict::Forward => {}
        Verdict::Drop(reason) if accepted.contains(&reason) => return Ok(false),
        other => return Err(format!("{other:?} of {original:?}")),
    }
    let verdict = services.1.process(&mut frame, context, &mut generated);
    if verdict != Verdict::Forward {
        return Err(format!("{verdict:?} on the way back of {original:?}"));
    }
    if frame != *original {
        return Err(format!("{original:?} came back as {frame:?}"));
    }
    Ok(true)
}

#[test]
fn every_frame_of_every_capture_comes_back() {
    let Some(directory) = captures("every_frame_of_every_capture_comes_back") else { return };
    for (there, back, accepted) in PAIRS {
        let (mut there, mut back) = (service(there), service(back));
        let (mut through, mut dropped) = (0, 0);
        for file in files(&directory, &[]) {
            each_frame(&file, |frame, context| {
                let came = there_and_back((&mut *there, &mut *back), accepted, frame, context);
                match came.unwrap_or_else(|error| panic!("{}: {error}", file.display())) {
                    true => through += 1,
                    false => dropped += 1,
                }
            });
        }
        assert!(through > 150_000 && through > dropped, "{through} of {}", through + dropped);
    }
}

proptest! {
    #[test]
    fn every_frame_that_can_be_served_comes_back(frame in arbitrary_frame()) {
        for (there, back, accepted) in PAIRS {
            let (mut there, mut back) = (service(there), service(back));
            let context = Context::default();
            there_and_back((&mut *there, &mut *back), accepted, &frame, &context).map_err(TestCaseError::fail)?;
        }
    }
}
