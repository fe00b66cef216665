//! Timelines of X API v2 and Mastodon, against the simulated ones: read to their ends, by tokens and by ids.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::pipelines::timelines::paging::{Gap, Position, apply_page, next_request};
use twitter_updater::providers::http::{HttpClient, HttpOptions};
use twitter_updater::providers::lookup::LookupError;
use twitter_updater::providers::mastodon::timeline::{self as mastodon, MastodonApi};
use twitter_updater::providers::since::IdLayout;
use twitter_updater::providers::source::{NetworkTimeline, SourceKind};
use twitter_updater::providers::timeline::{NextPage, TimelineRequest};
use twitter_updater::providers::timeline::{Page, Timeline};
use twitter_updater::providers::x_v2::timeline::{self as x_v2, XApi};
use twitter_updater::providers::x_v2::{FieldNames, Fields};
use twitter_updater::quota::{Credential, CredentialKind};
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use super::timeline::DAY;
use crate::support::http::{Canned, CannedServer};
use crate::support::wait::until_true;

/// How late a post is visible.
const LATE: Duration = Duration::from_millis(300);
/// How far a search is behind, and how long an answer is kept.
const BRIEFLY: Duration = Duration::from_millis(400);

fn options() -> SimulatorOptions {
    SimulatorOptions {
        posts_per_second: 100.0,
        posts_late: LATE,
        missing_share: 0.1,
        body_padding: 0,
        x_search_behind: BRIEFLY,
        mastodon_kept: BRIEFLY,
        x_calls_per_window: 0,
        mastodon_calls_per_window: 0,
        ..SimulatorOptions::default()
    }
}

async fn simulated(options: SimulatorOptions) -> Running {
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

fn http() -> HttpClient {
    HttpClient::new(&HttpOptions::default()).unwrap()
}

fn x(running: &Running, kind: x_v2::Kind) -> NetworkTimeline<x_v2::Kind> {
    kind.build(&XApi::new(http(), &running.base_url(), Fields::default()).unwrap(), LATE)
}

fn search(query: &str) -> x_v2::Kind {
    x_v2::Kind::Search { query: query.to_owned() }
}

fn user(user_id: &str) -> x_v2::Kind {
    x_v2::Kind::User { user_id: user_id.to_owned() }
}

fn mastodon(running: &Running, kind: mastodon::Kind) -> NetworkTimeline<mastodon::Kind> {
    kind.build(&MastodonApi::new(http(), &running.base_url()).unwrap(), LATE)
}

fn hashtag(hashtag: &str) -> mastodon::Kind {
    mastodon::Kind::Hashtag { hashtag: hashtag.to_owned(), local: false }
}

fn account(account_id: &str) -> mastodon::Kind {
    mastodon::Kind::Account { account_id: account_id.to_owned() }
}

fn nobody() -> Credential {
    Credential { name: "none".to_owned(), kind: CredentialKind::Anonymous }
}

fn somebody() -> Credential {
    Credential { name: "token".to_owned(), kind: CredentialKind::Bearer("token".into()) }
}

fn newest(timeline: &dyn Timeline) -> TimelineRequest {
    TimelineRequest { since: None, below: None, cursor: None, count: timeline.rules().count }
}

fn ids(page: &Page) -> Vec<u64> {
    page.posts.iter().map(|post| post.id).collect()
}

/// What a poller had.
#[derive(Default)]
struct Had {
    ids: HashSet<u64>,
    gaps: Vec<Gap>,
    pages: u32,
    refused_tokens: u32,
}

/// One round.
async fn round(timeline: &dyn Timeline, who: &Credential, position: &mut Option<Position>, had: &mut Had) {
    let rules = timeline.rules();
    loop {
        let asked = next_request(position.as_ref(), &rules, wall_ms());
        let page = timeline.page(&asked, who).await.unwrap();
        had.pages += 1;
        had.refused_tokens += u32::from(page.more == NextPage::CursorExpired);
        let taken = apply_page(position, &rules, &asked, &ids(&page), page.more.clone(), &page.reading).unwrap();
        had.ids.extend(taken.hand_over);
        had.gaps.extend(taken.gaps);
        if taken.finished_round.is_some() {
            return;
        }
    }
}

/// Polls for some seconds, in the first of which nobody looks, and on until all that was made by then is visible; what of
/// `due` (between those moments) was not had.
async fn misses(timeline: &dyn Timeline, who: &Credential, due: impl Fn(Millis, Millis) -> Vec<u64>) -> Had {
    let (mut position, mut had, begun) = (None, Had::default(), wall_ms());
    round(timeline, who, &mut position, &mut had).await;
    until_true("more than a page comes", LATE * 20, async || due(begun, wall_ms()).len() > 110).await;
    let end = wall_ms() + 2_000;
    while wall_ms() < end + 1_500 {
        round(timeline, who, &mut position, &mut had).await;
    }
    let due = due(begun, end);
    assert!(due.len() > 200, "{}", due.len());
    let missed: Vec<&u64> = due.iter().filter(|id| !had.ids.contains(id)).collect();
    assert!(missed.is_empty(), "{} of {}: {missed:?}", missed.len(), due.len());
    println!("{}: {} due, {} had, {} pages", timeline.rules().endpoint, due.len(), had.ids.len(), had.pages);
    had
}

fn of_x(running: &Running, target: &str) -> impl Fn(Millis, Millis) -> Vec<u64> {
    move |from, to| running.timeline(target, from, to).iter().map(|post| post.id.get()).collect()
}

fn of_mastodon(running: &Running, target: &str) -> impl Fn(Millis, Millis) -> Vec<u64> {
    move |from, to| running.statuses(target, from, to).iter().map(|id| id.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x_is_read_whole_by_tokens() {
    let running = simulated(options()).await;
    let (rust, jack, who) = (x(&running, search("rust lang")), x(&running, user("12")), somebody());
    let (rust, jack) =
        tokio::join!(misses(&rust, &who, of_x(&running, "rust lang")), misses(&jack, &who, of_x(&running, "12")),);
    for had in [rust, jack] {
        assert_eq!((had.refused_tokens, had.gaps), (0, vec![]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x_is_read_whole_where_it_refuses_every_token() {
    let running = simulated(SimulatorOptions { x_tokens_last: Duration::ZERO, ..options() }).await;
    let had = misses(&x(&running, user("12")), &somebody(), of_x(&running, "12")).await;
    assert!(had.refused_tokens > 0 && had.gaps.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mastodon_is_read_whole_also_out_of_a_cache() {
    let running = simulated(options()).await;
    let public = mastodon(&running, mastodon::Kind::Public { local: true });
    let (tag, jack) = (mastodon(&running, hashtag("rust")), mastodon(&running, account("7")));
    let (one, two) = (nobody(), somebody());
    let (kept, tag, jack) = tokio::join!(
        misses(&public, &one, of_mastodon(&running, "public")),
        misses(&tag, &two, of_mastodon(&running, "#rust")),
        misses(&jack, &two, of_mastodon(&running, "7")),
    );
    for had in [kept, tag, jack] {
        assert_eq!(had.gaps, vec![]);
    }
    // Whose Date is believed.
    let page = public.page(&newest(&public), &one).await.unwrap();
    assert_eq!(page.reading.asked_at(), None, "kept for everybody");
    let page = public.page(&newest(&public), &two).await.unwrap();
    assert!(page.reading.asked_at().is_some(), "for this token alone");
    assert_eq!(ids(&page).len(), 40);
}

#[tokio::test]
async fn a_search_is_behind_and_says_so() {
    let running = simulated(options()).await;
    let before = wall_ms();
    let page = x(&running, search("rust")).page(&newest(&x(&running, search("rust"))), &somebody()).await.unwrap();
    assert!(page.reading.asked_at().unwrap() <= before - 29_000, "{:?}", page.reading);
    let page = x(&running, user("12")).page(&newest(&x(&running, user("12"))), &somebody()).await.unwrap();
    assert!(page.reading.asked_at().unwrap() > before - 5_000, "{:?}", page.reading);
}

#[tokio::test]
async fn a_search_is_not_asked_from_before_its_seven_days() {
    let running = simulated(SimulatorOptions { posts_per_second: 0.002, ..options() }).await;
    let timeline = x(&running, search("rust"));
    let id_at = |at: Millis| IdLayout::TWITTER.first_at(at);
    let now = wall_ms();
    let old = TimelineRequest { since: Some(id_at(now - 8 * DAY)), ..newest(&timeline) };
    let refused = timeline.page(&old, &somebody()).await;
    assert!(matches!(&refused, Err(LookupError::BadRequest(_))), "as the API refuses it: {refused:?}");
    // A poller that was away for ten days asks from as far back as can be, and notes what is before that.
    let (mut position, mut had) = (None, Had::default());
    round(&timeline, &somebody(), &mut position, &mut had).await;
    let away = now - 10 * DAY;
    let known = position.as_mut().unwrap();
    (known.latest, known.since, known.swept_at) = (Some(id_at(away)), id_at(away), Some(away));
    let mut had = Had::default();
    round(&timeline, &somebody(), &mut position, &mut had).await;
    let [gap] = &had.gaps[..] else { panic!("{:?}", had.gaps) };
    assert!(gap.from <= id_at(away) + 1 && gap.to < id_at(now - 7 * DAY + 120_000), "{gap:?}");
    let due: Vec<u64> =
        of_x(&running, "rust")(away, now - DAY).into_iter().filter(|id| !(gap.from..=gap.to).contains(id)).collect();
    assert!(due.len() > 800 && due.iter().all(|id| had.ids.contains(id)), "{}", due.len());
}

#[tokio::test]
async fn both_names_of_fields_are_asked_for() {
    let running = simulated(options()).await;
    for names in [FieldNames::Tweet, FieldNames::Post] {
        let timeline = user("12").build(&XApi::new(http(), &running.base_url(), Fields::all(names)).unwrap(), LATE);
        let page = timeline.page(&newest(&timeline), &somebody()).await.unwrap();
        assert!(page.broken == 0 && page.posts.iter().all(|post| post.tweet.metrics.favorite_count.is_some()));
        assert_eq!(page.quota, None);
    }
}

#[tokio::test]
async fn what_is_not_ours_to_see_is_the_sources_own_matter() {
    let running = simulated(options()).await;
    let timelines: [(Box<dyn Timeline>, Credential); 5] = [
        (Box::new(x(&running, user("404"))), somebody()),
        (Box::new(x(&running, user("403"))), somebody()),
        (Box::new(x(&running, search(""))), somebody()),
        (Box::new(mastodon(&running, account("404"))), somebody()),
        (Box::new(mastodon(&running, hashtag("members"))), nobody()),
    ];
    for (timeline, who) in timelines {
        let error = timeline.page(&newest(&*timeline), &who).await.unwrap_err();
        assert!(matches!(error, LookupError::BadRequest(_)), "{timeline:?}: {error:?}");
    }
    let members = mastodon(&running, hashtag("members"));
    assert!(members.page(&newest(&members), &somebody()).await.is_ok());
}

#[tokio::test]
async fn ids_of_other_software_are_not_taken_for_times() {
    let page = async |id: u64| {
        let status = json!([{ "id": id.to_string(), "created_at": "2025-06-03T16:49:43.431Z", "content": "x" }]);
        let server = CannedServer::start(Canned::new(200, status.to_string())).await;
        let timeline = hashtag("rust").build(&MastodonApi::new(http(), &server.base_url()).unwrap(), LATE);
        timeline.page(&newest(&timeline), &somebody()).await
    };
    assert!(page(114_620_457_512_351_116).await.is_ok());
    let foreign = page(835_558_135_534_977_024).await;
    assert!(matches!(&foreign, Err(LookupError::BadRequest(_))), "{foreign:?}");
}

#[tokio::test]
async fn a_404_without_an_error_is_about_the_timeline_if_the_instance_describes_itself() {
    for (status, description) in [(200, r#"{"version":"4.3.0 (compatible; Pixelfed 0.12)"}"#), (502, "")] {
        let server = CannedServer::start_with(move |asked| match asked.target.starts_with("/api/v2/instance") {
            true => Canned::new(status, description),
            false => Canned::new(404, "").header("content-type", "text/html"),
        })
        .await;
        let timeline = account("7").build(&MastodonApi::new(http(), &server.base_url()).unwrap(), LATE);
        let error = timeline.page(&newest(&timeline), &somebody()).await.unwrap_err();
        let is_expected = match status {
            200 => matches!(error, LookupError::BadRequest(_)),
            _ => matches!(error, LookupError::Outage(_)),
        };
        assert!(is_expected, "{status}: {error:?}");
    }
}

#[tokio::test]
async fn quotas_are_told_in_each_ones_words() {
    let quotas = SimulatorOptions { x_calls_per_window: 5_000, mastodon_calls_per_window: 300, ..options() };
    let running = simulated(quotas).await;
    let timelines: [(Box<dyn Timeline>, u32); 3] = [
        (Box::new(x(&running, search("rust"))), 450),
        (Box::new(x(&running, user("12"))), 10_000),
        (Box::new(mastodon(&running, hashtag("rust"))), 300),
    ];
    for (timeline, limit) in timelines {
        let page = timeline.page(&newest(&*timeline), &somebody()).await.unwrap();
        assert_eq!(page.quota.map(|quota| (quota.limit, quota.remaining)), Some((limit, limit - 1)), "{timeline:?}");
    }
}
