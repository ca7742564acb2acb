//! The entry point of libFuzzer for [`fuzz::slicing`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::slicing(data));
