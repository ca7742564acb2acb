//! The entry point of libFuzzer for [`tidegate_fuzz::argument_types`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::argument_types(data));
