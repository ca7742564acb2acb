//! # IPsecDES
//! Encrypts or decrypts the payload of ESP packets with DES-CBC (RFC 2405).
//!
//! DES is not safe any more: a key can be found by trying all keys. Use IPsecAES, unless the other end has
//! nothing but DES.
//!
//! The key is the first 8 bytes of the encryption key of the route by which RadixIPsecLookup has sent the
//! packet; parity bits are not checked. The initialization vector is that of the ESP header. The last 12
//! bytes of the packet, which are the check value of IPsecAuthHMACSHA1 or IPsecAuthSHA1, stay as they are. So
//! put the element after IPsecAuthHMACSHA1(0), and IPsecAuthHMACSHA1(1) after the one that decrypts; without
//! a check value, the last blocks of the payload are not encrypted.
//!
//! Packets without security association, or that are shorter than ESP header and check value, are dropped.
//!
//! ## Usage
//! `IPsecDES(ENCRYPT)`
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
//! rt[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecDES(1) -> IPsecEncap(50) -> Discard
//! ```
//!
//! ## See also
//! IPsecAES, IPsecESPEncap, IPsecESPUnencap, IPsecAuthHMACSHA1, RadixIPsecLookup

use aes::cipher::{BlockDecrypt, BlockEncrypt};
use element::{Class, manual};

use super::associations::Association;
use super::chaining::{self, BlockCipher};

/// The element class `IPsecDES`.
pub static CLASS: Class = Class {
    name: "IPsecDES",
    manual: manual!("ipsec_des.rs"),
    build: chaining::build::<Des, 8>,
    ..chaining::CLASS
};

pub(super) struct Des;

impl BlockCipher<8> for Des {
    const NAME: &'static str = "DES-CBC";
    const MORE: usize = 0;

    fn encrypt(association: &Association, block: &mut [u8; 8]) {
        association.des().encrypt_block(block.into());
    }

    fn decrypt(association: &Association, block: &mut [u8; 8]) {
        association.des().decrypt_block(block.into());
    }
}
