//! The types of the running kernel (BTF), as far as needed: the number by which a program calls one of its functions.
//!
//! # Source
//! `Documentation/bpf/btf.rst` of the kernel.

use std::fs;
use std::io;

/// Where the kernel shows its types.
const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Bytes of what every type begins with: its name, its kind, and a size or another type.
const TYPE_BYTES: usize = 12;
const FUNCTION: u32 = 12;

/// Returns the number of a function of the kernel.
///
/// # Errors
/// If the kernel does not show its types, or has no such function.
pub(crate) fn function(name: &str) -> io::Result<u32> {
    find(&fs::read(PATH)?, name)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("the kernel has no {name}")))
}

/// Finds a function among types.
fn find(btf: &[u8], name: &str) -> Option<u32> {
    if btf.first_chunk().map(|&magic| u16::from_ne_bytes(magic)) != Some(MAGIC) {
        return None;
    }
    let section = |at: usize| {
        let start = (word(btf, 4)? + word(btf, at)?) as usize;
        btf.get(start..)?.get(..word(btf, at + 4)? as usize)
    };
    let (mut types, names) = (section(8)?, section(16)?);
    let is_named = |at: u32| {
        let rest = names.get(at as usize..).and_then(|rest| rest.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    };
    // The number 0 is `void`, which is not written down.
    let mut number = 1;
    while !types.is_empty() {
        let information = word(types, 4)?;
        if information >> 24 & 0x1f == FUNCTION && is_named(word(types, 0)?) {
            return Some(number);
        }
        types = types.get(TYPE_BYTES + more_bytes(information)?..)?;
        number += 1;
    }
    None
}

/// Returns how many bytes of a type come behind its beginning. `None`: its kind is not known.
const fn more_bytes(information: u32) -> Option<usize> {
    let members = (information & 0xffff) as usize;
    Some(match information >> 24 & 0x1f {
        // Pointers, forward declarations, names of types, qualifiers, functions, floats and tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables and tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections of data and enumerations of 64 bits.
        4 | 5 | 15 | 19 => 12 * members,
        // Enumerations and prototypes.
        6 | 13 => 8 * members,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&word| u32::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types of these words, and these names.
    fn btf(types: &[u32], names: &[u8]) -> Vec<u8> {
        let magic = u32::from_ne_bytes([MAGIC.to_ne_bytes()[0], MAGIC.to_ne_bytes()[1], 1, 0]);
        let type_bytes = 4 * types.len() as u32;
        let header = [magic, 24, 0, type_bytes, type_bytes, names.len() as u32];
        let words = header.iter().chain(types).flat_map(|word| word.to_ne_bytes());
        words.chain(names.iter().copied()).collect()
    }

    #[test]
    fn a_function_is_found_by_its_whole_name_behind_types_of_any_length() {
        let structure = [0, 4 << 24 | 1, 8, 0, 0, 0];
        let prototype = [0, 13 << 24 | 1, 1, 0, 2];
        let function = |name: u32| [name, 12 << 24, 2];
        // A name of a type is no function.
        let alias = [5, 8 << 24, 1];
        let types = [&structure[..], &prototype, &alias, &function(1), &function(5)].concat();
        let names = b"\0fun\0fu\0";
        assert_eq!(find(&btf(&types, names), "fu"), Some(5));
        assert_eq!(find(&btf(&types, names), "fun"), Some(4));
        assert_eq!(find(&btf(&types, names), "f"), None);
        assert_eq!(find(&btf(&[0, 31 << 24, 0], names), "fu"), None, "a kind that is not known");
        assert_eq!(find(&[], "fu"), None);
    }

    #[test]
    fn types_that_end_too_early_are_none() {
        let whole = btf(&[1, 12 << 24, 2], b"\0fun\0");
        for end in 0..whole.len() {
            assert_eq!(find(&whole[..end], "fun"), None, "{end} bytes");
        }
        assert_eq!(find(&whole, "fun"), Some(1));
    }
}
