#![no_main]
#![allow(dead_code)] // each target holds one of the properties

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &str| {
    properties::configuration(data);
});
