//! The entry point of libFuzzer for [`fuzz::filters`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::filters(data));
