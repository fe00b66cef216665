//! Timelines of a Mastodon instance: public, a hashtag's, an account's.
//!
//! Sources: docs.joinmastodon.org (methods/timelines, methods/accounts, api/guidelines), the server's own code
//! (`app/models/concerns/paginable.rb`): `max_id`, `since_id` and `min_id` are all exclusive, and a page has at most 40.
//!
//! **`since_id`, not `min_id`.** With `min_id` a page holds the *oldest* statuses above it, so a reader could walk upwards and
//! remember only the last id. But ids near the newest still appear out of order, so it must start again from k before the newest.
//! If more than a page was written within k, it gets the same page for ever. With `since_id` and `max_id` the walk goes down from
//! the newest: each status comes once per round, and the round ends at `since`. Other software that speaks this API supports
//! these two as well, and not always the third.
//!
//! **Caches.** Answers without a token are public, and caches keep them for 15 seconds or longer, with a `Date` that is not the
//! server's ([`measure_reading`]): then only the ids count.

use async_trait::async_trait;
use reqwest::Url;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::providers::auth::get;
use crate::providers::http::{ClientError, HttpClient, Reply, parse_base_url};
use crate::providers::lookup::LookupError;
use crate::providers::mastodon::description::InstanceAddress;
use crate::providers::mastodon::{self, TIMES, errors, parse_status, read_id};
use crate::providers::since::IdLayout;
use crate::providers::source::{NetworkTimeline, SourceKind, SourceQuery, check_no_sign, check_number};
use crate::providers::timeline::{
    NextPage, Page, Post, Rules, TimelineRequest, measure_reading, read_posts, target_error,
};
use engine::base::clock::Millis;
use engine::quota::{Credential, CredentialKind};

/// Statuses per page: the server's limit.
const COUNT: u32 = 40;

/// 2018-01-01, ms since the epoch: Mastodon was at 2.0, and ids made since then contain the time.
const IDS_TELL_SINCE: Millis = 1_514_764_800_000;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Kind {
    Public {
        /// True for only the statuses written there.
        #[serde(default, deserialize_with = "yes_or_no")]
        local: bool,
    },
    Hashtag {
        /// Without `#`.
        hashtag: String,
        /// True for only the statuses written there.
        #[serde(default, deserialize_with = "yes_or_no")]
        local: bool,
    },
    /// Posts of an account, including boosts.
    Account {
        /// Id on this instance, not the handle.
        account_id: String,
    },
}

/// Reads a flag as the environment and the `config` crate write it.
fn yes_or_no<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match &*String::deserialize(from)?.to_lowercase() {
        "true" | "1" | "on" | "yes" => Ok(true),
        "false" | "0" | "off" | "no" => Ok(false),
        _ => Err(D::Error::custom(".local is true or false")),
    }
}

/// Clones share the connections.
#[derive(Debug, Clone)]
pub struct MastodonApi {
    http: HttpClient,
    /// Ends with a slash.
    base: Url,
    instance: InstanceAddress,
}

impl MastodonApi {
    pub fn new(http: HttpClient, base_url: &str) -> Result<Self, ClientError> {
        let base = parse_base_url(base_url)?;
        Ok(Self { http, instance: InstanceAddress::new(&base)?, base })
    }
}

impl NetworkTimeline<Kind> {
    fn address(&self, ask: &TimelineRequest) -> Result<Url, LookupError> {
        let (segments, is_local): (&[&str], bool) = match &self.kind {
            Kind::Public { local } => (&["timelines", "public"], *local),
            Kind::Hashtag { hashtag, local } => (&["timelines", "tag", hashtag], *local),
            Kind::Account { account_id } => (&["accounts", account_id, "statuses"], false),
        };
        let mut address = self.api.base.join("api/v1/").map_err(|error| LookupError::Stop(error.to_string()))?;
        if let Ok(mut path) = address.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        let mut query = address.query_pairs_mut();
        query.append_pair("limit", &ask.count.to_string());
        if is_local {
            query.append_pair("local", "true");
        }
        if let Some(since) = ask.since {
            query.append_pair("since_id", &since.to_string());
        }
        if let Some(below) = ask.below {
            query.append_pair("max_id", &below.to_string());
        }
        drop(query);
        Ok(address)
    }
}

#[async_trait]
impl SourceKind for Kind {
    type Api = MastodonApi;

    fn source_query(&self) -> SourceQuery<'_> {
        match self {
            Self::Public { .. } => Ok(None),
            Self::Hashtag { hashtag, .. } => check_no_sign('#', "hashtag", hashtag),
            Self::Account { account_id } => check_number("account_id", account_id),
        }
    }

    fn rules(&self, k: Millis) -> Rules {
        // One endpoint for all calls of an instance, also those of the lookup. The quota counts calls, so a known status is
        // requested, too.
        Rules::new("statuses", IdLayout::MASTODON, k, COUNT)
    }

    async fn page(
        timeline: &NetworkTimeline<Self>,
        ask: &TimelineRequest,
        credential: &Credential,
    ) -> Result<Page, LookupError> {
        let call = get(&timeline.api.http, timeline.address(ask)?, credential);
        let (reply, mut reading) = measure_reading(call, timeline.rules.behind).await?;
        if !is_uncached(&reply) {
            reading.date = None;
        }
        if timeline.api.instance.is_object_missing(&timeline.api.http, &reply, credential).await {
            return Err(target_error("HTTP 404"));
        }
        let reply = reply.require_json(|reply| refusal_error(reply, credential))?;
        let (posts, broken) = read(&reply.body)?;
        if ids_lack_time(&posts, timeline.rules.k) {
            let why = "its ids are numbers that do not say when a status was made: not Mastodon's own software";
            return Err(LookupError::BadRequest(why.to_owned()));
        }
        // A short page may be followed by another one, and a full page by none.
        Ok(Page { posts, broken, misdated: 0, more: NextPage::Unstated, reading, quota: errors::quota(&reply) })
    }
}

/// Returns true if the ids of most statuses on a page are not times: other software's numbers, sequential or shifted by more bits.
/// As times they would lie in 1970 or centuries ahead, and each poll would read everything again.
fn ids_lack_time(posts: &[Post], k: Millis) -> bool {
    let tells_none = |post: &&Post| {
        let by_id = IdLayout::MASTODON.made_at(post.id);
        let is_of_now = |made: Millis| (IDS_TELL_SINCE..TIMES.end).contains(&made);
        // Up to k, the next page is requested from the newest id itself, whatever its time.
        by_id > k && !TIMES.contains(&by_id) && post.tweet.created_at.is_some_and(is_of_now)
    };
    posts.iter().filter(tells_none).count() * 2 > posts.len()
}

/// Returns true if no cache may have kept the answer. Mastodon marks each answer.
fn is_uncached(reply: &Reply) -> bool {
    let control = reply.header("cache-control").unwrap_or_default().to_ascii_lowercase();
    ["private", "no-store"].iter().any(|word| control.contains(word))
}

fn refusal_error(reply: &Reply, credential: &Credential) -> LookupError {
    use LookupError::{BadRequest, BatchTooLarge, Outage};

    let is_anonymous = matches!(credential.kind, CredentialKind::Anonymous);
    match mastodon::refusal_error(reply, &credential.kind) {
        BadRequest(said) | BatchTooLarge(said) => target_error(&said),
        Outage(said) if matches!(reply.status, 404 | 410) && errors::says_error(reply) => target_error(&said),
        // Without a token, no token is refused: statuses can still be looked up.
        LookupError::Credential(said) if is_anonymous => target_error(&said),
        other => other,
    }
}

/// Reads a page. Returns its statuses, and the number of unreadable ones, of which only the ids are known.
///
/// # Errors
/// [`LookupError::BadAnswer`] for a body of another shape, and for a status without an id: skipping the status would lose it.
/// [`LookupError::BadRequest`] if an id is no number: other software, whose ids contain no time.
pub fn read(body: &[u8]) -> Result<(Vec<Post>, usize), LookupError> {
    let body = String::from_utf8_lossy(body);
    let raws: Vec<&RawValue> =
        serde_json::from_str(&body).map_err(|_| LookupError::BadAnswer("it is not a list of statuses".to_owned()))?;
    let is_foreign = |id: &str| !id.is_empty() && !id.bytes().all(|byte| byte.is_ascii_digit());
    if raws.iter().filter_map(|raw| read_id(raw.get())).any(|id| is_foreign(&id)) {
        let why = "its ids are no numbers, so they do not say when a status was made: not Mastodon's own software";
        return Err(LookupError::BadRequest(why.to_owned()));
    }
    read_posts(raws, parse_status, read_id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_about_a_timeline_is_about_no_other() {
        let error = r#"{"error":"Record not found"}"#;
        let anonymous = Credential { name: "none".into(), kind: CredentialKind::Anonymous };
        let token = Credential { name: "token".into(), kind: CredentialKind::Bearer("t".into()) };
        let of = |status, body, who: &Credential| refusal_error(&Reply::for_test(status, &[], body), who);
        for (status, who) in [(404, &token), (410, &token), (422, &anonymous), (401, &anonymous), (403, &anonymous)] {
            assert!(matches!(of(status, error, who), LookupError::BadRequest(_)), "{status}");
        }
        assert!(matches!(of(401, error, &token), LookupError::Credential(_)));
        assert!(matches!(of(404, "<html>", &token), LookupError::Outage(_)), "something in front of it");
        assert!(matches!(of(503, error, &token), LookupError::Outage(_)));
        assert!(matches!(of(429, error, &token), LookupError::Throttled { .. }));
    }

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        let (posts, broken) =
            read(br#"[{"id":"30","content":"a"},{"id":"29","content":{}},{"id":28,"content":"b"}]"#).unwrap();
        assert_eq!((posts.iter().map(|post| post.id).collect::<Vec<_>>(), broken), (vec![30, 29, 28], 1));
        assert!(matches!(read(br#"[{"content":"a"}]"#), Err(LookupError::BadAnswer(_))));
        assert!(matches!(read(br#"{"error":"no"}"#), Err(LookupError::BadAnswer(_))));
        assert!(matches!(read(br#"[{"id":"AbC","content":"a"}]"#), Err(LookupError::BadRequest(_))));
    }

    #[test]
    fn numbers_of_other_software_are_no_times() {
        const MADE: &str = "2025-06-03T16:49:43.431Z";
        let ids_lack_time = |statuses: &[(u64, &str)]| {
            let statuses =
                statuses.iter().map(|(id, made)| json!({ "id": id.to_string(), "created_at": made, "content": "x" }));
            let (posts, _) = read(Value::from_iter(statuses).to_string().as_bytes()).unwrap();
            ids_lack_time(&posts, 1_000)
        };
        let of_2025 = (114_620_457_512_351_116, MADE);
        // Pixelfed's since 2019, Takahē's since 2022, both shifted by 22 bits; sequential ones.
        for id in [835_558_135_534_977_024, 452_876_549_461_377_024, 70_000_000, u64::MAX] {
            assert!(ids_lack_time(&[(id, MADE)]) && ids_lack_time(&[(id, MADE), (id - 1, MADE), of_2025]), "{id}");
        }
        // Mastodon's, whatever its author's server says; before 2.0; few enough to be requested from the newest itself.
        for honest in [
            of_2025,
            (of_2025.0, "1970-01-01T00:00:00.000Z"),
            (of_2025.0, "2999-01-01T00:00:00.000Z"),
            (70_000_000, "2017-05-01T00:00:00.000Z"),
            (60_000_000, MADE),
        ] {
            assert!(!ids_lack_time(&[honest]), "{honest:?}");
        }
        assert!(!ids_lack_time(&[]) && !ids_lack_time(&[(835_558_135_534_977_024, MADE), of_2025]));
    }
}
