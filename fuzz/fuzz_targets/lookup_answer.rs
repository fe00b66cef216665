#![no_main]
#![allow(dead_code)] // each target holds one of the properties

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The first byte chooses how many are asked for.
    let asked: Vec<String> = (20..20 + u64::from(data.first().copied().unwrap_or(0) % 100)).map(|id| id.to_string()).collect();
    properties::lookup_answer(data.get(1..).unwrap_or_default(), &asked);
});
