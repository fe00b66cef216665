//! Timelines: whose posts they have, and the parameters that narrow them.

use std::collections::BTreeSet;

use super::*;

/// An author of the simulated world: its id and its handle.
const USER: (&str, &str) = ("49602", "tiny_heron0");

async fn get(running: &Running, target: &str) -> Value {
    let (status, _, body) = raw(running, "GET", target, None, "").await;
    assert_eq!(status, 200, "{target}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// A field of each object.
fn each<'a>(list: &'a Value, pointer: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one.pointer(pointer).and_then(Value::as_str).unwrap()).collect()
}

fn distinct<'a>(all: &[&'a str]) -> BTreeSet<&'a str> {
    all.iter().copied().collect()
}

/// `YYYY-MM-DDTHH:MM:SSZ` of that moment, ms since the epoch.
fn iso(at: i64) -> String {
    let at = time::OffsetDateTime::from_unix_timestamp(at / 1000).unwrap();
    at.format(&time::format_description::well_known::Rfc3339).unwrap()
}

#[tokio::test]
async fn a_user_s_timeline_has_one_author_and_a_search_many() {
    let running = start(SimulatorOptions { retweet_share: 0.3, ..plain() }).await;
    let (id, handle) = USER;
    let v1 = get(&running, &format!("/1.1/statuses/user_timeline.json?user_id={id}&count=100")).await;
    let of_v1 = each(&v1, "/id_str");
    assert_eq!(
        (distinct(&each(&v1, "/user/id_str")), distinct(&each(&v1, "/user/screen_name"))),
        ([id].into(), [handle].into())
    );
    // The same posts by the handle, and by X.
    let newest = of_v1[0];
    let by_name = format!("/1.1/statuses/user_timeline.json?screen_name={handle}&max_id={newest}&count=100");
    assert_eq!(each(&get(&running, &by_name).await, "/id_str"), of_v1);
    let until = newest.parse::<u64>().unwrap() + 1;
    let x = format!("/2/users/{id}/tweets?max_results=100&until_id={until}&tweet.fields=author_id");
    let x = get(&running, &x).await;
    assert_eq!((each(&x["data"], "/id"), distinct(&each(&x["data"], "/author_id"))), (of_v1.clone(), [id].into()));
    // Looked up, they have that author, too.
    let looked_up = lookup(&running, &format!("id={}", of_v1.join(","))).await;
    assert_eq!(distinct(&each(&looked_up, "/user/id_str")), [id].into());
    // The truth says the same.
    let (from, to) = (wall_ms() - 60_000, wall_ms());
    let truth = running.timeline(&format!("@{handle}"), from, to);
    assert!(truth.len() > 50 && truth == running.timeline(id, from, to), "{truth:?}");
    let account = get(&running, &format!("/api/v1/accounts/{id}/statuses?limit=40")).await;
    assert_eq!(distinct(&each(&account, "/account/id")), [id].into());
    // Somebody that the world does not have stands for one whom it has.
    let other = get(&running, "/1.1/statuses/user_timeline.json?screen_name=one&count=100").await;
    assert_eq!(distinct(&each(&other, "/user/id_str")).len(), 1);
    let search = get(&running, "/1.1/search/tweets.json?q=rust%20lang&count=100").await;
    assert!(distinct(&each(&search["statuses"], "/user/id_str")).len() > 90);
    let tag = get(&running, "/api/v1/timelines/tag/rust?limit=40").await;
    assert!(distinct(&each(&tag, "/account/id")).len() > 30);
}

#[tokio::test]
async fn a_list_is_named_by_its_id_or_by_its_slug_and_owner() {
    let running = start(plain()).await;
    let posts = async |query: &str| {
        let list = get(&running, &format!("/1.1/lists/statuses.json?{query}&count=5&max_id=1300000000000000000")).await;
        each(&list, "/id_str").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let by_slug = posts("slug=news&owner_screen_name=one").await;
    assert_eq!(by_slug.len(), 5);
    assert_eq!(by_slug, posts("slug=news&owner_screen_name=one").await);
    assert_ne!(by_slug, posts("slug=news&owner_screen_name=two").await);
    assert_ne!(by_slug, posts("slug=rust&owner_screen_name=one").await);
    assert_eq!(posts("list_id=7").await.len(), 5);
    for (query, status, code) in
        [("slug=news", 400, 112), ("", 400, 112), ("slug=a&owner_screen_name=missing", 404, 34)]
    {
        let (told, _, body) = raw(&running, "GET", &format!("/1.1/lists/statuses.json?{query}"), None, "").await;
        assert!(told == status && body.contains(&format!("\"code\":{code}")), "{query}: {told} {body}");
    }
}

#[tokio::test]
async fn a_search_ends_where_until_says_and_a_timeline_leaves_out_what_it_is_told_to() {
    let running = start(SimulatorOptions { retweet_share: 0.5, ..plain() }).await;
    let day = iso(wall_ms() - 2 * DAY);
    let midnight = time::OffsetDateTime::parse(
        &format!("{}T00:00:00Z", &day[..10]),
        &time::format_description::well_known::Rfc3339,
    );
    let midnight = midnight.unwrap().unix_timestamp() * 1000;
    let made = |id: &str| TweetId::parse(id).unwrap().created_at().unwrap();
    let until = get(&running, &format!("/1.1/search/tweets.json?q=rust&count=100&until={}", &day[..10])).await;
    let ids = each(&until["statuses"], "/id_str");
    assert!(ids.len() == 100 && ids.iter().all(|id| (midnight - 120_000..midnight).contains(&made(id))), "{ids:?}");
    let in_words = get(&running, &format!("/1.1/search/tweets.json?q=rust%20until:{}&count=100", &day[..10])).await;
    assert_eq!(each(&in_words["statuses"], "/id_str"), ids);
    let none = format!("/1.1/search/tweets.json?q=rust%20until:{0}%20since:{0}&count=100", &day[..10]);
    assert_eq!(get(&running, &none).await["statuses"], json!([]));
    let next = until["search_metadata"]["next_results"].as_str().unwrap();
    let further = get(&running, &format!("/1.1/search/tweets.json{next}&count=100")).await;
    assert!(made(each(&further["statuses"], "/id_str")[0]) < made(ids[99]) + 1_000);

    let target = "/1.1/statuses/user_timeline.json?screen_name=one&count=100";
    let all = get(&running, target).await;
    let own = get(&running, &format!("{target}&include_rts=false&trim_user=true")).await;
    assert!((20..80).contains(&own.as_array().unwrap().len()), "counted first, left out afterwards");
    assert!(own.as_array().unwrap().iter().all(|post| post.get("retweeted_status").is_none()));
    assert!(all.as_array().unwrap().iter().any(|post| post.get("retweeted_status").is_some()));
    assert!(own.as_array().unwrap().iter().all(|post| post["user"].as_object().unwrap().len() == 2));
}

#[tokio::test]
async fn x_takes_a_span_of_time_and_leaves_out_retweets() {
    let running = start(SimulatorOptions { retweet_share: 0.5, ..plain() }).await;
    let (start_at, end_at) = ((wall_ms() - 600_000) / 1000 * 1000, (wall_ms() - 550_000) / 1000 * 1000);
    let span = format!("start_time={}&end_time={}", iso(start_at), iso(end_at));
    for target in ["/2/users/12/tweets?", "/2/tweets/search/recent?query=rust&"] {
        let page = get(&running, &format!("{target}max_results=100&{span}")).await;
        let made: Vec<i64> =
            each(&page["data"], "/id").iter().map(|id| TweetId::parse(id).unwrap().created_at().unwrap()).collect();
        assert!((49..=51).contains(&made.len()) && made.iter().all(|at| (start_at..end_at).contains(at)), "{made:?}");
    }
    let own = "/2/users/12/tweets?max_results=100&exclude=retweets&tweet.fields=referenced_tweets";
    let page = get(&running, own).await;
    let posts = page["data"].as_array().unwrap();
    assert!((20..80).contains(&posts.len()) && posts.iter().all(|post| post.get("referenced_tweets").is_none()));
    let too_old = iso(wall_ms() - 8 * DAY);
    let too_young = iso(wall_ms());
    for (target, parameter) in [
        (format!("/2/tweets/search/recent?query=rust&start_time={too_old}"), "start_time"),
        (format!("/2/users/12/tweets?end_time={too_young}"), "end_time"),
        ("/2/users/12/tweets?start_time=yesterday".to_owned(), "start_time"),
        (format!("/2/users/12/tweets?start_time={}&end_time={}", iso(end_at), iso(start_at)), "end_time"),
        ("/2/users/12/tweets?exclude=posts".to_owned(), "exclude"),
        ("/2/users/12/tweets?colour=red".to_owned(), "colour"),
        ("/2/tweets?ids=20&max_results=5".to_owned(), "max_results"),
    ] {
        let (status, _, body) = raw(&running, "GET", &target, None, "").await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(status == 400 && body["errors"][0]["parameters"].get(parameter).is_some(), "{target}: {status} {body}");
    }
}

#[tokio::test]
async fn expansions_bring_users_and_posts() {
    let running = start(SimulatorOptions { retweet_share: 0.5, body_padding: 0, ..plain() }).await;
    let ids = aged(DAY, 50).join(",");
    for target in [format!("/2/tweets?ids={ids}"), "/2/users/12/tweets?max_results=50".to_owned()] {
        let bare = get(&running, &target).await;
        assert!(bare.get("includes").is_none() && bare["data"][0].get("author_id").is_none(), "{bare}");
        let asked = format!("{target}&expansions=author_id,referenced_tweets.id.author_id&user.fields=verified");
        let page = get(&running, &asked).await;
        let retweets: Vec<&Value> =
            page["data"].as_array().unwrap().iter().filter(|post| post.get("referenced_tweets").is_some()).collect();
        assert!(retweets.len() > 10, "{}", retweets.len());
        let referenced: BTreeSet<&str> =
            retweets.iter().map(|post| post["referenced_tweets"][0]["id"].as_str().unwrap()).collect();
        let posts = &page["includes"]["tweets"];
        assert_eq!(distinct(&each(posts, "/id")), referenced);
        let authors: BTreeSet<&str> =
            distinct(&[each(&page["data"], "/author_id"), each(posts, "/author_id")].concat());
        let users = &page["includes"]["users"];
        assert_eq!(distinct(&each(users, "/id")), authors);
        assert_eq!(each(users, "/id").len(), authors.len(), "each once");
        assert_eq!(users[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["id", "name", "username", "verified"]);
    }
    let of_mentions = format!("/2/tweets?ids={ids}&expansions=entities.mentions.username&post.fields=id");
    let page = get(&running, &of_mentions).await;
    let mentioned = page["data"].as_array().unwrap().iter().filter_map(|post| post["entities"]["mentions"].as_array());
    let mentioned: BTreeSet<&str> = mentioned.flatten().map(|mention| mention["id"].as_str().unwrap()).collect();
    assert_eq!(distinct(&each(&page["includes"]["users"], "/id")), mentioned);
}
