//! The entry point of libFuzzer for [`fuzz::argument_types`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::argument_types(data));
