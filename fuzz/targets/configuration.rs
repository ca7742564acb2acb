//! The entry point of libFuzzer for [`tidegate_fuzz::configuration`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::configuration(data));
