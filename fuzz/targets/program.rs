//! The entry point of libFuzzer for [`fuzz::program`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::program(data));
