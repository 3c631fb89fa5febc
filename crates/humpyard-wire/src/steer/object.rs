//! A program and its maps as an object file, which other programs load by libbpf.
//!
//! # Source
//! libbpf, `bpf_helpers.h` (`__uint`) and `libbpf.c`; Linux, `Documentation/bpf/btf.rst`; RFC 9669.

use object::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

use crate::bpf::{Instruction, MapShape};

/// Where Suricata looks for the program.
pub(super) const PROGRAM_SECTION: &str = "loadbalancer";
const MAP_SECTION: &str = ".maps";
const LICENSE: &[u8] = b"MIT\0";

/// `ld_imm64` of a map, for which the loader puts the map's descriptor.
const LOAD_LONG: u8 = 0x18;
const OF_MAP: u8 = 1;
const INSTRUCTION_BYTES: u64 = size_of::<Instruction>() as u64;

/// Kinds of types of BTF.
const INTEGER: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCTURE: u32 = 4;
const VARIABLE: u32 = 14;
const DATA_SECTION: u32 = 15;
const BTF_MAGIC: u16 = 0xeb9f;
const BTF_VERSION: u8 = 1;
const BTF_HEADER_BYTES: u32 = 24;
/// An integer of 32 bits with a sign.
const SIGNED_32: u32 = 1 << 24 | 32;
const GLOBAL: u32 = 1;
/// The loader takes the map that is pinned by its name, and pins it where there is none.
const PIN_BY_NAME: u32 = 1;
/// A map is declared by a structure of pointers, one for each of its numbers.
const NUMBERS: usize = 5;
const POINTER_BYTES: u32 = 8;
const DECLARATION_BYTES: u32 = NUMBERS as u32 * POINTER_BYTES;

const fn endianness() -> Endianness {
    if cfg!(target_endian = "big") { Endianness::Big } else { Endianness::Little }
}

/// Returns the object of a program. The descriptor of a map in `code` is its place in `maps`.
pub(super) fn object(maps: &[MapShape], code: &[Instruction]) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, endianness());
    let mut section = |name: &str, kind| object.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
    let [program, license, declared, types] = [
        section(PROGRAM_SECTION, SectionKind::Text),
        section("license", SectionKind::Data),
        section(MAP_SECTION, SectionKind::Data),
        section(".BTF", SectionKind::Other),
    ];
    object.append_section_data(license, LICENSE, 1);
    let declaration_bytes = u64::from(DECLARATION_BYTES);
    object.append_section_data(declared, &vec![0; maps.len() * DECLARATION_BYTES as usize], 8);
    object.append_section_data(types, &btf(maps), 4);
    object.append_section_data(program, &bytes(code), INSTRUCTION_BYTES);
    let code_bytes = code.len() as u64 * INSTRUCTION_BYTES;
    object.add_symbol(symbol("humpyard", program, SymbolKind::Text, 0..code_bytes));
    let symbols: Vec<SymbolId> = (0..)
        .zip(maps)
        .map(|(place, map)| {
            let start = place * declaration_bytes;
            object.add_symbol(symbol(map.name, declared, SymbolKind::Data, start..start + declaration_bytes))
        })
        .collect();
    for (offset, map) in uses(code) {
        let flags = RelocationFlags::Elf { r_type: object::elf::R_BPF_64_64 };
        let relocation = Relocation { offset, symbol: symbols[map], addend: 0, flags };
        object.add_relocation(program, relocation).expect("a relocation of BPF");
    }
    object.write().expect("the object is whole")
}

fn symbol(name: &str, section: SectionId, kind: SymbolKind, place: core::ops::Range<u64>) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value: place.start,
        size: place.end - place.start,
        kind,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    }
}

const fn is_use_of_map(instruction: &Instruction) -> bool {
    instruction.opcode == LOAD_LONG && instruction.registers >> 4 == OF_MAP
}

/// Where the program uses a map, in bytes, and which.
fn uses(code: &[Instruction]) -> impl Iterator<Item = (u64, usize)> {
    let places = (0..).step_by(INSTRUCTION_BYTES as usize).zip(code);
    places.filter(|(_, one)| is_use_of_map(one)).map(|(offset, one)| (offset, one.immediate as usize))
}

/// The program without the descriptors of maps.
fn bytes(code: &[Instruction]) -> Vec<u8> {
    let bytes = |&instruction: &Instruction| {
        let without_map = Instruction { registers: instruction.registers & 0xf, immediate: 0, ..instruction };
        let Instruction { opcode, registers, offset, immediate } =
            if is_use_of_map(&instruction) { without_map } else { instruction };
        let [low, high] = offset.to_ne_bytes();
        let [one, two, three, four] = immediate.to_ne_bytes();
        [opcode, registers, low, high, one, two, three, four]
    };
    code.iter().flat_map(bytes).collect()
}

/// Types, numbered from 1 in the order in which they are added, and their names.
struct Types {
    words: Vec<u32>,
    names: Vec<u8>,
    count: u32,
}

impl Types {
    /// Where a name is among the names.
    fn name(&mut self, name: &str) -> u32 {
        let place = self.names.len() as u32;
        self.names.extend(name.bytes().chain([0]));
        place
    }

    /// Adds a type of `members` members: its name, its size or the type that it is of, and what follows. Returns its
    /// number.
    fn add(&mut self, kind: u32, name: u32, members: usize, of: u32, rest: &[u32]) -> u32 {
        self.words.extend([name, kind << 24 | members as u32, of]);
        self.words.extend(rest);
        self.count += 1;
        self.count
    }

    /// A number as maps are declared by it: a pointer to an array of as many integers.
    fn number(&mut self, integer: u32, number: u32) -> u32 {
        let array = self.add(ARRAY, 0, 0, 0, &[integer, integer, number]);
        self.add(POINTER, 0, 0, array, &[])
    }

    /// The variable that declares a map.
    fn map(&mut self, integer: u32, map: &MapShape) -> u32 {
        let numbers: [(&str, u32); NUMBERS] = [
            ("type", map.map_type),
            ("key_size", map.key_bytes),
            ("value_size", map.value_bytes),
            ("max_entries", map.entries),
            ("pinning", PIN_BY_NAME),
        ];
        let mut members = Vec::new();
        for (place, (name, number)) in (0..).zip(numbers) {
            members.extend([self.name(name), self.number(integer, number), place * POINTER_BYTES * 8]);
        }
        let structure = self.add(STRUCTURE, 0, NUMBERS, DECLARATION_BYTES, &members);
        let name = self.name(map.name);
        self.add(VARIABLE, name, 0, structure, &[GLOBAL])
    }

    fn bytes(&self) -> Vec<u8> {
        let type_bytes = (self.words.len() * size_of::<u32>()) as u32;
        let first = BTF_MAGIC.to_ne_bytes().into_iter().chain([BTF_VERSION, 0]);
        let header = [BTF_HEADER_BYTES, 0, type_bytes, type_bytes, self.names.len() as u32];
        let words = header.iter().chain(&self.words).flat_map(|word| word.to_ne_bytes());
        first.chain(words).chain(self.names.iter().copied()).collect()
    }
}

/// The types of the section that declares maps.
fn btf(maps: &[MapShape]) -> Vec<u8> {
    let mut types = Types { words: Vec::new(), names: vec![0], count: 0 };
    let name = types.name("int");
    let integer = types.add(INTEGER, name, 0, 4, &[SIGNED_32]);
    let mut members = Vec::new();
    for (place, map) in (0..).zip(maps) {
        members.extend([types.map(integer, map), place * DECLARATION_BYTES, DECLARATION_BYTES]);
    }
    let name = types.name(MAP_SECTION);
    types.add(DATA_SECTION, name, maps.len(), maps.len() as u32 * DECLARATION_BYTES, &members);
    types.bytes()
}

#[cfg(test)]
mod tests {
    use object::elf::{EM_BPF, ET_REL, FileHeader64};
    use object::read::elf::{ElfFile64, FileHeader};
    use object::{Object as _, ObjectSection, ObjectSymbol, RelocationTarget};

    use super::*;
    use crate::assembler::Assembler;
    use crate::assembler::Register::{R0, R1};

    const MAPS: [MapShape; 2] = [
        MapShape { name: "humpyard_one", map_type: 2, key_bytes: 4, value_bytes: 16, entries: 128 },
        MapShape { name: "humpyard_two", map_type: 6, key_bytes: 4, value_bytes: 8, entries: 1 },
    ];

    /// A program that uses the second map, the first, and the second.
    fn code() -> Vec<Instruction> {
        let mut text = Assembler::default();
        [1, 0, 1].into_iter().for_each(|map| text.set_map(R1, map));
        text.set_long(R1, 7);
        text.set(R0, 1);
        text.exit();
        text.finish()
    }

    #[test]
    fn it_reads_back_as_written() {
        let bytes = object(&MAPS, &code());
        let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
        let header: &FileHeader64<Endianness> = file.elf_header();
        assert_eq!((header.e_machine(endianness()), header.e_type(endianness())), (EM_BPF, ET_REL));
        assert_eq!(file.is_little_endian(), cfg!(target_endian = "little"));
        let data = |name| file.section_by_name(name).unwrap().data().unwrap();
        assert_eq!(data("license"), b"MIT\0");
        assert_eq!(data(".maps"), [0; 80]);
        assert_eq!(data(PROGRAM_SECTION).len(), 8 * code().len());
        assert_eq!(data(PROGRAM_SECTION)[..8], [0x18, 1, 0, 0, 0, 0, 0, 0], "without a map");
        assert_eq!(data(".BTF").first_chunk(), Some(&BTF_MAGIC.to_ne_bytes()));
        let size = |name| file.symbol_by_name(name).unwrap().size();
        assert_eq!([size("humpyard"), size("humpyard_one"), size("humpyard_two")], [80, 40, 40]);
    }

    #[test]
    fn the_loader_finds_each_use_of_a_map() {
        let bytes = object(&MAPS, &code());
        let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
        let program = file.section_by_name(PROGRAM_SECTION).unwrap();
        let name = |target| match target {
            RelocationTarget::Symbol(symbol) => file.symbol_by_index(symbol).unwrap().name().unwrap(),
            other => panic!("{other:?}"),
        };
        let uses: Vec<_> = program.relocations().map(|(offset, found)| (offset, name(found.target()))).collect();
        assert_eq!(uses, [(0, "humpyard_two"), (16, "humpyard_one"), (32, "humpyard_two")]);
    }

    #[test]
    fn types_have_the_size_that_they_say() {
        let btf = btf(&MAPS);
        let word = |at: usize| u32::from_ne_bytes(*btf[at..].first_chunk().unwrap());
        assert_eq!((word(4), word(8), word(16)), (BTF_HEADER_BYTES, 0, word(12)));
        assert_eq!(btf.len() as u32, BTF_HEADER_BYTES + word(12) + word(20));
        assert!(btf.ends_with(b"\0.maps\0"));
    }
}
