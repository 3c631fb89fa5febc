//! Traffic for humpyard: captures in and out, flows, classification, generators.
#![forbid(unsafe_code)]
