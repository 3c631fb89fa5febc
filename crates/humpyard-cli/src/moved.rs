//! Options of earlier versions that are part of others now.

/// Options that are part of another one now, by long name, and what says the same.
const MOVED: [(&str, &str); 2] = [
    ("reorder", "--flow-order exit:time=TIME, or nothing: flows keep their order"),
    ("reorder-buffer", "--flow-order exit:packets=PACKETS"),
];

/// What says the same as an option that is part of another one now, by its long name.
pub(crate) fn moved(option: &str) -> Option<&'static str> {
    MOVED.iter().find(|(name, _)| *name == option).map(|&(_, instead)| instead)
}
