//! Media by state: how many are stored, how many wait, and why the others are not stored.

use std::time::Duration;

use maud::{Markup, html};
use tokio::sync::Mutex;

use super::words::{count, error};
use crate::base::humanize::grouped;
use crate::model::media::MediaState;
use crate::model::pipeline_id::PipelineId;
use crate::ops::StoreAtHand;
use crate::ops::counting::Counting;
use crate::pipelines::media::MEDIA;
use crate::store::{MediaTotal, Store, StoreError};

/// Interval of counts while the page has viewers; longer if a count takes more than its part of the time, since it reads all media.
const EVERY: Duration = Duration::from_secs(15);
/// Time limit of a count: the rest of the page waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// The counts of a namespace, and the bytes of the files of all namespaces.
#[derive(Debug, Default)]
struct Counted {
    totals: Vec<MediaTotal>,
    bytes: i64,
}

/// The last counts, shared by all viewers.
#[derive(Debug, Default)]
pub(super) struct MediaCounts(Mutex<Counting<Counted, Result<Counted, String>>>);

pub(super) fn is_media(namespace: &str) -> bool {
    PipelineId::is_of(namespace, MEDIA)
}

impl MediaCounts {
    pub(super) async fn section(&self, store: StoreAtHand, namespace: &str) -> Markup {
        let (mut counting, namespace) = (self.0.lock().await, namespace.to_owned());
        let ask = || async move {
            let store = store.load();
            let store = store.as_ref().as_ref().map_err(Clone::clone)?;
            counts(&**store, &namespace).await.map_err(|error| error.to_string())
        };
        counting.ask(EVERY, PATIENCE, None, ask, |counted| counted).await;
        html! { @if let Some(counted) = &counting.said { (section(counted)) } }
    }
}

async fn counts(store: &dyn Store, namespace: &str) -> Result<Counted, StoreError> {
    Ok(Counted { totals: store.media_totals(namespace).await?, bytes: store.media_bytes().await? })
}

fn meaning(state: MediaState) -> &'static str {
    match state {
        MediaState::Waiting => "to be fetched",
        MediaState::Stored => "the file is kept",
        MediaState::Gone => "the host does not give the file",
        MediaState::Refused => "too large, of another type, or not on the public internet",
        MediaState::Failed => "failed for longer than media.give_up_after",
        MediaState::Removed => "no stored post shows it any more",
    }
}

fn section(counted: &Result<Counted, String>) -> Markup {
    html! {
        section.panel #media aria-labelledby="media-name" {
            h2 #media-name { "Media" }
            @match counted {
                Err(why) => p.lead.bad { "The store does not answer: " (error(why)) },
                Ok(Counted { totals, .. }) if totals.is_empty() => p.lead.none { "No post with media was found yet." },
                Ok(Counted { totals, bytes }) => {
                    p.lead {
                        strong { (count(of(totals, MediaState::Stored), "file")) } " stored, "
                        strong { (grouped(of(totals, MediaState::Waiting))) } " waiting; the files of all networks take "
                        strong { (format!("{:.1} MB", *bytes as f64 / 1e6)) }
                    }
                    div.scroll #media-box tabindex="0" role="region" aria-label="Media by state" {
                        table aria-label="Media by state" {
                            thead {
                                tr {
                                    th scope="col" { "State" }
                                    th.n scope="col" { "Media" }
                                    th.lesser scope="col" { "Meaning" }
                                }
                            }
                            tbody {
                                @for total in totals {
                                    tr {
                                        th scope="row" { (total.state.as_str()) }
                                        td.n { (grouped(number(total.media))) }
                                        td.lesser { (meaning(total.state)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn of(totals: &[MediaTotal], state: MediaState) -> u64 {
    totals.iter().filter(|total| total.state == state).map(|total| number(total.media)).sum()
}

fn number(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_counted_by_state_or_the_error_is_shown() {
        assert!(is_media("media:twitter") && !is_media("tweet:update") && !is_media("profiles:twitter"));
        let out = section(&Err("no <answer>".to_owned())).into_string();
        assert!(out.contains("does not answer: no &lt;answer&gt;"), "{out}");
        assert!(section(&Ok(Counted::default())).into_string().contains("No post with media"));
        let total = |state, media| MediaTotal { state, media, bytes: 5 };
        let totals = vec![total(MediaState::Gone, 3), total(MediaState::Stored, 1_200), total(MediaState::Waiting, 7)];
        let page = section(&Ok(Counted { totals, bytes: 2_500_000 })).into_string();
        for says in ["1,200 files", "<strong>7</strong> waiting", "2.5 MB", "the host does not give the file"] {
            assert!(page.contains(says), "{says}: {page}");
        }
    }
}
