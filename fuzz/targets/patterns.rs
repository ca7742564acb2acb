//! The entry point of libFuzzer for [`fuzz::patterns`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::patterns(data));
