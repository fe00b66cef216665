//! Each field of an account, as each network writes it.

use proptest::prelude::*;
use serde_json::{Value, json};
use twitter_updater::model::account::{Account, AccountCounts, AccountState};
use twitter_updater::model::provider;
use twitter_updater::providers::registry;

use super::super::all::Provider;
use super::{answer, found, named};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn parse(of: &provider::Provider, object: &Value) -> Account {
    (registry::accounts(of).parse)(&object.to_string()).unwrap()
}

/// The entities of a profile with that address, as Twitter and X write them; the short link to it is in `url`.
fn link(address: &str) -> Value {
    json!({ "url": { "urls": [{ "url": "https://t.co/a", "expanded_url": address, "display_url": "…", "start": 0 }] } })
}

/// An account with every field, as the provider writes it.
fn whole(provider: Provider) -> Value {
    match provider {
        Provider::TwitterV1 => json!({
            "id": 1_145_936_974_064_177_200_u64, "id_str": provider.account_id(0), "screen_name": "ann", "name": "Ann &amp; co",
            "description": "x\ny", "location": "Porto", "url": "https://t.co/a", "entities": link("https://ann.example.org/"),
            "profile_image_url": "http://pbs.example.org/a.jpg", "profile_image_url_https": "https://pbs.example.org/a.jpg",
            "profile_banner_url": "https://pbs.example.org/b", "protected": true, "verified": false,
            "created_at": "Sun Aug 31 00:29:15 +0000 2014", "followers_count": 1, "friends_count": 2,
            "statuses_count": 3, "listed_count": 4, "favourites_count": 5, "withheld_in_countries": ["DE", "FR"],
            "status": { "id_str": "20", "created_at": "Tue Mar 21 20:50:14 +0000 2006" },
        }),
        Provider::XV2 => json!({
            "id": provider.account_id(0), "username": "ann", "name": "Ann &amp; co", "description": "x\ny",
            "location": "Porto", "url": "https://t.co/a", "entities": link("https://ann.example.org/"), "profile_image_url": "https://pbs.example.org/a.jpg",
            "profile_banner_url": "https://pbs.example.org/b", "protected": true, "verified": false,
            "verified_type": "none", "created_at": "2014-08-31T00:29:15.000Z",
            "public_metrics": {
                "followers_count": 1, "following_count": 2, "tweet_count": 3, "listed_count": 4, "like_count": 5,
                "media_count": 6,
            },
            "withheld": { "country_codes": ["DE", "FR"], "scope": "user" }, "most_recent_tweet_id": "505874924095815681",
        }),
        Provider::Mastodon | Provider::MastodonStatus => json!({
            "id": provider.account_id(0), "username": "ann", "acct": "ann@other.example.org", "display_name": "Ann &amp; co",
            "note": "<p>x</p>", "url": "https://other.example.org/@ann", "avatar": "https://files.example.org/a.jpg",
            "header": "https://files.example.org/b.jpg", "locked": true, "bot": false,
            "created_at": "2014-08-31T00:00:00.000Z", "followers_count": 1, "following_count": 2, "statuses_count": 3,
            "last_status_at": "2025-07-13", "moved": { "id": "9", "acct": "ann@third.example.org" },
        }),
        Provider::Bluesky => json!({
            "did": provider.account_id(0), "handle": "ann.example.org", "displayName": "Ann & co", "description": "x\ny",
            "avatar": "https://cdn.example.org/a", "banner": "https://cdn.example.org/b", "followersCount": 1,
            "website": "https://ann.example.org/",
            "followsCount": 2, "postsCount": 3, "createdAt": "2023-04-12T04:53:57.057Z",
            "indexedAt": "2024-01-25T23:46:28.776Z", "labels": [],
            "verification": { "verifications": [], "verifiedStatus": "valid", "trustedVerifierStatus": "none" },
        }),
    }
}

#[tokio::test]
async fn an_account_has_what_its_network_states() {
    const MADE: i64 = 1_409_444_955_000;
    let counts = AccountCounts { followers: Some(1), following: Some(2), posts: Some(3), ..AccountCounts::default() };
    let of_twitter = Account {
        id: Provider::TwitterV1.account_id(0),
        handle: text("ann"),
        display_name: text("Ann &amp; co"),
        description: text("x\ny"),
        location: text("Porto"),
        url: text("https://ann.example.org/"),
        picture: text("https://pbs.example.org/a.jpg"),
        banner: text("https://pbs.example.org/b"),
        protected: Some(true),
        verified: Some(false),
        created_at: Some(MADE),
        counts: AccountCounts { listed: Some(4), likes: Some(5), ..counts },
        last_post_at: Some(1_142_974_214_000),
        state: AccountState::Protected,
        withheld_in: text("DE,FR"),
        moved_to: None,
        raw: String::new(),
        activity: Default::default(),
    };
    // By the newest post's id, to the millisecond.
    let of_x = Account { last_post_at: Some(1_409_444_955_263), ..of_twitter.clone() };
    let of_mastodon = Account {
        id: Provider::Mastodon.account_id(0),
        handle: text("ann@other.example.org"),
        display_name: text("Ann &amp; co"),
        description: text("<p>x</p>"),
        url: text("https://other.example.org/@ann"),
        picture: text("https://files.example.org/a.jpg"),
        banner: text("https://files.example.org/b.jpg"),
        protected: Some(true),
        created_at: Some(1_409_443_200_000),
        counts,
        last_post_at: Some(1_752_364_800_000),
        // Its public posts are public.
        state: AccountState::Live,
        moved_to: text("9"),
        ..Account::default()
    };
    let of_bluesky = Account {
        id: Provider::Bluesky.account_id(0),
        handle: text("ann.example.org"),
        display_name: text("Ann & co"),
        description: text("x\ny"),
        url: text("https://ann.example.org/"),
        picture: text("https://cdn.example.org/a"),
        banner: text("https://cdn.example.org/b"),
        verified: Some(true),
        created_at: Some(1_681_275_237_057),
        counts,
        state: AccountState::Live,
        ..Account::default()
    };
    for (provider, expected) in [
        (Provider::TwitterV1, of_twitter),
        (Provider::XV2, of_x),
        (Provider::Mastodon, of_mastodon.clone()),
        (Provider::MastodonStatus, of_mastodon),
        (Provider::Bluesky, of_bluesky),
    ] {
        let object = whole(provider);
        let ids = [provider.account_id(0)];
        let answer = answer(provider, provider.body_of_accounts(std::slice::from_ref(&object)), &ids).await;
        assert_eq!(*found(&answer.outcomes[0]), Account { raw: object.to_string(), ..expected }, "{provider:?}");
        assert_eq!(parse(&named(provider), &object), *found(&answer.outcomes[0]), "{provider:?}: it needs no answer");
    }
}

#[tokio::test]
async fn what_a_whole_object_leaves_out_is_known_to_be_empty() {
    for (provider, object, empty) in [
        (
            Provider::TwitterV1,
            json!({ "id_str": "7", "screen_name": "ann", "location": "", "url": null, "followers_count": 0 }),
            "display_name,description,location,url,picture,banner",
        ),
        (
            Provider::XV2,
            json!({ "id": "7", "username": "ann", "url": "" }),
            "display_name,description,location,url,picture,banner,withheld_in",
        ),
        (
            Provider::Mastodon,
            json!({ "id": "7", "acct": "ann", "note": "", "avatar": "https://a.org/avatars/original/missing.png", "moved": null }),
            "description,picture,moved_to",
        ),
        (
            Provider::Bluesky,
            json!({ "did": "7", "handle": "ann.example.org", "postsCount": 0 }),
            "display_name,description,url,picture,banner",
        ),
    ] {
        let body = provider.body_of_accounts(&[object]);
        let answer = answer(provider, body, &["7".to_owned()]).await;
        let account = found(&answer.outcomes[0]);
        assert_eq!(account.verified, (provider == Provider::Bluesky).then_some(false), "{provider:?}");
        let is_text = |field: &str| !matches!(field, "handle" | "verified");
        let stated: Vec<_> = account.profile().into_iter().filter(|(field, _)| is_text(field)).collect();
        let told: Vec<&str> =
            stated.iter().filter(|(_, value)| value.as_deref() == Some("")).map(|(field, _)| *field).collect();
        assert_eq!(told.join(","), empty, "{provider:?}");
        assert!(stated.iter().all(|(_, value)| value.as_deref().is_none_or(str::is_empty)), "{provider:?}");
        assert_eq!((account.created_at, account.last_post_at, account.state), (None, None, AccountState::Live));
    }
}

#[test]
fn an_author_in_a_post_states_no_more_than_it_has() {
    for (provider, object, stated) in [
        (Provider::TwitterV1, json!({ "id_str": "7", "screen_name": "ann", "name": "Ann" }), "handle,display_name"),
        (Provider::XV2, json!({ "id": "7", "username": "ann", "name": "Ann", "url": "" }), "handle,display_name,url"),
        (
            Provider::Bluesky,
            json!({ "did": "did:plc:a", "handle": "ann.example.org", "avatar": "https://cdn.example.org/a" }),
            "handle,picture",
        ),
    ] {
        let account = parse(&named(provider), &object);
        let told: Vec<&str> =
            account.profile().into_iter().filter(|(_, value)| value.is_some()).map(|(field, _)| field).collect();
        assert_eq!((told.join(","), account.counts), (stated.to_owned(), AccountCounts::default()), "{provider:?}");
    }
}

#[test]
fn what_a_suspension_empties_is_not_stated() {
    let mut object = whole(Provider::Mastodon);
    let emptied = json!({
        "suspended": true, "display_name": "", "note": "", "avatar": "https://a.org/avatars/original/missing.png",
        "header": "https://a.org/headers/original/missing.png", "locked": false, "moved": null,
    });
    object.as_object_mut().unwrap().extend(emptied.as_object().unwrap().clone());
    let (mastodon, before) = (named(Provider::Mastodon), whole(Provider::Mastodon));
    let (before, account) = (parse(&mastodon, &before), parse(&mastodon, &object));
    assert_eq!((account.state, account.handle.as_deref()), (AccountState::Suspended, Some("ann@other.example.org")));
    assert!(account.changes(&before).is_empty(), "{:?}", account.changes(&before));
}

#[test]
fn values_that_stand_for_none_are_none() {
    // The owner hides the number; the handle does not lead back to the account.
    let hidden = parse(&named(Provider::Mastodon), &json!({ "id": 7, "acct": "ann", "followers_count": -1 }));
    assert_eq!((hidden.id.as_str(), hidden.counts.followers), ("7", None));
    let object = json!({ "did": "did:plc:a", "handle": "handle.invalid", "createdAt": "0000-01-01T00:00:00.000Z" });
    let invalid = parse(&named(Provider::Bluesky), &object);
    assert_eq!((invalid.id.as_str(), invalid.handle, invalid.created_at), ("did:plc:a", None, None));
    // Other clients leave the zone out: it is UTC then.
    let object = json!({ "did": "did:plc:a", "handle": "a.org", "createdAt": "2024-06-28T02:59:07.446" });
    assert_eq!(parse(&named(Provider::Bluesky), &object).created_at, Some(1_719_543_547_446));
    let vouches = json!({ "verifiedStatus": "none", "trustedVerifierStatus": "valid" });
    for (verification, verified) in
        [(vouches, Some(true)), (json!({ "verifiedStatus": "invalid" }), Some(false)), (json!(7), None)]
    {
        let object = json!({ "did": "did:plc:a", "handle": "a.org", "verification": verification });
        assert_eq!(parse(&named(Provider::Bluesky), &object).verified, verified);
        // The same in a whole view, which leaves it out where nobody vouches; that was vouched for before.
        let object = json!({ "did": "did:plc:a", "handle": "a.org", "postsCount": 1, "verification": verification });
        let whole = parse(&named(Provider::Bluesky), &object);
        assert_eq!(whole.verified, verified);
        let none = json!({ "did": "did:plc:a", "handle": "a.org", "postsCount": 1 });
        let changed: Vec<_> = parse(&named(Provider::Bluesky), &none).changes(&whole);
        assert_eq!(changed.iter().any(|change| change.field == "verified"), verified == Some(true));
    }
    let author = json!({ "did": "did:plc:a", "handle": "a.org" });
    assert_eq!(parse(&named(Provider::Bluesky), &author).verified, None, "the author in a post");
    // The newer document's names, and a post of before ids told the time.
    let object = json!({ "id": "7", "username": "ann", "public_metrics": { "post_count": 3 }, "most_recent_post_id": "505874924095815681" });
    let renamed = parse(&named(Provider::XV2), &object);
    assert_eq!((renamed.counts.posts, renamed.last_post_at), (Some(3), Some(1_409_444_955_263)));
    let old = parse(&named(Provider::XV2), &json!({ "id": "7", "username": "ann", "most_recent_tweet_id": "20" }));
    assert_eq!(old.last_post_at, None);
}

/// The network makes another short link for the same address now and then; and old objects have a short link alone.
#[test]
fn the_address_in_a_profile_is_the_one_behind_the_short_link() {
    for provider in [Provider::TwitterV1, Provider::XV2] {
        let with = |url: &str, entities: Value| {
            let mut object = whole(provider);
            (object["url"], object["entities"]) = (url.into(), entities);
            parse(&named(provider), &object)
        };
        let before = with("https://t.co/a", link("https://ann.example.org/"));
        let other_link = with("https://t.co/b", link("https://ann.example.org/"));
        assert!(other_link.changes(&before).is_empty(), "{:?}", other_link.changes(&before));
        let other_address = with("https://t.co/c", link("https://bea.example.org/"));
        let changes = other_address.changes(&before);
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!((changes[0].field, &*changes[0].new), ("url", "https://bea.example.org/"));
        let odd =
            [json!(null), json!({}), json!({ "url": 7 }), json!({ "url": { "urls": [{ "expanded_url": null }] } })];
        for entities in odd {
            assert_eq!(with("https://t.co/a", entities).url, text("https://t.co/a"), "{provider:?}");
        }
        assert_eq!(with("", json!({ "url": { "urls": [] } })).url, text(""), "{provider:?}: it was removed");
    }
}

/// Any JSON value, also of the right shape.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[a-z_]{1,12}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

/// The fields in which two accounts differ; a state goes with what it follows from.
fn differences(one: &Account, other: &Account) -> Vec<&'static str> {
    let (a, b) = (&one.counts, &other.counts);
    let counts = [
        a.followers != b.followers,
        a.following != b.following,
        a.posts != b.posts,
        a.listed != b.listed,
        a.likes != b.likes,
    ];
    let dates = [one.created_at != other.created_at, one.last_post_at != other.last_post_at];
    let profile = one.profile().into_iter().zip(other.profile()).filter(|(a, b)| a != b).map(|(a, _)| a.0);
    let others = counts.into_iter().chain(dates).filter(|differ| *differ).map(|_| "a count or a date");
    profile.chain(others).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn an_odd_field_costs_no_other(value in any_value(), at in any::<prop::sample::Index>()) {
        for provider in [Provider::TwitterV1, Provider::XV2, Provider::Mastodon, Provider::Bluesky] {
            let (of, clean) = (named(provider), whole(provider));
            let fields: Vec<&String> = clean.as_object().unwrap().keys().collect();
            let field = fields[at.index(fields.len())].clone();
            let mut object = clean.clone();
            object[&field] = value.clone();
            let Ok(account) = (registry::accounts(&of).parse)(&object.to_string()) else {
                prop_assert!(["id", "id_str", "did", "screen_name", "username", "acct", "handle"].contains(&&*field), "{field}");
                continue;
            };
            let differing = differences(&account, &parse(&of, &clean));
            // X has all counts in one field.
            prop_assert!(differing.len() <= if field == "public_metrics" { 5 } else { 1 }, "{field}: {differing:?}");
        }
    }
}
