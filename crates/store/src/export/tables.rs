//! All exported tables.

use super::table::{Column, ColumnKind, Table};

pub(super) const STATE: &str =
    "CASE WHEN tweet.state = 'ended' AND tweet.misses > 0 THEN 'missing' ELSE tweet.state END";

const fn text(name: &'static str, about: &'static str) -> Column {
    Column::new(name, ColumnKind::Text, about)
}

const fn id(name: &'static str, about: &'static str) -> Column {
    Column::new(name, ColumnKind::Id, about)
}

const fn number(name: &'static str, about: &'static str) -> Column {
    Column::new(name, ColumnKind::Number, about)
}

const fn time(name: &'static str, about: &'static str) -> Column {
    Column::new(name, ColumnKind::Time, about)
}

const MISSING_REASON: &str = "reason for its absence, as the network states it: `not_found`, `suspended`, `not_authorized`, `deactivated` or `deleted`; empty: it states none";

const ID: Column = id("id", "the id under which it is looked up").computed("tweet.id");

pub const ITEMS: &[Table] = &[
    Table::new("ids", "an id that is or was kept fresh, in any state", &[ID]),
    Table::new("raw", "the newest object as the network sent it, as `twarc` writes it", &[text("raw", "JSON")])
        .with_condition("tweet.raw <> ''"),
    Table::new(
        "unavailable",
        "an item that the network no longer returns, or never returned",
        &[
            ID,
            text(
                "state",
                "`unavailable`, `missing` (its lookups have ended) or `dead`; `live` while a miss is not confirmed yet",
            )
            .computed(STATE),
            time("missing_since", "time of its first miss"),
            text("missing_reason", MISSING_REASON),
            number("misses", "number of misses in a row"),
            Column::new("was_found", ColumnKind::Flag, "true if an answer ever contained it")
                .computed("tweet.lookups > tweet.misses"),
            text("reason", "reason, if it is dead"),
        ],
    )
    .with_condition("(tweet.misses > 0 OR tweet.state IN ('unavailable', 'dead'))"),
    Table::new(
        "ways",
        "a way by which an item arrived",
        &[
            ID,
            text("pipeline", "`enqueue`, `once`, `http`, `incoming`, `poll`, `stream`, `fan_out` …"),
            text("source", "the name of a file, or of a source in the settings"),
            text("query", "the request of that source: a query, an account"),
            time("first_at", "time of its first arrival by this way"),
        ],
    )
    .join("tweet_way", &[("pipeline", ColumnKind::Text), ("source", ColumnKind::Text)]),
];

pub const POSTS: &[Table] = &[
    Table::new(
        "posts",
        "the current state of a post",
        &[
            ID,
            text(
                "state",
                "`live`, `unavailable`, `ended` (no longer looked up), `missing` (the same, and its last answer lacked it) or `dead` \
                 (set aside)",
            )
            .computed(STATE),
            time("created_at", "time of creation"),
            text("text", "its text, as the network writes it: HTML on Mastodon, `&amp;` for `&` on Twitter and X"),
            Column::new("plain_text", ColumnKind::PlainText, "its text, as a reader sees it").computed("tweet.text"),
            text("lang", "its language, as the network states it; several are comma separated"),
            id("author_id", "its author's id"),
            text("author_name", "its author's handle"),
            number("retweet_count", "number of reposts"),
            number("favorite_count", "number of likes"),
            number("reply_count", "number of replies"),
            number("quote_count", "number of quotes"),
            number("bookmark_count", "number of bookmarks"),
            number("impression_count", "number of views"),
            id("reply_to", "the id of the post that it replies to"),
            id("reply_to_author", "the id of the account that it replies to"),
            id("retweet_of", "the id of the reposted post"),
            id("quote_of", "the id of the post that it quotes"),
            id("conversation_id", "the id of the post with which the conversation began"),
            text("reply_settings", "accounts that may reply, as the network states it"),
            text("labels", "labels of the post and of its author, comma separated: `!no-unauthenticated`, `porn` …"),
            id("current_id", "the id of its newest version, if it was edited"),
            Column::new("truncated", ColumnKind::Flag, "true if the text is cut short"),
            text("withheld_in", "countries in which it is withheld, comma separated"),
            time("first_seen", "time of its first record"),
            time("checked_at", "time of its newest answer"),
            time("changed_at", "time of the answer that last changed a count"),
            time("next_due", "time of its next lookup"),
            number("lookups", "number of answers about it; of an id that none found, since it was last retried"),
            number("misses", "number of misses in a row"),
            time("missing_since", "time of the first of these misses"),
            text("missing_reason", MISSING_REASON),
            text("reason", "reason, if it is dead"),
        ],
    ),
    Table::new(
        "metrics",
        "the counts of a post at a time when one of them had changed",
        &[
            ID,
            time("checked_at", "time of the answer"),
            number("retweet_count", "number of reposts"),
            number("favorite_count", "number of likes"),
            number("reply_count", "number of replies"),
            number("quote_count", "number of quotes"),
            number("bookmark_count", "number of bookmarks"),
            number("impression_count", "number of views"),
        ],
    )
    .join("tweet_metrics", &[("checked_at", ColumnKind::Time)]),
    Table::new(
        "changes",
        "a change of a post, except its counts",
        &[
            ID,
            time("at", "time of the answer that showed it"),
            text("field", "`text`, `current_id`, `withheld_in`, `reply_settings` or `state`"),
            Column::new("old_value", ColumnKind::ChangedValue, "the old value"),
            Column::new("new_value", ColumnKind::ChangedValue, "the new value"),
        ],
    )
    .join("tweet_change", &[("at", ColumnKind::Time), ("field", ColumnKind::Text)]),
    Table::new(
        "languages",
        "the language of a post, as its text says; of accounts that a community has judged by their posts",
        &[
            ID,
            text("language", "the language of its text, ISO 639-1"),
            number("confidence_thousandths", "from 0 to 1000")
                .computed("CAST(ROUND(beside.confidence * 1000) AS BIGINT)"),
            text("stated", "its language, as the network states it").computed("tweet.lang"),
        ],
    )
    .join("post_language", &[]),
];

pub const ACCOUNTS: &[Table] = &[
    Table::new(
        "accounts",
        "the current state of an account, as its answers state it; before the first one it is `unknown`",
        &[
            ID,
            text("state", "`live`, `protected`, `suspended`, `deactivated`, `deleted` or `unknown`")
                .computed("COALESCE(beside.state, 'unknown')"),
            text("handle", "its handle, without `@`"),
            text("display_name", "the name that is shown"),
            text("description", "the owner's description, as the network writes it: HTML on Mastodon"),
            Column::new("plain_description", ColumnKind::PlainText, "the same, as a reader sees it")
                .computed("beside.description"),
            text("location", "location in the owner's words"),
            text("url", "the address in the profile"),
            text("picture", "the address of the picture"),
            text("banner", "the address of the banner"),
            Column::new("protected", ColumnKind::Flag, "true if the owner approves followers"),
            Column::new("verified", ColumnKind::Flag, "true if the network vouches for it"),
            text("withheld_in", "countries in which it is withheld, comma separated"),
            id("moved_to", "the id of the account that its owner moved to"),
            number("followers", "number of followers"),
            number("following", "number of accounts that it follows"),
            number("posts", "number of its posts, as the network counts them"),
            number("listed", "number of lists that it is on"),
            number("likes", "number of posts that it likes"),
            time("created_at", "time of creation; of Mastodon the day alone").computed("tweet.created_at"),
            time("last_post_at", "time of its last post, as the network states it; of Mastodon the day alone"),
            time("active_at", "newest known sign of life"),
            time("first_seen", "time of its first record").computed("tweet.first_seen"),
            time("checked_at", "time of its newest answer"),
            time("next_due", "time of its next lookup").computed("tweet.next_due"),
            time("missing_since", "time of the first of the misses").computed("tweet.missing_since"),
            time("forgotten_at", "time at which its content was removed"),
        ],
    )
    .left_join("account"),
    Table::new(
        "account_changes",
        "a change of a field of an account, or of its state",
        &[
            ID,
            time("at", "time of the answer that showed it"),
            text("field", "the field, or `state`"),
            Column::new("old_value", ColumnKind::ChangedValue, "the old value; empty: there was none"),
            Column::new("new_value", ColumnKind::ChangedValue, "the new value; empty: there is none any more"),
        ],
    )
    .join("account_change", &[("at", ColumnKind::Time), ("field", ColumnKind::Text)]),
    Table::new(
        "account_counts",
        "the counts of an account at a time when one of them had changed",
        &[
            ID,
            time("checked_at", "time of the answer"),
            number("followers", "number of followers"),
            number("following", "number of accounts that it follows"),
            number("posts", "number of its posts"),
            number("listed", "number of lists that it is on"),
            number("likes", "number of posts that it likes"),
        ],
    )
    .join("account_count", &[("checked_at", ColumnKind::Time)]),
    Table::new(
        "account_posts",
        "a collected post of an account",
        &[ID, id("post", "the id of the post"), time("at", "time of its creation, or else of its discovery")],
    )
    .join("account_post", &[("post", ColumnKind::Text)]),
];

pub const MEDIA: &[Table] = &[
    Table::new(
        "media",
        "a picture, video or sound of posts",
        &[
            ID,
            text("url", "the address of its file"),
            text("kind", "`photo`, `video`, `gif`, `audio` or `unknown`, as the network states it"),
            text("state", "`waiting`, `stored`, `gone`, `refused`, `failed` or `removed`"),
            number("bytes", "the size of its file"),
            text("type", "the type of its file, by its first bytes: `image/jpeg`"),
            text(
                "sha256",
                "the hash of its file, which is kept under the first two digits in a folder, and the others",
            ),
            number("attempts", "number of failures"),
            time("failing_since", "time of the first of the failures in a row"),
            text("reason", "reason, if it is not stored"),
            time("first_at", "time at which a post first named it"),
            time("checked_at", "time of its last attempt"),
        ],
    )
    .join("media", &[]),
    Table::new(
        "media_uses",
        "a post that shows a medium",
        &[ID, id("post", "the id of the post"), time("first_at", "time of the first sighting")],
    )
    .join("media_use", &[("post", ColumnKind::Text)]),
];

pub const EDGES: &[Table] = &[
    Table::new(
        "edges",
        "a follower or a friend of an account, for a time",
        &[
            id("owner", "the account whose followers or friends are listed").computed("tweet.id"),
            id("member", "the follower or friend"),
            text("direction", "`follower`: the member follows the owner; `friend`: the owner follows the member"),
            time("appeared_after", "the member was not there before; empty: unknown"),
            time("appeared_by", "time of its first sighting"),
            time("followed_at", "time of the follow, as the network states it"),
            time("vanished_after", "time of its last sighting; empty: no known end"),
            time("vanished_by", "time at which it was missed; empty: no known end"),
            text(
                "cause",
                "`unfollowed`, `suspended`, `deactivated`, `deleted` or `unknown`; empty: no known end",
            ),
            time("seen_at", "latest time at which pages prove that it was there"),
        ],
    )
    .join("edge", &[("member_number", ColumnKind::Number), ("page_number", ColumnKind::Number)]),
    Table::new(
        "crawls",
        "a reading of a list, page by page",
        &[
            id("owner", "the account whose followers or friends are listed").computed("tweet.id"),
            number("number", "its number"),
            text("kind", "`complete` or `prefix` (the newest members)"),
            time("started_at", "time of its start"),
            time("ended_at", "time of its end; empty: it is under way"),
            text(
                "ended",
                "`complete`, or another end: `withheld`, `known_tail`, `capped`, `hidden`, `partial`, `stale`, `looped`, \
                 `aborted`",
            ),
            number("pages", "number of its pages"),
            number("found", "number of members on them"),
            number("stated_total", "number of members that the owner's profile states"),
            number("appeared", "number of new edges"),
            number("vanished", "number of edges that it ended"),
            number("withheld", "number of edges that it did not show and, as too many, did not end"),
        ],
    )
    .join("crawl", &[("number", ColumnKind::Number)]),
];

pub const COMMUNITIES: &[Table] = &[
    Table::new(
        "community",
        "an account that is, or was, a candidate of a community",
        &[
            ID,
            text("state", "`candidate`, `open`, `member` or `outside`"),
            number("score_thousandths", "from -1000 (outside) to 1000 (a member)"),
            text("evidence", "result of each test, as JSON"),
            text("rule", "the version of the rule by which it was judged"),
            text("by_hand", "the person who decided; empty: the rule decided"),
            text("why", "reason that this person gave"),
            number(
                "appearances",
                "number of members, and of posts of searches, that led to it until it became a candidate; of a seed 0",
            ),
            number("posts", "number of its posts that were found since it appeared"),
            time("first_at", "time of its first appearance"),
            time("admitted_at", "time at which it became a candidate"),
            time("decided_at", "start of its current state"),
            time("judged_at", "time of its last judgement"),
        ],
    )
    .join("community", &[]),
    Table::new(
        "community_changes",
        "a change of the state of an account in a community",
        &[
            ID,
            time("at", "time of the decision"),
            text("old_state", "the state before; empty: it was not known"),
            text("new_state", "the state from then on"),
            text("rule", "the version of the rule; empty: no rule did it"),
            text("by_hand", "the person who decided"),
        ],
    )
    .join("community_history", &[("at", ColumnKind::Time), ("new_state", ColumnKind::Text)]),
    Table::new(
        "community_reasons",
        "a reason for an account of a community",
        &[
            ID,
            text("reason", "`mentioned`, `reposted`, `follower`, `friend` or `search`"),
            id("source", "the id of the member that shows it, or of the post that a search found"),
            id("post", "the id of the post that shows it; empty: none does, or it is removed or blanked"),
            time("first_at", "time of the first such appearance"),
        ],
    )
    .join("community_reason", &[("source", ColumnKind::Text), ("reason", ColumnKind::Text)]),
];

const AUTHOR: [Column; 3] = [
    id("author_id", "its author's id"),
    text("author_name", "its author's handle"),
    time("created_at", "time of creation"),
];

pub static REPLIES: Table = Table::new(
    "replies",
    "a post that replies to an account",
    &[AUTHOR[0], AUTHOR[1], AUTHOR[2], id("reply_to_author", "the id of the account that it replies to")],
)
.with_condition("tweet.author_id IS NOT NULL AND tweet.reply_to_author IS NOT NULL");

pub static OBJECTS: Table = Table::new(
    "objects",
    "a post as the network sent it",
    &[
        AUTHOR[0],
        AUTHOR[1],
        AUTHOR[2],
        id("reply_to_author", "the id of the account that it replies to"),
        id("retweet_of", "the id of the post that it repeats"),
        id("reposted_author", "the id of the author of the stored post that it repeats").computed(
            "(SELECT original.author_id FROM tweet AS original \
             WHERE original.namespace = tweet.namespace AND original.id = tweet.retweet_of)",
        ),
        text("raw", "JSON"),
    ],
)
.with_condition("tweet.author_id IS NOT NULL AND tweet.raw <> ''");

pub static HANDLES: Table =
    Table::new("handles", "the handle of an account", &[ID, text("handle", "its handle, without `@`")])
        .left_join("account");

/// Counts of posts over time, with their dates, for training. Counts are in the order of `likes, retweets, replies,
/// quotes, views`.
pub static HISTORIES: Table = Table::new(
    "histories",
    "the counts of a post at a time when one of them had changed, and its dates",
    &[
        ID,
        time("created_at", "time of creation").computed("tweet.created_at"),
        time("last_at", "time of its newest answer").computed("tweet.checked_at"),
        time("checked_at", "time of the answer"),
        number("favorite_count", "number of likes"),
        number("retweet_count", "number of reposts"),
        number("reply_count", "number of replies"),
        number("quote_count", "number of quotes"),
        number("impression_count", "number of views"),
    ],
)
.join("tweet_metrics", &[("checked_at", ColumnKind::Time)]);
