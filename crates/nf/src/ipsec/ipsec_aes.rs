//! # IPsecAES
//! Encrypts or decrypts the payload of ESP packets with AES-128.
//!
//! The key is the encryption key of the route by which RadixIPsecLookup has sent the packet, and the
//! initialization vector is that of the ESP header, 8 bytes. The last 12 bytes of the packet, which are the
//! check value of IPsecAuthHMACSHA1 or IPsecAuthSHA1, stay as they are; if the bytes ahead of them are not a
//! whole number of blocks of 16 bytes, the first 8 bytes of the check value are encrypted, too. So put the
//! element after IPsecAuthHMACSHA1(0), and IPsecAuthHMACSHA1(1) after the one that decrypts.
//!
//! The bytes are those of Click's element, and both understand each other. Other implementations of IPsec do
//! not understand them: blocks are chained by their first 8 bytes only (RFC 3602 has a vector of 16 bytes,
//! and chains whole blocks), and the check value is computed before encryption. For tunnels to other
//! implementations, let the kernel do IPsec (ip xfrm).
//!
//! Packets without security association, or with too few bytes for whole blocks, are dropped.
//!
//! ## Usage
//! `IPsecAES(ENCRYPT)`
//!
//! ## Arguments
//! - `ENCRYPT`: 1 encrypts, 0 decrypts.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 fa010000 0a000001 0a010001 0800f7ff 00000000>, LIMIT 1)
//!   -> CheckIPHeader(CHECKSUM false) -> rt :: RadixIPsecLookup(10.0.0.0/16 0,
//!     10.1.0.0/16 1 1234 \<000102030405060708090a0b0c0d0e0f> \<101112131415161718191a1b1c1d1e1f> 1 32);
//! rt[0] -> Discard;
//! rt[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecEncap(50) -> Discard
//! ```
//!
//! ## See also
//! IPsecDES, IPsecESPEncap, IPsecESPUnencap, IPsecAuthHMACSHA1, RadixIPsecLookup

use aes::cipher::{BlockDecrypt, BlockEncrypt};
use element::{Class, manual};

use super::associations::Association;
use super::chaining::{self, BlockCipher};

/// The element class `IPsecAES`.
pub static CLASS: Class = Class {
    name: "IPsecAES",
    manual: manual!("ipsec_aes.rs"),
    build: chaining::build::<Aes, 16>,
    ..chaining::CLASS
};

pub(super) struct Aes;

impl BlockCipher<16> for Aes {
    const NAME: &'static str = "AES";
    // ESP packets are padded to multiples of 8 bytes. The rest of the last block is the start of the ICV.
    const MORE: usize = 8;

    fn encrypt(association: &Association, block: &mut [u8; 16]) {
        association.aes().encrypt_block(block.into());
    }

    fn decrypt(association: &Association, block: &mut [u8; 16]) {
        association.aes().decrypt_block(block.into());
    }
}
