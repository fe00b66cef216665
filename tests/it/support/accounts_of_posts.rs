//! What followed from posts, the authors' profiles or their lists: each author of a stored post is an item, is in the queue once,
//! and has the post among its own.

use std::path::Path;

use twitter_updater::store::Listing;

use super::census::{Census, census};
use super::world::World;

/// The pipeline of accounts.
pub const PROFILES: &str = "profiles:twitter";

/// Recorded accounts that live.
pub async fn accounts(world: &World) -> Vec<String> {
    accounts_in(PROFILES, world).await
}

/// The same in another pipeline.
pub async fn accounts_in(namespace: &str, world: &World) -> Vec<String> {
    let page = world.store.page(namespace, Listing::Tracked, None, 10_000).await.unwrap();
    page.into_iter().map(|listed| listed.id).collect()
}

/// Fails where the author of one of these posts is missing, or is in the queue twice; `least`: so many posts have one.
pub async fn assert_accounts_of(
    namespace: &str,
    posts: &[String],
    world: &World,
    folder: &Path,
    least: usize,
    what: &str,
) {
    let accounts = accounts_in(namespace, world).await;
    let mut authors = 0;
    for id in posts {
        let post = world.store.tweet("tweet:update", id).await.unwrap().unwrap();
        let Some(author) = post.author_id else { continue };
        authors += 1;
        assert!(accounts.contains(&author), "{what}: {author} of {id} is no account");
        assert!(world.store.newest_posts(namespace, &author, 1_000).await.unwrap().contains(id), "{what}: {id}");
    }
    assert!(authors >= least, "{what}: {authors}");
    let queue = world.queue_of(folder, namespace).await;
    let found = census(&*queue, &*world.store, &accounts).await;
    let in_the_queue = found.delayed + found.leased;
    assert_eq!(found, Census { delayed: found.delayed, leased: found.leased, ..Census::default() }, "{what}");
    assert_eq!(in_the_queue, accounts.len(), "{what}");
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.delayed + stats.leased) as usize, accounts.len(), "{what}: nothing but accounts of posts");
}
