//! Posts and their judge. Each post is looked up again by its age, until it is too old.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use super::apis::{open_lookup, open_lookup_with_limits};
use super::kind::{
    Histories, Intake, ItemTerms, ItemWords, OpenContext, OpenPipeline, PipelineKind, Presentation, RegisteredPipeline,
};
use super::visits::VISITS;
use crate::config::{BadConfig, ScheduleKind, Settings};
use crate::pipelines::refresh::{AccountEvidence, Arrival, Item, Judge, JudgedItem, Mention, Mentions, Refresher};
use crate::pipelines::timelines::dates::is_possible_date;
use engine::base::clock::{self, Millis};
use engine::queue::Job;
use engine::schedule::Schedule;
use engine::schedule::adaptive::budget::Normaliser;
use engine::schedule::adaptive::{Adaptive, Options};
use engine::schedule::age::SameDay;
use engine::schedule::bounded::BoundedSchedule;
use engine::schedule::budgeted::Spend;
use engine::schedule::history::weighted;
use networks::model::account::{Person, Role};
use networks::model::media::{MediaKind, Medium};
pub use networks::model::pipeline_id::NAMESPACE;
use networks::model::pipeline_id::{COMMUNITY, PipelineId};
use networks::model::post::{Metrics, Tweet, Weights};
use networks::model::provider::Provider;
use networks::providers::lookup::{Capabilities, Charge};
use networks::providers::registry::{self, IngestedMedia};
use store::export::{self, Table};
use store::{Observation, SaveCounts, Standing, Store, StoreError};

/// Allowance for the difference between the clocks of provider and ledger, and for the ledger's answer.
const CLOCK_ALLOWANCE: Duration = Duration::from_secs(10);
/// Allowance for the wait of a due id for a worker, and of a batch for its save.
const DELIVERY_ALLOWANCE: Duration = Duration::from_secs(60);

/// One pipeline for each provider in the settings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Posts;

#[async_trait]
impl PipelineKind for Posts {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        Ok(settings.providers()?.iter().map(PipelineId::posts).collect())
    }

    fn capabilities(&self, pipeline: &PipelineId) -> Capabilities {
        registry::capabilities(&pipeline.provider)
    }

    fn schedule(&self, pipeline: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        let capabilities = self.capabilities(pipeline);
        let same_day = same_day(settings, capabilities);
        let ages = settings.ages();
        let schedule: Arc<dyn Schedule> = match (settings.schedule, settings.adaptive.model()) {
            (ScheduleKind::Adaptive, Ok(model)) => {
                let options = settings.adaptive.options();
                // If the provider charges for each post, the use of spare quota costs money.
                let spend = if capabilities.charge == Charge::PerCall { options.spend } else { Spend::Demand };
                Arc::new(Adaptive::new(ages, model, Options { spend, ..options }, Normaliser::default()))
            }
            (ScheduleKind::Age, _) => Arc::new(ages),
            // It was checked at the start: the file has disappeared since.
            (ScheduleKind::Adaptive, Err(why)) => {
                tracing::error!(error = %why, "no model: posts use the intervals of tweet_age");
                Arc::new(ages)
            }
        };
        Arc::new(BoundedSchedule { schedule, longest: None, same_day: Some(same_day) })
    }

    fn intake(&self, pipeline: &PipelineId) -> Intake {
        let provider = &pipeline.provider;
        Intake { id_date: Arc::new(registry::date_of(provider)), parse: registry::parse(provider) }
    }

    fn terms(&self, settings: &Settings) -> ItemTerms {
        ItemTerms { named_by: vec![VISITS, COMMUNITY], ..ItemTerms::new(settings) }
    }

    fn check(&self, pipeline: &PipelineId, settings: &Settings) -> Result<()> {
        open_lookup(settings, &pipeline.provider).map(drop)
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline> {
        let lookup = open_lookup_with_limits(&opening.settings, &opening.id.provider, &opening.health).await?;
        let weights = opening.settings.adaptive.weights;
        // Posts are parsed only for data that some pipeline uses.
        let (provider, settings) = (&opening.id.provider, &opening.settings);
        let people = PeopleReader { people: registry::people(provider), roles: settings.accounts.roles()? };
        let people = settings.accounts.collect.then_some(people);
        let (media, ingested) = (registry::media_reader(provider), registry::ingested_media(provider));
        let media_reader = MediaReader { media, ingested, kinds: settings.media.wanted_kinds()? };
        let media_reader = settings.media.collect.then_some(media_reader);
        let names_authors = settings.relations.from_posts && !settings.relations.sides().unwrap_or_default().is_empty();
        let communities = settings.has_communities().then_some(registry::people(provider));
        Ok(opening.refresher(lookup, PostJudge { weights, people, media_reader, names_authors, communities }))
    }
}

impl Presentation for Posts {
    fn words(&self) -> ItemWords {
        ItemWords::POSTS
    }

    fn tables(&self) -> &'static [Table] {
        export::POSTS
    }

    fn histories(&self, settings: &Settings) -> Option<Histories> {
        let Weights { likes, retweets, replies, quotes, views } = settings.adaptive.weights;
        Some(Histories { table: &export::HISTORIES, weights: vec![likes, retweets, replies, quotes, views] })
    }
}

#[must_use]
pub fn posts_pipeline(provider: &Provider) -> RegisteredPipeline {
    RegisteredPipeline { id: PipelineId::posts(provider), kind: Arc::new(Posts) }
}

/// For a provider that charges a post once per UTC day: a post that is due early in a day is read on the day of its last read.
#[must_use]
pub fn same_day(settings: &Settings, capabilities: Capabilities) -> SameDay {
    if capabilities.charge != Charge::PerIdPerUtcDay {
        return SameDay::default();
    }
    let on_the_way = clock::millis(settings.updater.buffer_ttl.saturating_add(DELIVERY_ALLOWANCE));
    SameDay { share: settings.x.same_day, margin: midnight_margin(settings).saturating_add(on_the_way) }
}

/// Margin around midnight: the time of a call, and the difference of clocks.
#[must_use]
pub fn midnight_margin(settings: &Settings) -> Millis {
    clock::millis(settings.lookup.timeout.saturating_add(CLOCK_ALLOWANCE))
}

/// Handler of `tweet:update` and the like.
pub type TweetUpdate = Refresher<PostJudge>;

#[derive(Debug, Clone, Default)]
pub struct PostJudge {
    pub weights: Weights,
    /// `None`: no accounts of posts are looked up.
    pub people: Option<PeopleReader>,
    /// `None`: no media of posts are fetched.
    pub media_reader: Option<MediaReader>,
    /// True if the lists of authors are collected.
    pub names_authors: bool,
    /// Reads accounts from a raw object; `None`: there is no community.
    pub communities: Option<fn(&str) -> Vec<Person>>,
}

#[derive(Debug, Clone)]
pub struct PeopleReader {
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
    fn mention_media(&self, tweet: &Tweet, is_first: bool, mentions: &mut Mentions) {
        for medium in (self.media)(&tweet.raw).into_iter().filter(|medium| self.kinds.contains(&medium.kind)) {
            let (id, author) = (medium.id.clone(), tweet.author_id.clone());
            mentions.add(Mention { is_first, ..Mention::new(id, Arrival::Medium { medium, author }) });
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
            tweet.created_at = tweet.created_at.filter(|made| is_possible_date(*made, at));
        }
        match self.media_reader.as_ref().and_then(|shown| shown.ingested) {
            Some(ingested) => add_ingested_media(ingested, store, namespace, found).await,
            None => Ok(()),
        }
    }

    fn needs_standing(&self, job: &Job, tweet: &Tweet) -> bool {
        tweet.created_at.is_none() || is_version(job, tweet)
    }

    fn judge_found(
        &self,
        job: &Job,
        tweet: &mut Tweet,
        standing: Option<&Standing>,
        known: Option<Millis>,
    ) -> JudgedItem {
        let created_at = match is_version(job, tweet) {
            // A later version has its own date; the post keeps its age.
            true => known.or(tweet.created_at),
            false => tweet.created_at.or(known),
        };
        JudgedItem { created_at, follow: follow_edits(tweet, standing) }
    }

    fn fan_out(&self, tweet: &Tweet, before: Option<&Standing>, mentions: &mut Mentions) {
        // If the post was blanked, the media and accounts that came from it were erased, too: they are recorded again.
        let is_first = !before.is_some_and(|known| known.was_found() && !known.is_blanked);
        if let Some(media_reader) = &self.media_reader {
            media_reader.mention_media(tweet, is_first, mentions);
        }
        if let (Some(author), true) = (&tweet.author_id, is_first) {
            if self.names_authors {
                let (from, arrival) = (tweet.id.clone(), Arrival::Author { posted_at: tweet.created_at });
                mentions.add(Mention { from, ..Mention::first(author, arrival) });
            }
            if let Some(people) = self.communities {
                let evidence = AccountEvidence::from_post(true, people(&tweet.raw));
                mentions.add(Mention::first(author, Arrival::Evidence(evidence)));
            }
        }
        let Some(PeopleReader { people, roles }) = &self.people else { return };
        for Person { id, role, object } in people(&tweet.raw).into_iter().filter(|person| roles.contains(&person.role))
        {
            let posted_at = (is_first && role == Role::Author).then_some(tweet.created_at).flatten();
            if is_first || object.is_some() {
                let (from, arrival) = (tweet.id.clone(), Arrival::Account { profile: object, posted_at });
                mentions.add(Mention { from, is_first, ..Mention::new(id, arrival) });
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

    async fn save(
        &self,
        store: &dyn Store,
        namespace: &str,
        answers: &[Observation],
    ) -> Result<SaveCounts, StoreError> {
        store.save(namespace, answers).await
    }
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

fn is_version(job: &Job, tweet: &Tweet) -> bool {
    tweet.id != job.id || !tweet.newer.is_empty()
}

/// Next version, to look up at once, so that the history has each. After a miss it is the newest one, and the jump is no change.
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
    use engine::base::clock::Millis;
    use engine::schedule::ScheduledItem;
    use engine::schedule::history::{Answer, History};

    #[test]
    fn the_schedule_is_that_of_the_settings() {
        let with = |variables: &[(&str, &str)]| {
            posts_pipeline(&Provider::Twitter).schedule(&Settings::load_with(&[], None, variables).unwrap())
        };
        let by_age = with(&[]);
        assert!(!by_age.needs_history());
        let adaptive = [("TWITTER_UPDATER__SCHEDULE", "adaptive"), ("TWITTER_UPDATER__ADAPTIVE__SLOWER", "2")];
        let adaptive = with(&adaptive);
        assert!(adaptive.needs_history());
        assert_eq!(adaptive.age_table(), by_age.age_table());
        let now = 1_700_000_000_000;
        let hours =
            |schedule: &dyn Schedule| schedule.longest_interval(&ScheduledItem::new("1", Some(now - 7_200_000)), now);
        assert_eq!((hours(&*by_age), hours(&*adaptive)), (Some(3_600_000), Some(7_200_000)));
        // A model file that disappeared after the check at the start stops nothing.
        let gone = [("TWITTER_UPDATER__SCHEDULE", "adaptive"), ("TWITTER_UPDATER__ADAPTIVE__MODEL_FILE", "/nowhere")];
        assert!(!with(&gone).needs_history());
    }

    fn longest_wait(provider: Provider, variables: &[(&str, &str)]) -> Millis {
        let settings = Settings::load_with(&[], None, variables).unwrap();
        let schedule = posts_pipeline(&provider).schedule(&settings);
        let made = 1_700_000_000_000;
        let (mut now, mut longest) = (made, 0);
        let mut history = History { created_at: Some(made), ..History::default() };
        let mut next = schedule.first(&ScheduledItem::new("1", Some(made)), now);
        while let Some((lane, delay)) = next {
            assert!(delay > 0 && delay <= lane.patience, "{delay} {lane:?}");
            (now, longest) = (now + delay, longest.max(delay));
            // A post without events.
            history = History { before: history.last, last: Some(Answer { at: now, count: 0.0 }), ..history };
            next = schedule.next(&ScheduledItem { history, ..ScheduledItem::new("1", Some(made)) }, now);
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
        let judge = PostJudge { names_authors: true, ..PostJudge::default() };
        let tweet = Tweet { id: "1".to_owned(), author_id: Some("7".to_owned()), ..Tweet::default() };
        let names = |lookups, is_blanked| {
            let mut mentions = Mentions::for_item("1", 5);
            judge.fan_out(&tweet, Some(&Standing { lookups, is_blanked, ..Standing::default() }), &mut mentions);
            format!("{mentions:?}").contains("Author")
        };
        assert_eq!([names(0, false), names(2, false), names(2, true)], [true, false, true]);
    }
}
