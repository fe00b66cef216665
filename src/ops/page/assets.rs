//! Style sheet, script and icon of the pages, compiled in.

use std::sync::LazyLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};

struct Asset {
    kind: &'static str,
    text: &'static str,
}

const CSS: Asset = Asset { kind: "text/css; charset=utf-8", text: include_str!("page.css") };
const SCRIPT: Asset = Asset { kind: "text/javascript; charset=utf-8", text: include_str!("page.js") };
const ICON: Asset = Asset { kind: "image/svg+xml", text: include_str!("icon.svg") };

/// Hash of the assets and of the program's version. Addresses contain it, so no browser uses an asset older than the page.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let all = [CSS.text, SCRIPT.text, ICON.text, env!("CARGO_PKG_VERSION")].concat();
    digest(&SHA256, all.as_bytes()).as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
});

pub(super) async fn css(headers: HeaderMap) -> Response {
    answer(&headers, &CSS)
}

pub(super) async fn script(headers: HeaderMap) -> Response {
    answer(&headers, &SCRIPT)
}

pub(super) async fn icon(headers: HeaderMap) -> Response {
    answer(&headers, &ICON)
}

fn answer(headers: &HeaderMap, asset: &Asset) -> Response {
    let tag = format!("\"{}\"", *VERSION);
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(CONTENT_TYPE, asset.kind)], asset.text).into_response(),
    };
    let own = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        own.insert(ETAG, tag);
    }
    own.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    own.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
