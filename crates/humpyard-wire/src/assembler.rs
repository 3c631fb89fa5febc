//! Programs of BPF as they are written down: instructions by name, and jumps to labels.
//!
//! # Source
//! RFC 9669.

use core::ffi::c_int;

use crate::bpf::Instruction;

/// Operations, and the classes of those that can jump: on 64 bits, and on 32.
const LOAD_LONG: u8 = 0x18;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const CLASS: u8 = 0x07;
const JUMP_CLASSES: [u8; 2] = [0x05, 0x06];

/// A register. Calls answer in `R0`, take `R1` to `R5` and leave nothing there; `R6` to `R9` stay; `R10` is the end of
/// the stack, which cannot be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How much is loaded or stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Long = 0x18,
}

/// Arithmetic on 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Xor = 0xa0,
    /// The sign stays.
    ShiftRightSigned = 0xc0,
}

/// When a jump is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    Equal = 0x10,
    Above = 0x20,
    AnyBit = 0x40,
    Unequal = 0x50,
    /// Of signed numbers.
    Less = 0xc0,
}

/// A place in a program, which jumps go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    /// By label: its place, once it has one.
    places: Vec<Option<usize>>,
}

impl Assembler {
    /// A label without a place.
    pub(crate) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Puts a label before the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.code.len());
    }

    fn put(&mut self, opcode: u8, destination: Register, source: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction::new(opcode, destination as u8, source, offset, immediate));
    }

    /// `to = number`
    pub(crate) fn set(&mut self, to: Register, number: i32) {
        self.put(0xb7, to, 0, 0, number);
    }

    /// `to = number`, of 64 bits.
    pub(crate) fn set_long(&mut self, to: Register, number: u64) {
        self.two(to, 0, number as u32 as i32, (number >> 32) as i32);
    }

    /// `to = map`, for calls.
    pub(crate) fn set_map(&mut self, to: Register, descriptor: c_int) {
        self.two(to, 1, descriptor, 0);
    }

    /// `to = the value of the only entry of the map`
    pub(crate) fn set_value_of_map(&mut self, to: Register, descriptor: c_int) {
        self.two(to, 2, descriptor, 0);
    }

    fn two(&mut self, to: Register, source: u8, low: i32, high: i32) {
        self.put(LOAD_LONG, to, source, 0, low);
        self.code.push(Instruction::new(0, 0, 0, 0, high));
    }

    /// `to = from`
    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.put(0xbf, to, from as u8, 0, 0);
    }

    /// `to = to <operation> from`
    pub(crate) fn with(&mut self, operation: Operation, to: Register, from: Register) {
        self.put(0x0f | operation as u8, to, from as u8, 0, 0);
    }

    /// `to = to <operation> number`
    pub(crate) fn with_number(&mut self, operation: Operation, to: Register, number: i32) {
        self.put(0x07 | operation as u8, to, 0, 0, number);
    }

    /// Turns the lowest 16 bits of a register from the machine's order of bytes to that of networks, or back.
    pub(crate) fn swap_to_network(&mut self, register: Register) {
        self.put(0xdc, register, 0, 0, 16);
    }

    /// `to = *(from + offset)`
    pub(crate) fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) {
        self.put(0x61 | size as u8, to, from as u8, offset, 0);
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, size: Size, to: Register, offset: i16, from: Register) {
        self.put(0x63 | size as u8, to, from as u8, offset, 0);
    }

    /// `*(to + offset) = number`
    pub(crate) fn store_number(&mut self, size: Size, to: Register, offset: i16, number: i32) {
        self.put(0x62 | size as u8, to, 0, offset, number);
    }

    /// `*(to + offset) += from`, of 64 bits, in one step that no other processor divides.
    pub(crate) fn add_at_once(&mut self, to: Register, offset: i16, from: Register) {
        self.put(0xdb, to, from as u8, offset, 0);
    }

    /// `number = *(to + offset)`, and `*(to + offset)` becomes greater by what `number` was, both of 32 bits, in one step
    /// that no other processor divides.
    pub(crate) fn fetch_and_add_word(&mut self, to: Register, offset: i16, number: Register) {
        self.put(0xc3, to, number as u8, offset, 0x01);
    }

    pub(crate) fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(JUMP, Register::R0, 0, 0, 0);
    }

    /// Jumps where the condition holds of a register and a number.
    pub(crate) fn jump_if(&mut self, condition: Condition, register: Register, number: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(0x05 | condition as u8, register, 0, 0, number);
    }

    /// As [`Assembler::jump_if`], of the lower 32 bits.
    pub(crate) fn jump_if_word(&mut self, condition: Condition, register: Register, number: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(0x06 | condition as u8, register, 0, 0, number);
    }

    /// Jumps where the condition holds of two registers.
    pub(crate) fn jump_if_register(&mut self, condition: Condition, one: Register, other: Register, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(0x0d | condition as u8, one, other as u8, 0, 0);
    }

    /// Calls a function of the kernel by its number.
    pub(crate) fn call(&mut self, function: i32) {
        self.put(CALL, Register::R0, 0, 0, function);
    }

    /// Calls a function of the kernel by its number among the kernel's types.
    pub(crate) fn call_by_type(&mut self, function: i32) {
        self.put(CALL, Register::R0, 2, 0, function);
    }

    /// Ends the program, which answers `R0`.
    pub(crate) fn exit(&mut self) {
        self.put(EXIT, Register::R0, 0, 0, 0);
    }

    /// Returns the program.
    ///
    /// # Panics
    /// If a jump goes to a label without a place.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (at, Label(label)) in self.jumps {
            let place = self.places[label].expect("a place for each label");
            self.code[at].offset = (place as i64 - at as i64 - 1) as i16;
        }
        self.code
    }
}

/// Returns the instructions on the longest path through a program without loops; a function of the kernel counts as the
/// one instruction that calls it.
///
/// # Panics
/// If an instruction jumps back: the program could be a loop.
pub(crate) fn longest_path(code: &[Instruction]) -> usize {
    // By instruction: the longest path from it to the end.
    let mut longest = vec![0; code.len() + 1];
    for (at, instruction) in code.iter().enumerate().rev() {
        let next = at + if instruction.opcode == LOAD_LONG { 2 } else { 1 };
        let target = || {
            assert!(instruction.offset >= 0, "instruction {at} jumps back");
            next + instruction.offset as usize
        };
        let rest = match instruction.opcode {
            EXIT => 0,
            CALL => longest[next],
            JUMP => longest[target()],
            opcode if JUMP_CLASSES.contains(&(opcode & CLASS)) => longest[next].max(longest[target()]),
            // The second half of a long number is no instruction: no path begins there.
            0 => continue,
            _ => longest[next],
        };
        longest[at] = 1 + rest;
    }
    longest[0]
}

#[cfg(test)]
mod tests {
    use super::Condition::{Above, Less};
    use super::Operation::{Add, ShiftRight, Xor};
    use super::Register::{R0, R1, R2, R3, R6, R10};
    use super::*;

    /// As an assembler writes them (`llvm-objdump -d`).
    #[test]
    fn instructions_are_those_of_an_assembler() {
        let mut program = Assembler::default();
        let out = program.label();
        program.copy(R6, R1);
        program.load(Size::Word, R2, R6, 4);
        program.load(Size::Long, R3, R10, -16);
        program.with_number(Add, R2, 14);
        program.jump_if_register(Above, R2, R3, out);
        program.with(Xor, R2, R3);
        program.with_number(ShiftRight, R2, 33);
        program.store(Size::Half, R10, -2, R2);
        program.store_number(Size::Word, R10, -8, 7);
        program.add_at_once(R6, 8, R1);
        program.fetch_and_add_word(R6, 4, R2);
        program.jump_if(Less, R2, 100, out);
        program.set_map(R1, 5);
        program.place(out);
        program.set(R0, 2);
        program.exit();
        let words: Vec<_> =
            program.finish().iter().map(|word| (word.opcode, word.registers, word.offset, word.immediate)).collect();
        let expected = [
            (0xbf, 0x16, 0, 0),
            (0x61, 0x62, 4, 0),
            (0x79, 0xa3, -16, 0),
            (0x07, 0x02, 0, 14),
            (0x2d, 0x32, 9, 0),
            (0xaf, 0x32, 0, 0),
            (0x77, 0x02, 0, 33),
            (0x6b, 0x2a, -2, 0),
            (0x62, 0x0a, -8, 7),
            (0xdb, 0x16, 8, 0),
            (0xc3, 0x26, 4, 1),
            (0xc5, 0x02, 2, 100),
            (0x18, 0x11, 0, 5),
            (0, 0, 0, 0),
            (0xb7, 0x00, 0, 2),
            (0x95, 0x00, 0, 0),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn the_longest_path_is_that_of_the_dearer_branch() {
        let program = |branch: usize| {
            let mut program = Assembler::default();
            let [away, out] = core::array::from_fn(|_| program.label());
            program.set_map(R1, 5);
            program.jump_if_word(Less, R1, 1, away);
            program.call(5);
            program.jump(out);
            program.place(away);
            (0..branch).for_each(|_| program.set(R2, 0));
            program.place(out);
            program.exit();
            longest_path(&program.finish())
        };
        assert_eq!(program(0), 5, "a map, a condition, a call, a jump, the end");
        assert_eq!(program(2), 5);
        assert_eq!(program(7), 10);
    }

    #[test]
    #[should_panic(expected = "instruction 1 jumps back")]
    fn a_loop_has_no_longest_path() {
        let mut program = Assembler::default();
        let again = program.label();
        program.place(again);
        program.set(R0, 0);
        program.jump_if(Less, R0, 1, again);
        program.exit();
        longest_path(&program.finish());
    }
}
