//! Rule of a community: judges the evidence about an account. Pure.
//!
//! Each test with a finding gives a number from -1 (does not belong) to 1 (belongs), with a weight. The score is the weighted sum divided
//! by the sum of weights, at least 1: a test that weighs less than the threshold never decides alone. An account is a member at a
//! score of the threshold or more, outside at −threshold or less, and open in between.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::{SHA256, digest};

use super::names::{InvalidNames, NameEvidence, PersonNames};
use crate::config::{BadConfig, CommunitySettings, Places};
use locate::language::{InvalidModel, Variants, Weight, detect};
use locate::place::{self, Gazetteer, InvalidLine, Place};
use networks::model::account::AccountState;
use networks::model::community::{Belonging, EvidenceItem};
use store::{AccountFacts, Decision, PostLanguage};

/// Share of posts in the community's language below which an account does not speak it.
const MIN_SPOKEN_SHARE: f64 = 0.25;
const MIN_CLEAR_SHARE: f64 = 0.5;
const MIN_DECIDED_FRIENDS: i64 = 5;
/// Raise it when the reading of texts changes: all accounts are then judged again.
const READING_VERSION: u8 = 3;
const VERSION_BYTES: usize = 6;
const MAX_FILE_BYTES: u64 = 50_000_000;
/// States of accounts that their networks no longer show.
const GONE_STATES: [&str; 3] = ["suspended", "deactivated", "deleted"];

#[derive(Debug, Clone)]
pub struct Rule {
    settings: CommunitySettings,
    variants: Option<Arc<Variants>>,
    /// `None`: only the compiled-in gazetteer.
    places: Option<Arc<Gazetteer>>,
    names: Option<Arc<PersonNames>>,
    version: String,
}

#[derive(Debug, Clone)]
pub struct Judgement {
    pub decision: Decision,
    pub languages: Vec<PostLanguage>,
    /// Its posts must be collected before it can be judged.
    pub wants_posts: bool,
}

/// Reason why the settings of a community give no rule.
#[derive(Debug, thiserror::Error)]
pub enum BadRule {
    #[error("{}: {error}", file.display())]
    File { file: PathBuf, error: BadFile },
    /// The compiled-in places.
    #[error(transparent)]
    Places(InvalidLine),
    #[error(
        "the model distinguishes {} and {} in {model_language}, not {variant:?} in {language:?}: set another variants_file \
         (docs/communities.md)",
        labels[0],
        labels[1]
    )]
    UnknownVariant { labels: [String; 2], model_language: String, variant: String, language: String },
    /// The settings in force lack the community.
    #[error(transparent)]
    Settings(#[from] BadConfig),
}

#[derive(Debug, thiserror::Error)]
pub enum BadFile {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    #[error(transparent)]
    Names(#[from] InvalidNames),
    #[error(transparent)]
    Places(InvalidLine),
    #[error(transparent)]
    Variants(#[from] InvalidModel),
}

impl BadFile {
    fn at(self, file: &Path) -> BadRule {
        BadRule::File { file: file.to_owned(), error: self }
    }
}

impl Rule {
    pub fn new(settings: &CommunitySettings) -> Result<Self, BadRule> {
        let variants = load_variants(settings)?;
        let mut digested = Vec::new();
        let CommunitySettings { country, language, variant, posts, threshold, .. } = settings;
        let CommunitySettings { place_weight, language_weight, friends_weight, .. } = settings;
        digested.extend(
            format!(
                "{country} {language} {variant} {posts} {threshold} {place_weight} {language_weight} {friends_weight}"
            )
            .into_bytes(),
        );
        if let Some(variants) = &variants {
            digested.extend(variants.to_text().into_bytes());
        }
        let places = load_gazetteer(settings)?;
        if let Some((_, text)) = &places {
            digested.extend(text.bytes());
        }
        let names = load_names(settings)?;
        if let Some((_, text)) = &names {
            digested.extend(format!("{} {text}", settings.names_weight).into_bytes());
        }
        digested.extend(env!("CARGO_PKG_VERSION").bytes());
        digested.push(READING_VERSION);
        let version =
            digest(&SHA256, &digested).as_ref().iter().take(VERSION_BYTES).map(|b| format!("{b:02x}")).collect();
        let (places, names) = (places.map(|(places, _)| places), names.map(|(names, _)| names));
        Ok(Self { settings: settings.clone(), variants, places, names, version })
    }

    /// Differs if the settings, the model or the program differ.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    #[must_use]
    pub fn settings(&self) -> &CommunitySettings {
        &self.settings
    }

    #[must_use]
    pub fn reads_posts(&self) -> bool {
        !self.settings.language.is_empty() && self.settings.language_weight > 0.0
    }

    /// Maximum posts read per account. More than needed, because reposts give no evidence.
    #[must_use]
    pub fn texts_per_account(&self) -> u32 {
        if self.reads_posts() { self.settings.posts.saturating_mul(2).clamp(60, 400) } else { 0 }
    }

    #[must_use]
    pub fn judge(&self, facts: &AccountFacts) -> Judgement {
        let languages = if self.reads_posts() { detect_languages(facts) } else { Vec::new() };
        let mut findings: Vec<EvidenceItem> = Vec::new();
        findings.extend(self.place_finding(facts));
        findings.extend(self.name_finding(facts));
        let enough = facts.texts.len() >= self.settings.posts as usize;
        if self.reads_posts() && enough {
            findings.extend(self.language_finding(facts, &languages));
        }
        findings.extend(self.friends_finding(facts));
        let weights: f64 = findings.iter().map(|of| of.weight).sum();
        let sum: f64 = findings.iter().map(|of| of.weight * of.says).sum();
        let score = (weights > 0.0).then(|| sum / weights.max(1.0));
        let threshold = self.settings.threshold;
        let is_gone =
            facts.profile.as_ref().is_some_and(|of| of.state.as_deref().is_some_and(|is| GONE_STATES.contains(&is)));
        let before = facts.state.unwrap_or(Belonging::Candidate);
        let wants_posts = self.reads_posts() && !enough && !self.has_no_readable_posts(facts);
        let state = match score {
            _ if self.settings.accepts_all() => Belonging::Member,
            // A gone account has no new evidence: only its network could give some.
            _ if is_gone && before.is_decided() => before,
            Some(score) if score >= threshold => Belonging::Member,
            Some(score) if score <= -threshold => Belonging::Outside,
            _ if facts.profile.is_none() || wants_posts => Belonging::Candidate,
            _ => Belonging::Open,
        };
        // A decided account keeps its state until there is enough evidence again.
        let state = if state == Belonging::Candidate && before.is_decided() { before } else { state };
        // A derived Serialize of texts and numbers cannot fail.
        let evidence = serde_json::to_string(&findings).unwrap_or_default();
        let (account, posts) = (facts.account.clone(), facts.posts);
        let decision = Decision { account, state, score, evidence, posts };
        Judgement { decision, languages, wants_posts: wants_posts && !state.is_decided() }
    }

    /// Returns true if only followers see its posts, or there are too few. `protected` on Mastodon hides nothing.
    fn has_no_readable_posts(&self, facts: &AccountFacts) -> bool {
        facts.profile.as_ref().is_some_and(|of| {
            let is_gone = of.state.as_deref().is_some_and(|state| GONE_STATES.contains(&state));
            is_gone
                || of.state.as_deref() == Some(AccountState::Protected.as_str())
                || of.posts.is_some_and(|posts| posts < i64::from(self.settings.posts))
        })
    }

    fn place_finding(&self, facts: &AccountFacts) -> Option<EvidenceItem> {
        let (country, weight) = (&self.settings.country, self.settings.place_weight);
        let location = facts.profile.as_ref()?.location.as_deref().filter(|text| !text.trim().is_empty())?;
        if country.is_empty() || weight <= 0.0 {
            return None;
        }
        let place = match &self.places {
            Some(own) => own.find_countries(location),
            None => Gazetteer::shipped().find_countries(location),
        };
        let strongest = place.countries.iter().map(|of| of.strength).fold(0.0, f64::max);
        // Hints beside an answer do not count.
        let least = strongest.min(Place::ENOUGH);
        let named: Vec<_> = place.countries.iter().filter(|of| of.strength >= least).collect();
        let said: Vec<String> = named.iter().map(|of| format!("{} ({})", of.country, of.said)).collect();
        let said = said.join(", ");
        let (says, weight, about) = match &named[..] {
            [] => return None,
            [only] if only.country == country => (only.strength, weight, format!("{location:?} names {said}")),
            [only] => (-only.strength, weight, format!("{location:?} names {said}")),
            _ => (0.0, 0.0, format!("{location:?} names several countries: {said}")),
        };
        Some(EvidenceItem { test: "place".to_owned(), says, weight, about })
    }

    fn name_finding(&self, facts: &AccountFacts) -> Option<EvidenceItem> {
        let weight = self.settings.names_weight;
        let shown = facts.profile.as_ref()?.name.as_deref().filter(|_| weight > 0.0)?;
        let NameEvidence { says, names } = self.names.as_ref()?.judge(shown, &self.settings.country)?;
        let is = if says > 0.0 { "common" } else { "not common" };
        let about = format!("{} in {shown:?}: {is} in {}", names.join(", "), self.settings.country);
        Some(EvidenceItem { test: "name".to_owned(), says, weight, about })
    }

    fn language_finding(&self, facts: &AccountFacts, languages: &[PostLanguage]) -> Option<EvidenceItem> {
        let (wanted, all) = (&self.settings.language, facts.texts.len());
        let clear = languages.len();
        if (clear as f64) < MIN_CLEAR_SHARE * all as f64 {
            return None;
        }
        let spoken: HashMap<&str, &PostLanguage> =
            languages.iter().filter(|of| of.language == wanted).map(|of| (of.id.as_str(), of)).collect();
        let share = spoken.len() as f64 / clear as f64;
        let finding = |says: f64, about: String| EvidenceItem {
            test: "language".to_owned(),
            says: says.clamp(-1.0, 1.0),
            weight: self.settings.language_weight,
            about,
        };
        let counted = format!("{} of {clear} posts with a clear language are in {wanted}", spoken.len());
        if share < MIN_SPOKEN_SHARE {
            return Some(finding(-1.0, counted));
        }
        let Some(variants) = &self.variants else { return Some(finding(2.0 * share - 1.0, counted)) };
        let texts = facts.texts.iter().filter(|text| spoken.contains_key(text.id.as_str()));
        let weights: Vec<Weight> = texts.map(|text| variants.weigh(&text.text)).collect();
        let verdict = variants.judge(weights.iter().copied());
        let towards_first = variants.labels()[0].eq_ignore_ascii_case(&self.settings.variant);
        let says = if towards_first { verdict.score } else { -verdict.score };
        let is = verdict.label.map_or("not sure", |label| variants.labels()[label]);
        Some(finding(says, format!("{counted}; their variant is {is} ({:+.2} for {})", says, self.settings.variant)))
    }

    fn friends_finding(&self, facts: &AccountFacts) -> Option<EvidenceItem> {
        let (members, outside) = facts.friends;
        let weight = self.settings.friends_weight;
        if members + outside < MIN_DECIDED_FRIENDS || weight <= 0.0 {
            return None;
        }
        let share = members as f64 / (members + outside) as f64;
        let about = format!("{members} of {} decided friends are members", members + outside);
        Some(EvidenceItem { test: "friends".to_owned(), says: 2.0 * share - 1.0, weight, about })
    }
}

fn detect_languages(facts: &AccountFacts) -> Vec<PostLanguage> {
    let of = facts.texts.iter().filter_map(|text| {
        let detected = detect(&text.text)?;
        Some(PostLanguage { id: text.id.clone(), language: detected.language, confidence: detected.confidence })
    });
    of.collect()
}

/// Gazetteer of a community, with its text; `None`: only the compiled-in one.
fn load_gazetteer(settings: &CommunitySettings) -> Result<Option<(Arc<Gazetteer>, String)>, BadRule> {
    let sources: Vec<Places> = settings.places().collect();
    if sources.is_empty() || sources == [Places::Shipped] {
        return Ok(None);
    }
    let text = |source: &Places| match source {
        Places::Shipped => Ok(place::SHIPPED.to_owned()),
        Places::File(file) => read_to_string(file, MAX_FILE_BYTES).map_err(|error| error.at(file)),
    };
    let texts: Vec<String> = sources.iter().map(text).collect::<Result<_, _>>()?;
    let read = Gazetteer::read(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let gazetteer = read.map_err(|(nth, why)| match &sources[nth] {
        Places::File(file) => BadFile::Places(why).at(file),
        Places::Shipped => BadRule::Places(why),
    })?;
    Ok(Some((Arc::new(gazetteer), texts.concat())))
}

fn load_names(settings: &CommunitySettings) -> Result<Option<(Arc<PersonNames>, String)>, BadRule> {
    let file = &settings.names_file;
    if file == Path::new("") {
        return Ok(None);
    }
    let text = read_to_string(file, MAX_FILE_BYTES);
    let names = text.and_then(|text| Ok((Arc::new(PersonNames::parse(&text)?), text)));
    names.map(Some).map_err(|error| error.at(file))
}

fn read_to_string(file: &Path, max_bytes: u64) -> Result<String, BadFile> {
    let mut text = String::new();
    let read = File::open(file)?.take(max_bytes + 1).read_to_string(&mut text)?;
    if read as u64 > max_bytes { Err(BadFile::TooLarge(max_bytes)) } else { Ok(text) }
}

fn load_variants(settings: &CommunitySettings) -> Result<Option<Arc<Variants>>, BadRule> {
    if settings.variant.is_empty() {
        return Ok(None);
    }
    let variants = if settings.variants_file == Path::new("") {
        Variants::shipped().clone()
    } else {
        let file = &settings.variants_file;
        let text = read_to_string(file, MAX_FILE_BYTES).map_err(|error| error.at(file))?;
        Variants::parse(&text).map_err(|why| BadFile::Variants(why).at(file))?
    };
    let labels = variants.labels();
    if variants.language() != settings.language
        || !labels.iter().any(|label| label.eq_ignore_ascii_case(&settings.variant))
    {
        return Err(BadRule::UnknownVariant {
            labels: labels.map(str::to_owned),
            model_language: variants.language().to_owned(),
            variant: settings.variant.clone(),
            language: settings.language.clone(),
        });
    }
    Ok(Some(Arc::new(variants)))
}
