//! Chooses the format of metrics by the Accept header: OpenMetrics or Prometheus text 0.0.4.

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn metrics_response(headers: &HeaderMap, open_metrics: String) -> Response {
    match prefers_open_metrics(headers) {
        true => ([(CONTENT_TYPE, OPEN_METRICS)], open_metrics).into_response(),
        false => ([(CONTENT_TYPE, TEXT)], to_prometheus_text(&open_metrics)).into_response(),
    }
}

/// Returns true if the request wants OpenMetrics at least as much as plain text. A browser and curl name neither.
fn prefers_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = || {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(','))
    };
    let weight = |kind: &str| {
        let weights = accepted().filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_kind = parts.next()?.eq_ignore_ascii_case(kind);
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
            weight.filter(|_| is_kind)
        });
        weights.fold(0.0, f64::max)
    };
    let open_metrics = weight("application/openmetrics-text");
    open_metrics > 0.0 && open_metrics >= weight("text/plain")
}

/// Converts to text of version 0.0.4: counters are named with `_total`, and the type `info` and units do not exist.
fn to_prometheus_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    let mut push = |parts: &[&str]| {
        parts.iter().for_each(|part| text.push_str(part));
        text.push('\n');
    };
    for line in open_metrics.lines() {
        if let Some(about) = line.strip_prefix("# HELP ") {
            help = about.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|family| family.split_once(' ')) {
            let (end, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((_, about)) = help.take_if(|(of, _)| *of == name) {
                push(&["# HELP ", name, end, " ", about]);
            }
            push(&["# TYPE ", name, end, " ", kind]);
        } else if !line.starts_with('#') {
            push(&[line]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_header_selects_the_metrics_format() {
        let prefers = |accept: &[&'static str]| {
            let accept = accept.iter().map(|value| (ACCEPT, value.parse().unwrap()));
            prefers_open_metrics(&accept.collect())
        };
        for open_metrics in [
            &["application/openmetrics-text;version=1.0.0"][..],
            &["application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"],
            &["text/plain;q=0.5", "Application/OpenMetrics-Text; q=0.5"],
        ] {
            assert!(prefers(open_metrics), "{open_metrics:?}");
        }
        for text in [
            &[][..],
            &["*/*"],
            &["text/plain;version=0.0.4"],
            &["text/html,application/xhtml+xml"],
            &[
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;q=0.7,text/plain;version=0.0.4;q=0.3",
            ],
            &["text/plain, application/openmetrics-text;q=0.5"],
            &["application/openmetrics-text;q=0"],
            &["application/openmetrics-text;q=much"],
        ] {
            assert!(!prefers(text), "{text:?}");
        }
    }

    #[test]
    fn the_text_has_the_names_and_types_of_its_version() {
        let open_metrics = "# HELP a_build The program.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
            # HELP a_found Items found.\n# TYPE a_found counter\na_found_total 7\n\
            # HELP a_wait_seconds Waits.\n# TYPE a_wait_seconds histogram\n# UNIT a_wait_seconds seconds\n\
            a_wait_seconds_bucket{le=\"+Inf\"} 1\n# TYPE a_more gauge\na_more 3\n# EOF\n";
        let text = "# HELP a_build_info The program.\n# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n\
            # HELP a_found_total Items found.\n# TYPE a_found_total counter\na_found_total 7\n\
            # HELP a_wait_seconds Waits.\n# TYPE a_wait_seconds histogram\n\
            a_wait_seconds_bucket{le=\"+Inf\"} 1\n# TYPE a_more gauge\na_more 3\n";
        assert_eq!(to_prometheus_text(open_metrics), text);
    }
}
