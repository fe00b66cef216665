//! A community of the simulated network whose rule asks for a place alone, so that its truth can be computed from what is stored.

use std::path::Path;

use twitter_updater::base::clock::Millis;
use twitter_updater::config::CommunitySettings;
use twitter_updater::model::community::Belonging;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::community::network_namespaces;
use twitter_updater::pipelines::community::rule::{Judgement, Rule};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::CommunityAccount;

use super::accounts_of_posts::{PROFILES, accounts};
use super::census::{Census, census};
use super::process::{Variables, run_with_input, text, variables};
use super::world::World;

/// Its name,
pub const NAME: &str = "lisboa";
/// and its pipeline.
pub const COMMUNITY: &str = "community:twitter:lisboa";
/// More than there are.
const ALL: u32 = 100_000;

/// One mention by a member makes an account a candidate, and all are judged again all the time.
pub fn settings() -> Variables {
    variables(&[
        ("accounts.collect", "true"),
        ("accounts.from_posts", "author"),
        ("accounts.active", "1s"),
        ("accounts.idle", "1s"),
        ("accounts.frozen", "1s"),
        ("communities.lisboa.country", "PT"),
        ("communities.lisboa.timelines", "false"),
        ("communities.lisboa.appearances", "1"),
        ("communities.lisboa.share_a_day", "1000"),
        ("communities.lisboa.grow_every", "200ms"),
        ("communities.lisboa.judge_again", "1s"),
    ])
}

/// Makes these the first members of a community, as a person does.
pub fn seed(world: &World, community: &str, accounts: &[String]) {
    let output =
        run_with_input(&["community", "seed", community, "-"], &world.settings, accounts.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// All accounts that it knows in these states.
async fn known(world: &World, states: &[Belonging]) -> Vec<CommunityAccount> {
    let mut all = Vec::new();
    for state in states {
        all.extend(world.communities.page_community(COMMUNITY, *state, "", ALL).await.unwrap());
    }
    all
}

/// Accounts that were only seen; all appeared often enough.
async fn waiting(world: &World) -> usize {
    known(world, &[Belonging::Seen]).await.len()
}

/// Accounts that are judged.
async fn admitted(world: &World) -> Vec<CommunityAccount> {
    let [_, states @ ..] = Belonging::ALL;
    known(world, &states).await
}

/// Whether nobody waits to be admitted, and all that were are judged after that moment, with their profiles.
pub async fn is_all_judged(world: &World, since: Millis) -> bool {
    let admitted = admitted(world).await;
    let is_judged = |of: &CommunityAccount| of.judged_at.is_some_and(|at| at > since);
    !admitted.is_empty()
        && admitted.iter().all(is_judged)
        && waiting(world).await == 0
        && world.all_fresh_in(PROFILES, &accounts(world).await, since).await
        && against_the_rule(world, &admitted).await.is_empty()
}

/// What was decided of an account, and what the rule says of what is stored, where these differ. What a person decided stays.
async fn against_the_rule(world: &World, admitted: &[CommunityAccount]) -> Vec<(CommunityAccount, Judgement)> {
    let country = "PT".to_owned();
    let rule = Rule::new(&CommunitySettings { country, timelines: false, ..CommunitySettings::default() }).unwrap();
    let ids: Vec<String> = admitted.iter().map(|of| of.account.clone()).collect();
    let network = network_namespaces(&Provider::Twitter);
    let facts = world.communities.facts(COMMUNITY, network.neighbours(), &ids, rule.texts_per_account()).await.unwrap();
    let judged = admitted.iter().zip(&facts).map(|(of, facts)| (of.clone(), rule.judge(facts)));
    judged.filter(|(of, judgement)| of.by_hand.is_none() && of.state != judgement.decision.state).collect()
}

/// Fails where an account that a post of a seed names is not known, where one that is judged has no profile, is in the queue twice
/// or not at all, or was decided against the rule.
pub async fn assert_grown(world: &World, folder: &Path, seeds: &[String], posts: &[String], what: &str) {
    let mut named = 0;
    for id in posts {
        let post = world.store.tweet(NAMESPACE, id).await.unwrap().unwrap();
        let (Some(author), Some(raw)) = (post.author_id, post.raw) else { continue };
        if !seeds.contains(&author) {
            continue;
        }
        let raw: serde_json::Value = serde_json::from_str(&raw).unwrap();
        let mentions = raw["entities"]["user_mentions"].as_array().cloned().unwrap_or_default();
        for account in mentions.iter().filter_map(|of| of["id_str"].as_str()).filter(|account| *account != author) {
            named += 1;
            let led = world.communities.appearances(COMMUNITY, account, ALL).await.unwrap();
            let is_known = led.iter().any(|of| of.source == author) || seeds.iter().any(|seed| seed == account);
            assert!(is_known, "{what}: {account} is not known, and {id} of the seed {author} names it");
        }
    }
    assert!(named > 0, "{what}: no seed named anybody");
    let (admitted, profiles) = (admitted(world).await, accounts(world).await);
    assert!(admitted.len() > seeds.len(), "{what}: {} of {} seeds", admitted.len(), seeds.len());
    let ids: Vec<String> = admitted.iter().map(|of| of.account.clone()).collect();
    let without: Vec<_> = ids.iter().filter(|id| !profiles.contains(id)).collect();
    assert!(without.is_empty(), "{what}: {without:?} have no profile");
    // Posts of new members are read on until the last process ends, so some may just have become candidates, and got a profile:
    // whoever is there next judges them.
    let mut against = against_the_rule(world, &admitted).await;
    against.retain(|(of, _)| of.state != Belonging::Candidate);
    assert!(against.is_empty(), "{what}: {against:?}");
    let queue = world.queue_of(folder, COMMUNITY).await;
    let found = census(&*queue, &*world.store, &ids).await;
    assert_eq!(found, Census { delayed: found.delayed, leased: found.leased, ..Census::default() }, "{what}");
    assert_eq!(found.delayed + found.leased, ids.len(), "{what}");
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.delayed + stats.leased) as usize, ids.len(), "{what}: nothing but accounts of the community");
    println!("{what}: {named} mentions by seeds, {} accounts are judged", ids.len());
}
