//! The entry point of libFuzzer for [`fuzz::arguments`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::arguments(data));
