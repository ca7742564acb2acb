//! The entry point of libFuzzer for [`fuzz::headers`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::headers(data));
