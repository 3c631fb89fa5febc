//! A security association: the keys of one run, and the processing of one ESP packet with them.
//!
//! The packet in memory: index (4 bytes), sequence number (4), initialization vector (8), payload, padding,
//! padding length (1), next header (1), integrity check value (16).

use core::fmt;
use core::ops::Range;

use cast5::Cast5;
use cast5::cipher::{Block, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::{hkdf, hmac};

use super::parameter::{Cipher, Key};
use crate::service::DropReason;

/// The ESP header, in bytes.
pub(super) const ESP_BYTES: usize = 8;
/// The initialization vector of either cipher, in bytes.
pub(super) const IV_BYTES: usize = 8;
const HEAD_BYTES: usize = ESP_BYTES + IV_BYTES;
/// Padding length and next header, in bytes.
const TRAILER_BYTES: usize = 2;
/// The integrity check value of either cipher, in bytes.
const ICV_BYTES: usize = 16;
/// The length of an ESP packet is a multiple of this, for every cipher (RFC 4303, section 2.4).
const ALIGNMENT: usize = 4;
/// The block of CAST-128, in bytes.
const BLOCK: usize = 8;

/// The purpose in HKDF's info, before the index: other uses of the key need other text.
const PURPOSE: &[u8] = b"humpyard ESP ";

/// The keys of one run.
pub(super) struct Association {
    spi: u32,
    suite: Suite,
}

enum Suite {
    Aes128Gcm { key: Box<LessSafeKey>, salt: [u8; 4] },
    Cast128 { cipher: Box<Cast5>, integrity: hmac::Key },
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Association").field("spi", &self.spi).finish_non_exhaustive()
    }
}

/// Key material from HKDF-SHA-256, whose info includes the index.
struct Material([u8; 48]);

impl Material {
    fn derive(cipher: Cipher, key: &Key, spi: u32) -> Self {
        struct Length;
        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                48
            }
        }
        let name: &[u8] = match cipher {
            Cipher::Aes128Gcm => b"aes-128-gcm",
            Cipher::Cast128 => b"cast-128",
        };
        let mut material = [0; 48];
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&key.0);
        let filled =
            secret.expand(&[PURPOSE, name, &spi.to_be_bytes()], Length).and_then(|okm| okm.fill(&mut material));
        filled.expect("48 bytes are within what HKDF can give");
        Self(material)
    }
}

impl Association {
    pub(super) fn new(cipher: Cipher, key: &Key, spi: u32) -> Self {
        let Material(material) = Material::derive(cipher, key, spi);
        let suite = match cipher {
            Cipher::Aes128Gcm => {
                let key = UnboundKey::new(&AES_128_GCM, &material[..16]).expect("16 bytes are a key of AES-128");
                let [.., a, b, c, d] = material;
                Suite::Aes128Gcm { key: Box::new(LessSafeKey::new(key)), salt: [a, b, c, d] }
            }
            Cipher::Cast128 => Suite::Cast128 {
                cipher: Box::new(Cast5::new_from_slice(&material[..16]).expect("16 bytes are a key of CAST-128")),
                integrity: hmac::Key::new(hmac::HMAC_SHA256, &material[16..]),
            },
        };
        Self { spi, suite }
    }

    /// Returns the security parameters index.
    pub(super) const fn spi(&self) -> u32 {
        self.spi
    }

    /// Returns the bytes behind a payload of this length: padding, its length, next header, integrity check
    /// value.
    #[inline]
    pub(super) const fn tail_bytes(&self, inner_bytes: usize) -> usize {
        let multiple = match self.suite {
            Suite::Aes128Gcm { .. } => ALIGNMENT,
            Suite::Cast128 { .. } => BLOCK,
        };
        (inner_bytes + TRAILER_BYTES).next_multiple_of(multiple) - inner_bytes + ICV_BYTES
    }

    /// Encrypts a packet in place. Its payload of `inner_bytes` is at its place, followed by
    /// [`Association::tail_bytes`] bytes. No two packets may have the same `vector`.
    #[inline]
    pub(super) fn seal(
        &self,
        packet: &mut [u8],
        inner_bytes: usize,
        next_header: u8,
        vector: u64,
    ) -> Result<(), DropReason> {
        // The sequence number starts at 1 (RFC 4303, section 3.3.3), and is the vector's low half.
        let sequence = (vector as u32).wrapping_add(1);
        packet[..4].copy_from_slice(&self.spi.to_be_bytes());
        packet[4..8].copy_from_slice(&sequence.to_be_bytes());
        let text_end = packet.len() - ICV_BYTES;
        write_trailer(&mut packet[HEAD_BYTES + inner_bytes..text_end], next_header);
        let (head, rest) = packet.split_at_mut(HEAD_BYTES);
        let (text, icv) = rest.split_at_mut(text_end - HEAD_BYTES);
        match &self.suite {
            Suite::Aes128Gcm { key, salt } => {
                head[ESP_BYTES..].copy_from_slice(&vector.to_be_bytes());
                let (nonce, aad) = (nonce(*salt, vector), Aad::from(&head[..ESP_BYTES]));
                let tag = key.seal_in_place_separate_tag(nonce, aad, text).map_err(|_| DropReason::TooLong)?;
                icv.copy_from_slice(tag.as_ref());
            }
            Suite::Cast128 { cipher, integrity } => {
                // An encrypted counter gives different and unpredictable vectors: NIST SP 800-38A, appendix C.
                let mut iv = Block::<Cast5>::from(vector.to_be_bytes());
                cipher.encrypt_block(&mut iv);
                head[ESP_BYTES..].copy_from_slice(&iv);
                let (blocks, _) = Block::<Cast5>::slice_as_chunks_mut(text);
                cbc::Encryptor::inner_iv_init(&**cipher, &iv).encrypt_blocks(blocks);
                let tag = hmac::sign(integrity, &packet[..text_end]);
                packet[text_end..].copy_from_slice(&tag.as_ref()[..ICV_BYTES]);
            }
        }
        Ok(())
    }

    /// Checks and decrypts a packet in place. Returns the range of its payload, and its next header.
    #[inline]
    pub(super) fn open(&self, packet: &mut [u8]) -> Result<(Range<usize>, u8), DropReason> {
        if packet.len() < HEAD_BYTES + TRAILER_BYTES + ICV_BYTES {
            return Err(DropReason::Malformed);
        }
        let text_end = packet.len() - ICV_BYTES;
        match &self.suite {
            Suite::Aes128Gcm { key, salt } => {
                let (head, rest) = packet.split_at_mut(HEAD_BYTES);
                let vector = head.last_chunk().copied().map_or(0, u64::from_be_bytes);
                let (nonce, aad) = (nonce(*salt, vector), Aad::from(&head[..ESP_BYTES]));
                key.open_in_place(nonce, aad, rest).map_err(|_| DropReason::NotAuthentic)?;
            }
            Suite::Cast128 { cipher, integrity } => {
                let (message, icv) = packet.split_at_mut(text_end);
                if !is_cut_tag(integrity, message, icv) {
                    return Err(DropReason::NotAuthentic);
                }
                let (head, text) = message.split_at_mut(HEAD_BYTES);
                let (blocks, rest) = Block::<Cast5>::slice_as_chunks_mut(text);
                if !rest.is_empty() {
                    return Err(DropReason::Malformed);
                }
                let iv = head.last_chunk::<IV_BYTES>().copied().unwrap_or_default();
                cbc::Decryptor::inner_iv_init(&**cipher, &iv.into()).decrypt_blocks(blocks);
            }
        }
        read_trailer(&packet[..text_end])
    }
}

fn nonce(salt: [u8; 4], vector: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&salt);
    nonce[4..].copy_from_slice(&vector.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Returns whether `icv` is the start of the tag of this message. The comparison takes constant time.
fn is_cut_tag(key: &hmac::Key, message: &[u8], icv: &[u8]) -> bool {
    let tag = hmac::sign(key, message);
    let differing = tag.as_ref()[..ICV_BYTES].iter().zip(icv).fold(0, |differing, (a, b)| differing | (a ^ b));
    differing == 0
}

/// Writes padding that counts from 1 (RFC 4303, section 2.4), its length, and the next header.
fn write_trailer(trailer: &mut [u8], next_header: u8) {
    let padding = trailer.len() - TRAILER_BYTES;
    for (byte, number) in trailer[..padding].iter_mut().zip(1..) {
        *byte = number;
    }
    (trailer[padding], trailer[padding + 1]) = (padding as u8, next_header);
}

/// Returns the range of the payload in a decrypted packet without its check value, and its next header.
fn read_trailer(packet: &[u8]) -> Result<(Range<usize>, u8), DropReason> {
    let [.., padding, next_header] = *packet else { return Err(DropReason::Malformed) };
    let end = (packet.len() - TRAILER_BYTES).checked_sub(usize::from(padding));
    let end = end.filter(|&end| end >= HEAD_BYTES).ok_or(DropReason::Malformed)?;
    let counts =
        packet[end..packet.len() - TRAILER_BYTES].iter().zip(1..).all(|(&byte, number): (_, u8)| byte == number);
    if counts { Ok((HEAD_BYTES..end, next_header)) } else { Err(DropReason::Malformed) }
}
