//! Posts and their judge. Each post is looked up again by its age, until it is too old.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use super::apis::{learn_lookup, open_lookup};
use super::kind::{Histories, Opened, Opening, PipelineKind, Registered, Words};
use crate::base::clock::{self, Millis};
use crate::config::{BadConfig, ScheduleKind, Settings};
use crate::engine::queue::Job;
use crate::engine::schedule::adaptive::budget::Normaliser;
use crate::engine::schedule::adaptive::{Adaptive, Options, Spend};
use crate::engine::schedule::age::SameDay;
use crate::engine::schedule::history::weighted;
use crate::engine::schedule::{BeforeMidnight, Schedule};
use crate::model::account::{Person, Role};
use crate::model::media::{MediaKind, Medium};
pub use crate::model::pipeline_id::NAMESPACE;
use crate::model::pipeline_id::PipelineId;
use crate::model::post::{Metrics, Tweet, Weights};
use crate::model::provider::Provider;
use crate::model::relation::Side;
use crate::pipelines::community::account_evidence::{AccountEvidence, COMMUNITY, are_wanted};
use crate::pipelines::media::MEDIA;
use crate::pipelines::profiles::PROFILES;
use crate::pipelines::refresh::{Item, Judge, Judged, Mention, Named, Refresher};
use crate::pipelines::timelines::dates::can_be;
use crate::providers::lookup::{Capabilities, Charge};
use crate::providers::registry::{self, IngestedMedia, Parse};
use crate::store::export::{self, Table};
use crate::store::{Observation, Saved, Standing, Store, StoreError};

/// Allowance for the difference between the clocks of provider and ledger, and for the ledger's answer.
const CLOCKS: Duration = Duration::from_secs(10);
/// Allowance for the wait of a due id for a worker, and of a batch for its save.
const ON_THE_WAY: Duration = Duration::from_secs(60);

/// One pipeline for each provider in the settings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Posts;

#[async_trait]
impl PipelineKind for Posts {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        Ok(settings.providers()?.iter().map(PipelineId::posts).collect())
    }

    fn words(&self) -> Words {
        Words::POSTS
    }

    fn capabilities(&self, of: &PipelineId) -> Capabilities {
        registry::capabilities(&of.provider)
    }

    fn schedule(&self, of: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        let capabilities = self.capabilities(of);
        let same_day = same_day(settings, capabilities);
        let ages = settings.ages();
        match (settings.schedule, settings.adaptive.model()) {
            (ScheduleKind::Adaptive, Ok(model)) => {
                let options = settings.adaptive.options();
                // If the provider charges for each post, the use of spare quota costs money.
                let spend = if capabilities.charge == Charge::PerCall { options.spend } else { Spend::Demand };
                let schedule = Adaptive::new(ages, model, Options { spend, ..options }, Normaliser::default());
                Arc::new(BeforeMidnight { schedule: Arc::new(schedule), same_day })
            }
            (ScheduleKind::Age, _) => Arc::new(BeforeMidnight { schedule: Arc::new(ages), same_day }),
            // It was checked at the start: the file has disappeared since.
            (ScheduleKind::Adaptive, Err(why)) => {
                tracing::error!(error = %why, "no model: posts go by tweet_age");
                Arc::new(BeforeMidnight { schedule: Arc::new(ages), same_day })
            }
        }
    }

    fn date_of(&self, of: &PipelineId, id: &str) -> Result<Option<Millis>, String> {
        registry::date_of(&of.provider)(id)
    }

    fn fans_out_to(&self, settings: &Settings) -> Vec<&'static str> {
        let people = settings.accounts.collect && !settings.accounts.from_posts.trim().is_empty();
        let kinds = [(PROFILES, people), (MEDIA, settings.media.collect), (COMMUNITY, are_wanted(settings))];
        let kinds = kinds.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(kind, _)| kind);
        kinds.chain(owners(settings)).collect()
    }

    fn parse(&self, of: &PipelineId) -> Parse {
        registry::parse(&of.provider)
    }

    fn tables(&self) -> &'static [Table] {
        export::POSTS
    }

    fn histories(&self, settings: &Settings) -> Option<Histories> {
        let Weights { likes, retweets, replies, quotes, views } = settings.adaptive.weights;
        Some(Histories { table: &export::HISTORIES, weights: vec![likes, retweets, replies, quotes, views] })
    }

    fn check(&self, of: &PipelineId, settings: &Settings) -> Result<()> {
        open_lookup(settings, &of.provider).map(drop)
    }

    async fn open(&self, opening: Opening) -> Result<Opened> {
        let lookup = learn_lookup(&opening.settings, &opening.id.provider, &opening.health).await?;
        let weights = opening.settings.adaptive.weights;
        // Posts are parsed only for data that some pipeline uses.
        let (provider, settings) = (&opening.id.provider, &opening.settings);
        let people = People { people: registry::people(provider), roles: settings.accounts.roles()? };
        let people = settings.accounts.collect.then_some(people);
        let (media, ingested) = (registry::media(provider), registry::ingested_media(provider));
        let shown = MediaReader { media, ingested, kinds: settings.media.wanted()? };
        let shown = settings.media.collect.then_some(shown);
        let owners = owners(settings);
        let communities = are_wanted(settings).then_some(registry::people(provider));
        Ok(opening.refresher(lookup, PostJudge { weights, people, shown, owners, communities }))
    }
}

fn owners(settings: &Settings) -> Vec<&'static str> {
    let sides = settings.relations.sides().unwrap_or_default().into_iter().map(Side::as_str);
    sides.filter(|_| settings.relations.from_posts).collect()
}

#[must_use]
pub fn posts_of(provider: &Provider) -> Registered {
    Registered { id: PipelineId::posts(provider), kind: Arc::new(Posts) }
}

/// For a provider that charges a post once per UTC day: a post that is due early in a day is read on the day of its last read.
#[must_use]
pub fn same_day(settings: &Settings, capabilities: Capabilities) -> SameDay {
    if capabilities.charge != Charge::PerIdPerUtcDay {
        return SameDay::default();
    }
    let on_the_way = clock::millis(settings.updater.buffer_ttl.saturating_add(ON_THE_WAY));
    SameDay { share: settings.x.same_day, margin: margin(settings).saturating_add(on_the_way) }
}

/// Margin around midnight: the time of a call, and the difference of clocks.
#[must_use]
pub fn margin(settings: &Settings) -> Millis {
    clock::millis(settings.lookup.timeout.saturating_add(CLOCKS))
}

/// Handler of `tweet:update` and the like.
pub type TweetUpdate = Refresher<PostJudge>;

#[derive(Debug, Clone, Default)]
pub struct PostJudge {
    pub weights: Weights,
    /// `None`: no accounts of posts are looked up.
    pub people: Option<People>,
    /// `None`: no media of posts are fetched.
    pub shown: Option<MediaReader>,
    /// Kinds of lists to read for the authors of posts.
    pub owners: Vec<&'static str>,
    /// Reads the accounts for communities from a raw object; `None`: there is no community.
    pub communities: Option<fn(&str) -> Vec<Person>>,
}

#[derive(Debug, Clone)]
pub struct People {
    pub people: fn(&str) -> Vec<Person>,
    pub roles: Vec<Role>,
}

#[derive(Debug, Clone)]
pub struct MediaReader {
    pub media: fn(&str) -> Vec<Medium>,
    /// Takes them from the ingested object, if the lookup's answers lack them.
    pub ingested: Option<IngestedMedia>,
    pub kinds: Vec<MediaKind>,
}

impl MediaReader {
    /// Names media with their addresses: an edit may have added one.
    fn name(&self, tweet: &Tweet, is_first: bool, named: &mut Named) {
        for medium in (self.media)(&tweet.raw).into_iter().filter(|medium| self.kinds.contains(&medium.kind)) {
            // Only texts: it cannot fail.
            let object = serde_json::to_string(&medium).ok();
            let author = tweet.author_id.clone();
            named.mention(Mention { kind: MEDIA, id: medium.id, is_first, object, author, ..Mention::default() });
        }
    }
}

impl Item for Tweet {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_at(&self) -> Option<Millis> {
        self.created_at
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }

    fn is_withheld(&self) -> bool {
        self.withheld_in.is_some()
    }
}

#[async_trait]
impl Judge for PostJudge {
    type Item = Tweet;

    /// Drops an impossible date: the date of the store or the id stays.
    async fn prepare(
        &self,
        store: &dyn Store,
        namespace: &str,
        mut found: Vec<&mut Tweet>,
        at: Millis,
    ) -> Result<(), StoreError> {
        for tweet in &mut found {
            tweet.created_at = tweet.created_at.filter(|made| can_be(*made, at));
        }
        match self.shown.as_ref().and_then(|shown| shown.ingested) {
            Some(ingested) => add_ingested_media(ingested, store, namespace, found).await,
            None => Ok(()),
        }
    }

    fn needs_standing(&self, job: &Job, tweet: &Tweet) -> bool {
        tweet.created_at.is_none() || is_version(job, tweet)
    }

    fn found(&self, job: &Job, tweet: &mut Tweet, standing: Option<&Standing>, known: Option<Millis>) -> Judged {
        let created_at = match is_version(job, tweet) {
            // A later version has its own date; the post keeps its age.
            true => known.or(tweet.created_at),
            false => tweet.created_at.or(known),
        };
        Judged { created_at, follow: follow_edits(tweet, standing) }
    }

    fn fan_out(&self, tweet: &Tweet, before: Option<&Standing>, named: &mut Named) {
        // The blanking of a post erased everything that it had led to.
        let is_first = !before.is_some_and(|known| known.was_found() && !known.is_blanked);
        if let Some(shown) = &self.shown {
            shown.name(tweet, is_first, named);
        }
        if let (Some(author), true) = (&tweet.author_id, is_first) {
            for kind in &self.owners {
                let (id, from, acted_at) = (author.clone(), tweet.id.clone(), tweet.created_at);
                named.mention(Mention { kind, id, from, is_first, acted_at, ..Mention::default() });
            }
        }
        if let (Some(people), Some(author), true) = (self.communities, &tweet.author_id, is_first) {
            named.mention(shown_by(author, people(&tweet.raw)));
        }
        let Some(People { people, roles }) = &self.people else { return };
        for Person { id, role, object } in people(&tweet.raw).into_iter().filter(|person| roles.contains(&person.role))
        {
            let acted_at = (is_first && role == Role::Author).then_some(tweet.created_at).flatten();
            if is_first || object.is_some() {
                let from = tweet.id.clone();
                named.mention(Mention { kind: PROFILES, id, from, is_first, acted_at, object, ..Mention::default() });
            }
        }
    }

    fn weigh(&self, counts: &Metrics) -> Option<f64> {
        let Weights { likes, retweets, replies, quotes, views } = self.weights;
        weighted(&[
            (counts.favorite_count, likes),
            (counts.retweet_count, retweets),
            (counts.reply_count, replies),
            (counts.quote_count, quotes),
            (counts.impression_count, views),
        ])
    }

    async fn save(&self, store: &dyn Store, namespace: &str, answers: &[Observation]) -> Result<Saved, StoreError> {
        store.save(namespace, answers).await
    }
}

fn shown_by(author: &str, people: Vec<Person>) -> Mention {
    // Only texts: it cannot fail.
    let object = serde_json::to_string(&AccountEvidence::by_post(true, people)).ok();
    Mention { kind: COMMUNITY, id: author.to_owned(), is_first: true, object, ..Mention::default() }
}

/// Adds media from ingested objects to the answer that first finds a post. Later answers need none: the media are recorded by then.
async fn add_ingested_media(
    ingested: IngestedMedia,
    store: &dyn Store,
    namespace: &str,
    found: Vec<&mut Tweet>,
) -> Result<(), StoreError> {
    let lacking: Vec<&mut Tweet> = found.into_iter().filter(|tweet| (ingested.is_needed)(&tweet.raw)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = lacking.iter().map(|tweet| tweet.id.clone()).collect();
    let standings = store.standing(namespace, &ids).await?;
    for (tweet, standing) in lacking.into_iter().zip(standings) {
        if standing.is_none_or(|known| known.was_found()) {
            continue;
        }
        let object = store.tweet(namespace, &tweet.id).await?.and_then(|stored| stored.raw);
        if let Some(whole) = object.and_then(|object| (ingested.add)(&tweet.raw, &object)) {
            tweet.raw = whole;
        }
    }
    Ok(())
}

/// Returns true if the answer is one of several versions of a post.
fn is_version(job: &Job, tweet: &Tweet) -> bool {
    tweet.id != job.id || !tweet.newer.is_empty()
}

/// The next version: one after the other and at once, so that the history has each. After a miss it is the newest one, and the jump is no
/// change.
fn follow_edits(tweet: &mut Tweet, standing: Option<&Standing>) -> Option<String> {
    if standing.is_none_or(|known| known.misses == 0) {
        return tweet.newer.first().cloned();
    }
    let newest = tweet.newer.last().cloned();
    if newest.is_some() {
        (tweet.text, tweet.metrics, tweet.withheld_in) = (None, Metrics::default(), None);
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Millis;
    use crate::engine::schedule::Known;
    use crate::engine::schedule::history::{Answer, History};

    #[test]
    fn the_schedule_is_that_of_the_settings() {
        let with = |variables: &[(&str, &str)]| {
            posts_of(&Provider::Twitter).schedule(&Settings::load_with(&[], None, variables).unwrap())
        };
        let by_age = with(&[]);
        assert!(!by_age.needs_history());
        let adaptive = [("TWITTER_UPDATER__SCHEDULE", "adaptive"), ("TWITTER_UPDATER__ADAPTIVE__SLOWER", "2")];
        let adaptive = with(&adaptive);
        assert!(adaptive.needs_history());
        assert_eq!(adaptive.ages(), by_age.ages());
        let now = 1_700_000_000_000;
        let hours = |schedule: &dyn Schedule| schedule.longest(&Known::new("1", Some(now - 7_200_000)), now);
        assert_eq!((hours(&*by_age), hours(&*adaptive)), (Some(3_600_000), Some(7_200_000)));
        // A model file that disappeared after the check at the start stops nothing.
        let gone = [("TWITTER_UPDATER__SCHEDULE", "adaptive"), ("TWITTER_UPDATER__ADAPTIVE__MODEL_FILE", "/nowhere")];
        assert!(!with(&gone).needs_history());
    }

    fn longest_wait(provider: Provider, variables: &[(&str, &str)]) -> Millis {
        let settings = Settings::load_with(&[], None, variables).unwrap();
        let schedule = posts_of(&provider).schedule(&settings);
        let made = 1_700_000_000_000;
        let (mut now, mut longest) = (made, 0);
        let mut history = History { created_at: Some(made), ..History::default() };
        let mut next = schedule.first(&Known::new("1", Some(made)), now);
        while let Some((lane, delay)) = next {
            assert!(delay > 0 && delay <= lane.patience, "{delay} {lane:?}");
            (now, longest) = (now + delay, longest.max(delay));
            // A post without events.
            history = History { before: history.last, last: Some(Answer { at: now, count: 0.0 }), ..history };
            next = schedule.next(&Known { history, ..Known::new("1", Some(made)) }, now);
        }
        assert!(now >= made + clock::millis(Duration::from_secs(90 * 86_400)), "it ended early");
        longest
    }

    #[test]
    fn no_living_post_goes_unchecked_longer_than_the_bound() {
        let day = 86_400_000;
        for provider in [Provider::Twitter, Provider::X, Provider::Bluesky] {
            for schedule in ["age", "adaptive"] {
                let of = |on_deleted, longest| {
                    let variables = [
                        ("TWITTER_UPDATER__TWEET_AGE", "1d: 1h, 30d: 1d, 90d: 7d"),
                        ("TWITTER_UPDATER__SCHEDULE", schedule),
                        ("TWITTER_UPDATER__STORE__ON_DELETED", on_deleted),
                        ("TWITTER_UPDATER__STORE__LONGEST_UNCHECKED", longest),
                    ];
                    longest_wait(provider.clone(), &variables)
                };
                assert!(of("keep", "1d") > 5 * day, "{provider} {schedule}: without the bound it waits for days");
                assert!(of("blank", "1d") <= day, "{provider} {schedule}");
                assert!(of("remove", "12h") <= day / 2, "{provider} {schedule}");
            }
        }
    }

    #[test]
    fn a_post_that_was_blanked_and_is_found_again_names_its_author_as_at_first() {
        let judge = PostJudge { owners: vec!["followers"], ..PostJudge::default() };
        let tweet = Tweet { id: "1".to_owned(), author_id: Some("7".to_owned()), ..Tweet::default() };
        let names = |lookups, is_blanked| {
            let mut named = Named::at("1", 5);
            judge.fan_out(&tweet, Some(&Standing { lookups, is_blanked, ..Standing::default() }), &mut named);
            format!("{named:?}").contains("followers")
        };
        assert_eq!([names(0, false), names(2, false), names(2, true)], [true, false, true]);
    }
}
