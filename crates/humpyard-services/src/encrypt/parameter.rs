//! The parameters of encryption.

use core::fmt;

use humpyard_core::policy::ParameterValue;
use humpyard_core::{choice, params};

params! {
    /// Parameters of encryption.
    pub struct EncryptParams {
        /// The cipher, with what goes with it to notice forgeries.
        cipher: Cipher = Cipher::Aes128Gcm, cost "always";
        /// The key from which those of the run are derived. Results show it.
        key: Key = Key::TRIAL;
        /// The security parameters index of the run: with one key, never use one twice. `auto` is the second that it is.
        spi: Spi = Spi::Auto;
    }
}

params! {
    /// Parameters of decryption; they must equal those of encryption.
    pub struct DecryptParams {
        /// The cipher, with what goes with it to notice forgeries.
        cipher: Cipher = Cipher::Aes128Gcm, cost "always";
        /// The key from which those of the run are derived. Results show it.
        key: Key = Key::TRIAL;
    }
}

choice! {
    /// A cipher, with its authentication.
    pub enum Cipher {
        /// AES-128 in Galois/Counter mode.
        Aes128Gcm = "aes-128-gcm",
        /// CAST-128 in CBC mode, and HMAC-SHA-256 cut to 128 bits.
        Cast128 = "cast-128",
    }
}

/// A key of 128 bits. As text: 32 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd)]
pub struct Key(pub [u8; 16]);

impl Key {
    /// The default key, which is public.
    pub const TRIAL: Self = Self([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl ParameterValue for Key {
    const ACCEPTS: &'static str = "32 hexadecimal digits";

    fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        digits.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(|key| Self(key.to_be_bytes()))
    }

    fn show(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A security parameters index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Spi {
    /// The current second.
    Auto,
    /// This number.
    Given(u32),
}

impl Spi {
    /// The least valid index; lower ones are reserved (RFC 4303, section 2.1).
    pub const LEAST: u32 = 256;
}

impl ParameterValue for Spi {
    const ACCEPTS: &'static str = "`auto` or 256 to 4294967295";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            _ => text.parse().ok().filter(|&spi| spi >= Self::LEAST).map(Self::Given),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".into(),
            Self::Given(spi) => spi.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_as_shown() {
        assert_eq!(Key::TRIAL.show(), "000102030405060708090a0b0c0d0e0f");
        assert_eq!(Key::parse(&Key::TRIAL.show()), Some(Key::TRIAL));
        for bad in ["", "00", "+00102030405060708090a0b0c0d0e0f", "g00102030405060708090a0b0c0d0e0f"] {
            assert_eq!(Key::parse(bad), None, "{bad}");
        }
        for spi in ["auto", "256", "4294967295"] {
            assert_eq!(Spi::parse(spi).map(|spi| spi.show()).as_deref(), Some(spi));
        }
        assert_eq!((Spi::parse("255"), Spi::parse("4294967296")), (None, None));
    }
}
