//! Runs between interfaces, in network namespaces of their own. Where a machine makes none, these tests skip and say so;
//! `HUMPYARD_REQUIRE_NETNS=1` has them fail there.
#![cfg(target_os = "linux")]

mod bridge;
mod counts;
mod data_plane;
mod overload;
mod queue;
mod refusals;
mod router;
mod steer;
mod workers;
