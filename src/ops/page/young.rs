//! The youngest posts with their counts: a link from the front page to a post, and a place to see them grow.

use std::time::Duration;

use maud::{Markup, html};
use tokio::sync::Mutex;

use super::layout::item_link;
use super::routes::Routes;
use super::words::{cut, error, one_line, relative, stored};
use crate::base::clock::{Millis, Stopwatch};
use crate::ops::Archive;
use crate::ops::dead::Dead;
use crate::store::{Listing, StoreError, StoredTweet};

const SHOWN: u32 = 5;
const EVERY: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(5);
/// Time limit of a read: the rest of the page waits for it.
const PATIENCE: Duration = Duration::from_millis(500);
const TEXT: usize = 80;

/// The last reading, shared by all viewers.
type Read = Option<(Stopwatch, Result<Vec<StoredTweet>, String>)>;

/// The youngest living posts: the greatest ids.
#[derive(Debug, Default)]
pub(super) struct Young(Mutex<Read>);

impl Young {
    /// `#tweets`, as last read. It says so if the store does not answer, and does not wait again for a moment.
    pub(super) async fn section(&self, archive: &Archive, routes: &Routes, now: Millis) -> Markup {
        let mut read = self.0.lock().await;
        let tweets = match read.take() {
            Some((watch, tweets)) if watch.elapsed() < if tweets.is_ok() { EVERY } else { AGAIN } => {
                read.insert((watch, tweets))
            }
            _ => {
                let asked = tokio::time::timeout(PATIENCE, archive.ask(youngest)).await;
                let tweets = asked.unwrap_or_else(|_| Err(format!("no answer within {} ms", PATIENCE.as_millis())));
                read.insert((Stopwatch::start(), tweets))
            }
        };
        section(&tweets.1, routes, now)
    }
}

async fn youngest(dead: &Dead) -> Result<Vec<StoredTweet>, StoreError> {
    let namespace = dead.queue.namespace();
    let mut tweets = Vec::new();
    for listed in dead.store.page(namespace, Listing::Living, None, SHOWN).await? {
        tweets.extend(dead.store.tweet(namespace, &listed.id).await?);
    }
    Ok(tweets)
}

fn section(tweets: &Result<Vec<StoredTweet>, String>, routes: &Routes, now: Millis) -> Markup {
    html! {
        section.panel #tweets aria-labelledby="tweets-name" {
            h2 #tweets-name { "Youngest posts" }
            @match tweets {
                Err(why) => p.lead.bad { "The store does not answer: " (error(why)) },
                Ok(tweets) if tweets.is_empty() => p.lead.none { "No post is stored." },
                Ok(tweets) => {
                    div.scroll #tweets-box tabindex="0" role="region" aria-label="The youngest posts" {
                        table.stacked aria-label="The youngest posts" {
                            thead {
                                tr {
                                    th scope="col" { "Post" }
                                    th.n scope="col" { "Likes" }
                                    th.n scope="col" { "Reposts" }
                                    th.n.lesser scope="col" { "Lookups" }
                                    th scope="col" { "Looked up" }
                                    th scope="col" { "Text" }
                                }
                            }
                            tbody { @for tweet in tweets { (row(tweet, routes, now)) } }
                        }
                    }
                }
            }
        }
    }
}

fn row(tweet: &StoredTweet, routes: &Routes, now: Millis) -> Markup {
    html! {
        tr {
            th.id scope="row" { (item_link(routes, &tweet.id)) }
            td.n data-name="Likes" { (stored(tweet.metrics.favorite_count)) }
            td.n data-name="Reposts" { (stored(tweet.metrics.retweet_count)) }
            td.n.lesser { (stored(tweet.lookups)) }
            td data-name="Looked up" {
                @match tweet.checked_at { Some(at) => (relative(at, now, "ago")), None => "not yet" }
            }
            td.text dir="auto" { (cut(&one_line(tweet.text.as_deref().unwrap_or_default()), TEXT)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_out_or_empty_says_so() {
        let out = section(&Err("no <answer>".to_owned()), &Routes::default(), 0).into_string();
        assert!(out.contains("does not answer: no &lt;answer&gt;"), "{out}");
        assert!(section(&Ok(Vec::new()), &Routes::default(), 0).into_string().contains("No post is stored."));
    }
}
