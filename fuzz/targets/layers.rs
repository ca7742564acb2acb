//! The entry point of libFuzzer for [`fuzz::layers`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::layers(data));
