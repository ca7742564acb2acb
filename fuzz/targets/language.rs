//! The entry point of libFuzzer for [`fuzz::language`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::language(data));
