//! The entry point of libFuzzer for [`fuzz::configuration`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::configuration(data));
