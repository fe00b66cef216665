#![no_main]
#![allow(dead_code)] // each target holds one of the properties

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut asked: Vec<String> = (20..24).map(|id| id.to_string()).collect();
    asked.push("at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l".to_owned());
    properties::other_lookup_answer(data, &asked);
});
