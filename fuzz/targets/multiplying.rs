//! The entry point of libFuzzer for [`tidegate_fuzz::multiplying`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::multiplying(data));
