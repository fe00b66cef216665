//! The section about the youngest posts with their counts.

use std::time::Duration;

use maud::{Markup, html};
use tokio::sync::Mutex;

use super::format::{describe_error, number_or_dash, one_line, relative_time, truncate_chars};
use super::layout::item_link;
use super::routes::Routes;
use super::scroll_table::{STACKED, scroll_table};
use crate::data::dead::DeadItems;
use crate::ops::{NoAnswer, StoreAccess};
use engine::base::clock::{Millis, Stopwatch};
use store::{Listing, StoreError, StoredTweet};

const MAX_SHOWN: u32 = 5;
const READ_INTERVAL: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Time limit of a read: the rest of the page waits for it.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
const MAX_TEXT_CHARS: usize = 80;

type LastReading = Option<(Stopwatch, Result<Vec<StoredTweet>, NoAnswer>)>;

/// The youngest tracked posts (greatest ids) as last read, shared by all viewers.
#[derive(Debug, Default)]
pub(super) struct YoungestPosts(Mutex<LastReading>);

impl YoungestPosts {
    /// Renders `#tweets`. After a failed read, it waits for `RETRY_INTERVAL` before the next.
    pub(super) async fn section(&self, archive: &StoreAccess, routes: &Routes, now: Millis) -> Markup {
        let mut read = self.0.lock().await;
        let tweets = match read.take() {
            Some((watch, tweets)) if watch.elapsed() < if tweets.is_ok() { READ_INTERVAL } else { RETRY_INTERVAL } => {
                read.insert((watch, tweets))
            }
            _ => {
                let answer = tokio::time::timeout(READ_TIMEOUT, archive.query(read_youngest)).await;
                let tweets = answer.unwrap_or_else(|_| Err(NoAnswer::within_millis("no answer", READ_TIMEOUT)));
                read.insert((Stopwatch::start(), tweets))
            }
        };
        section(&tweets.1, routes, now)
    }
}

async fn read_youngest(dead: &DeadItems) -> Result<Vec<StoredTweet>, StoreError> {
    let namespace = dead.queue.namespace();
    let mut tweets = Vec::new();
    for listed in dead.store.page(namespace, Listing::Tracked, None, MAX_SHOWN).await? {
        tweets.extend(dead.store.tweet(namespace, &listed.id).await?);
    }
    Ok(tweets)
}

fn section(tweets: &Result<Vec<StoredTweet>, NoAnswer>, routes: &Routes, now: Millis) -> Markup {
    html! {
        section.panel #tweets aria-labelledby="tweets-name" {
            h2 #tweets-name { "Youngest posts" }
            @match tweets {
                Err(why) => p.lead.bad { "The store does not answer: " (describe_error(why)) },
                Ok(tweets) if tweets.is_empty() => p.lead.none { "No post is stored." },
                Ok(tweets) => {
                    (scroll_table("tweets-box", "The youngest posts", STACKED, &[
                        ("", "Post"), ("n", "Likes"), ("n", "Reposts"), ("n lesser", "Lookups"), ("", "Looked up"),
                        ("", "Text")
                    ], html! {
                        @for tweet in tweets { (row(tweet, routes, now)) }
                    }))
                }
            }
        }
    }
}

fn row(tweet: &StoredTweet, routes: &Routes, now: Millis) -> Markup {
    html! {
        tr {
            th.id scope="row" { (item_link(routes, &tweet.id)) }
            td.n data-name="Likes" { (number_or_dash(tweet.metrics.favorite_count)) }
            td.n data-name="Reposts" { (number_or_dash(tweet.metrics.retweet_count)) }
            td.n.lesser { (number_or_dash(tweet.lookups)) }
            td data-name="Looked up" {
                @match tweet.checked_at { Some(at) => (relative_time(at, now, "ago")), None => "not yet" }
            }
            td.text dir="auto" { (truncate_chars(&one_line(tweet.text.as_deref().unwrap_or_default()), MAX_TEXT_CHARS)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_out_or_empty_says_so() {
        let out = section(&Err(NoAnswer::Failed("no <answer>".to_owned())), &Routes::default(), 0).into_string();
        assert!(out.contains("does not answer: no &lt;answer&gt;"), "{out}");
        assert!(section(&Ok(Vec::new()), &Routes::default(), 0).into_string().contains("No post is stored."));
    }
}
