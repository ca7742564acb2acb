//! The entry point of libFuzzer for [`fuzz::packets`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::packets(data));
