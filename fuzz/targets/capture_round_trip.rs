//! The entry point of libFuzzer for [`fuzz::capture_round_trip`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::capture_round_trip(data));
