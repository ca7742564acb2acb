//! The entry point of libFuzzer for [`fuzz::multiplying`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::multiplying(data));
