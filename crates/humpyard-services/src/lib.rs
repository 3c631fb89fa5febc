//! The network services of humpyard: real work done on packets.
#![forbid(unsafe_code)]
