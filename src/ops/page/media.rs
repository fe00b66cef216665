//! The section about media by state.

use std::time::Duration;

use maud::{Markup, html};
use tokio::sync::Mutex;

use super::format::{count_text, describe_error};
use super::scroll_table::scroll_table;
use crate::ops::slow_query::SlowQuery;
use crate::ops::{NoAnswer, OpenedStore};
use engine::base::humanize::group_digits;
use networks::model::media::MediaState;
use store::{MediaTotal, Store, StoreError};

/// Interval of counts while the page has viewers; longer if a count is slow, since it reads all media.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);
/// Time limit of a count: the rest of the page waits for it.
const COUNT_TIMEOUT: Duration = Duration::from_millis(500);

/// Counts of a namespace, and the bytes of the files of all namespaces.
#[derive(Debug, Default)]
struct MediaFigures {
    totals: Vec<MediaTotal>,
    bytes: i64,
}

/// Latest counts, shared by all viewers.
#[derive(Debug, Default)]
pub(super) struct MediaCounts(Mutex<SlowQuery<MediaFigures, Result<MediaFigures, NoAnswer>>>);

impl MediaCounts {
    pub(super) async fn section(&self, store: OpenedStore, namespace: &str) -> Markup {
        let (mut counting, namespace) = (self.0.lock().await, namespace.to_owned());
        let ask = || async move {
            let store = store.load();
            let store = store.as_ref().as_ref().map_err(Clone::clone)?;
            Ok(read_figures(&**store, &namespace).await?)
        };
        counting.refresh(COUNT_INTERVAL, COUNT_TIMEOUT, None, ask, |counted| counted).await;
        html! { @if let Some(counted) = &counting.answer { (section(counted)) } }
    }
}

async fn read_figures(store: &dyn Store, namespace: &str) -> Result<MediaFigures, StoreError> {
    Ok(MediaFigures { totals: store.media_totals(namespace).await?, bytes: store.media_bytes().await? })
}

fn meaning(state: MediaState) -> &'static str {
    match state {
        MediaState::Waiting => "to be fetched",
        MediaState::Stored => "the file is stored",
        MediaState::Gone => "the host does not return the file",
        MediaState::Refused => "too large, of another type, or not on the public internet",
        MediaState::Failed => "failed for longer than media.give_up_after",
        MediaState::Removed => "no stored post shows it any more",
    }
}

fn section(counted: &Result<MediaFigures, NoAnswer>) -> Markup {
    html! {
        section.panel #media aria-labelledby="media-name" {
            h2 #media-name { "Media" }
            @match counted {
                Err(why) => p.lead.bad { "The store does not answer: " (describe_error(why)) },
                Ok(MediaFigures { totals, .. }) if totals.is_empty() => p.lead.none { "No post with media was found yet." },
                Ok(MediaFigures { totals, bytes }) => {
                    p.lead {
                        strong { (count_text(count_in_state(totals, MediaState::Stored), "file")) } " stored, "
                        strong { (group_digits(count_in_state(totals, MediaState::Waiting))) } " waiting; the files of all networks take "
                        strong { (format!("{:.1} MB", *bytes as f64 / 1e6)) }
                    }
                    (scroll_table("media-box", "Media by state", None, &[
                        ("", "State"), ("n", "Media"), ("lesser", "Meaning")
                    ], html! {
                        @for total in totals {
                            tr {
                                th scope="row" { (total.state.as_str()) }
                                td.n { (group_digits(non_negative(total.media))) }
                                td.lesser { (meaning(total.state)) }
                            }
                        }
                    }))
                }
            }
        }
    }
}

fn count_in_state(totals: &[MediaTotal], state: MediaState) -> u64 {
    totals.iter().filter(|total| total.state == state).map(|total| non_negative(total.media)).sum()
}

fn non_negative(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_counted_by_state_or_the_error_is_shown() {
        let out = section(&Err(NoAnswer::Failed("no <answer>".to_owned()))).into_string();
        assert!(out.contains("does not answer: no &lt;answer&gt;"), "{out}");
        assert!(section(&Ok(MediaFigures::default())).into_string().contains("No post with media"));
        let total = |state, media| MediaTotal { state, media, bytes: 5 };
        let totals = vec![total(MediaState::Gone, 3), total(MediaState::Stored, 1_200), total(MediaState::Waiting, 7)];
        let page = section(&Ok(MediaFigures { totals, bytes: 2_500_000 })).into_string();
        for says in ["1,200 files", "<strong>7</strong> waiting", "2.5 MB", "the host does not return the file"] {
            assert!(page.contains(says), "{says}: {page}");
        }
    }
}
