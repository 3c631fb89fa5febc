//! The memory that holds frames on their way between an interface and this program.

use core::ptr;
use std::io;

use crate::system::Mapping;

/// A piece of the memory, which holds a frame or a part of one. Who has it may use that piece, and nobody else: it is given to
/// the kernel by its address, and comes back by it.
#[derive(Debug)]
pub(super) struct Chunk {
    address: u64,
}

impl Chunk {
    /// The piece that the kernel gives back; the address may be anywhere in it.
    ///
    /// # Safety
    /// The kernel has just given it back by a ring, and it is made into a chunk once.
    pub(super) const unsafe fn given_back(address: u64, chunk_bytes: u32) -> Self {
        Self { address: address & !(chunk_bytes as u64 - 1) }
    }

    /// Gives it away.
    pub(super) fn give(self) -> u64 {
        self.address
    }
}

/// The memory of a port's frames, in chunks of one size.
#[derive(Debug)]
pub(super) struct Umem {
    memory: Mapping,
    /// Bytes of a chunk: a power of two.
    chunk_bytes: u32,
}

impl Umem {
    /// Maps `chunks` chunks of `chunk_bytes` each, and returns them one by one beside.
    pub(super) fn new(chunks: usize, chunk_bytes: u32) -> io::Result<(Self, impl Iterator<Item = Chunk> + use<>)> {
        let memory = Mapping::private(chunks * chunk_bytes as usize)?;
        let all = (0..chunks as u64).map(move |chunk| Chunk { address: chunk * u64::from(chunk_bytes) });
        Ok((Self { memory, chunk_bytes }, all))
    }

    pub(super) const fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    pub(super) const fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// What the kernel is to know of it.
    pub(super) fn registration(&self) -> libc::xdp_umem_reg {
        libc::xdp_umem_reg {
            addr: self.memory.start().as_ptr() as u64,
            len: self.memory.bytes() as u64,
            chunk_size: self.chunk_bytes,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        }
    }

    /// Appends bytes that begin at this address, within this chunk.
    pub(super) fn read(&self, chunk: &Chunk, address: u64, bytes: u32, to: &mut Vec<u8>) {
        let offset = address.wrapping_sub(chunk.address);
        assert!(
            offset <= u64::from(self.chunk_bytes) && u64::from(bytes) <= u64::from(self.chunk_bytes) - offset,
            "the kernel speaks of a place outside of a frame"
        );
        let (start, bytes) = (self.place(chunk, offset as usize), bytes as usize);
        to.reserve(bytes);
        // SAFETY: the bytes are within a chunk that is ours as long as `chunk` is borrowed, so that nobody writes them; there is
        // room for them behind what the vector holds, which is memory of another kind.
        unsafe {
            ptr::copy_nonoverlapping(start, to.as_mut_ptr().add(to.len()), bytes);
            to.set_len(to.len() + bytes);
        }
    }

    /// Writes bytes to the beginning of a chunk, as many as it holds at most.
    pub(super) fn write(&self, chunk: &mut Chunk, from: &[u8]) {
        assert!(from.len() <= self.chunk_bytes as usize, "a chunk holds less");
        // SAFETY: the bytes are within a chunk that is ours alone as long as `chunk` is borrowed.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.place(chunk, 0), from.len()) };
    }

    /// A place in a chunk.
    fn place(&self, chunk: &Chunk, offset: usize) -> *mut u8 {
        let at = chunk.address as usize + offset;
        assert!(at <= self.memory.bytes(), "the kernel speaks of a place outside of the memory");
        // SAFETY: within the mapping, as was just seen.
        unsafe { self.memory.start().add(at).as_ptr() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let (umem, chunks) = Umem::new(4, 2048).unwrap();
        let mut chunks: Vec<Chunk> = chunks.collect();
        assert_eq!(chunks.len(), 4);
        for (number, chunk) in chunks.iter_mut().enumerate() {
            umem.write(chunk, &[number as u8; 2048]);
        }
        for (number, chunk) in chunks.into_iter().enumerate() {
            let mut bytes = vec![9];
            umem.read(&chunk, number as u64 * 2048 + 48, 2000, &mut bytes);
            assert_eq!((bytes[0], &bytes[1..]), (9, &[number as u8; 2000][..]));
            let address = chunk.give();
            // SAFETY: nobody else has it.
            let again = unsafe { Chunk::given_back(address + 256, 2048) };
            assert_eq!(again.give(), address);
        }
    }

    #[test]
    #[should_panic(expected = "outside of a frame")]
    fn a_frame_ends_with_its_chunk() {
        let (umem, mut chunks) = Umem::new(2, 2048).unwrap();
        umem.read(&chunks.next().unwrap(), 100, 2000, &mut Vec::new());
    }
}
