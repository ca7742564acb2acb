//! The entry point of libFuzzer for [`fuzz::analysis`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::analysis(data));
