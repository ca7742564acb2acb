//! The entry point of libFuzzer for [`tidegate_fuzz::language`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::language(data));
