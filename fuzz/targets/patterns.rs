//! The entry point of libFuzzer for [`tidegate_fuzz::patterns`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::patterns(data));
