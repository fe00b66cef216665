//! The additional objects from a call's expansions.

use serde_json::{Map, Value};

use super::object;
use super::users::user;
use crate::render::{RenderContext, tweet_text};
use crate::world::{SimulatedTweet, Version};

/// The users and posts that the expansions of these posts add, each once; `None` if they add none.
pub fn includes(context: &RenderContext<'_>, posts: &[Version]) -> Option<String> {
    let asked = |name: &str| context.fields.expands(name);
    let (mut users, mut originals): (Vec<u64>, Vec<SimulatedTweet>) = (Vec::new(), Vec::new());
    let are_asked =
        ["referenced_tweets", "referenced_tweets.id", "referenced_tweets.id.author_id"].into_iter().any(asked);
    for Version { tweet, .. } in posts {
        users.extend(asked("author_id").then_some(tweet.author));
        users.extend(asked("username").then_some(tweet.author));
        let text = tweet_text(context.world, tweet);
        if asked("entities.mentions.username") {
            users.extend(text.mentions.iter().map(|(.., author)| author));
        }
        users.extend(text.reply.filter(|_| asked("in_reply_to_user_id")).map(|(_, author)| author));
        let parent = || context.world.tweet(text.reply?.0, context.now);
        let Some(original) = tweet.original.as_deref().cloned().or_else(parent) else { continue };
        users.extend(asked("referenced_tweets.id.author_id").then_some(original.author));
        originals.extend(are_asked.then_some(original));
    }
    users.sort_unstable();
    users.dedup();
    originals.sort_unstable_by_key(|original| original.id);
    originals.dedup_by_key(|original| original.id);
    let users: Vec<Value> =
        users.into_iter().map(|author| user(context, &context.world.people().person_at(author, context.now))).collect();
    let whole = |tweet: &SimulatedTweet| Version { tweet: tweet.clone(), history: vec![tweet.id] };
    // Its own text is JSON.
    let originals: Vec<Value> =
        originals.iter().filter_map(|of| serde_json::from_str(&object(context, &whole(of))).ok()).collect();
    let all = [("users".to_owned(), users), (context.fields.translate("tweets"), originals)];
    let some: Map<String, Value> =
        all.into_iter().filter(|(_, of)| !of.is_empty()).map(|(name, of)| (name, of.into())).collect();
    (!some.is_empty()).then(|| Value::from(some).to_string())
}
