#![no_main]
#![allow(dead_code)] // each target holds one of the properties

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The first byte is the size of the chunks.
    let chunk = usize::from(data.first().copied().unwrap_or(0));
    properties::account_lines(data.get(1..).unwrap_or_default(), chunk);
});
