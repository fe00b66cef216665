//! The rule of a community: what each test says, and what follows from all of them.

use std::path::Path;

use twitter_updater::config::{CommunitySettings, Settings};
use twitter_updater::locate::place::{Gazetteer, SHIPPED};
use twitter_updater::model::community::{Belonging, EvidenceItem};
use twitter_updater::pipelines::community::rule::{Judgement, Rule};
use twitter_updater::store::{AccountFacts, PostText, ProfileFacts};

const PORTUGAL: &str = "Estou à espera do autocarro, o comboio já passou e deixei o telemóvel em casa da minha mãe";
const BRAZIL: &str = "Tô esperando o ônibus, o trem já passou e deixei o celular na casa da minha mãe, você acredita";
const ENGLISH: &str = "Waiting for the bus again, the train has left already and my phone is at my mother's house";

fn settings() -> CommunitySettings {
    CommunitySettings {
        country: "PT".into(),
        language: "pt".into(),
        variant: "pt-PT".into(),
        ..CommunitySettings::default()
    }
}

fn facts(location: Option<&str>, texts: &[(&str, usize)]) -> AccountFacts {
    let repeated = texts.iter().flat_map(|(text, times)| std::iter::repeat_n(*text, *times));
    let texts = repeated.enumerate().map(|(at, text)| PostText {
        account: "1".into(),
        id: at.to_string(),
        text: text.to_owned(),
    });
    AccountFacts {
        account: "1".into(),
        state: Some(Belonging::Candidate),
        profile: location.map(|location| ProfileFacts {
            account: "1".into(),
            state: Some("live".into()),
            location: Some(location.to_owned()),
            posts: Some(500),
            ..ProfileFacts::default()
        }),
        texts: texts.collect(),
        ..AccountFacts::default()
    }
}

fn judge(facts: &AccountFacts) -> Judgement {
    Rule::new(&settings()).unwrap().judge(facts)
}

fn state(facts: &AccountFacts) -> Belonging {
    judge(facts).decision.state
}

fn tests(judgement: &Judgement) -> Vec<String> {
    let findings: Vec<EvidenceItem> = serde_json::from_str(&judgement.decision.evidence).unwrap();
    findings.into_iter().map(|of| of.test).collect()
}

#[test]
fn a_place_decides_and_a_place_of_several_countries_does_not() {
    assert_eq!(state(&facts(Some("Lisboa, Portugal"), &[])), Belonging::Member);
    assert_eq!(state(&facts(Some("São Paulo, Brasil"), &[])), Belonging::Outside);
    for open in ["Porto / São Paulo", "somewhere", ""] {
        let judged = judge(&facts(Some(open), &[]));
        assert_eq!((judged.decision.state, judged.wants_posts), (Belonging::Candidate, true), "{open}");
    }
    let unknown = judge(&facts(None, &[]));
    assert_eq!((unknown.decision.state, unknown.decision.score), (Belonging::Candidate, None));
}

#[test]
fn thirty_posts_tell_the_variant_and_fewer_say_nothing() {
    assert_eq!(state(&facts(Some(""), &[(PORTUGAL, 30)])), Belonging::Member);
    assert_eq!(state(&facts(Some(""), &[(BRAZIL, 30)])), Belonging::Outside);
    assert_eq!(state(&facts(Some(""), &[(ENGLISH, 30)])), Belonging::Outside);
    let few = judge(&facts(Some(""), &[(PORTUGAL, 29)]));
    assert_eq!((few.decision.state, few.wants_posts, tests(&few)), (Belonging::Candidate, true, Vec::new()));
    // Half of it in another language is somebody who speaks both.
    let both = judge(&facts(Some(""), &[(PORTUGAL, 16), (ENGLISH, 16)]));
    assert_eq!(both.decision.state, Belonging::Member);
    assert!(both.languages.iter().any(|of| of.language == "en"));
}

#[test]
fn contradictions_stay_open_and_say_so() {
    let judged = judge(&facts(Some("Lisboa, Portugal"), &[(BRAZIL, 30)]));
    assert_eq!((judged.decision.state, judged.wants_posts), (Belonging::Open, false));
    assert_eq!(tests(&judged), ["place", "language"]);
    assert!(judged.decision.score.unwrap().abs() < 0.5);
}

#[test]
fn decided_friends_count_where_there_are_enough() {
    let with = |friends| judge(&AccountFacts { friends, ..facts(Some(""), &[]) });
    assert_eq!(tests(&with((4, 0))), Vec::<String>::new());
    let judged = with((9, 1));
    assert_eq!((tests(&judged), judged.decision.state), (vec!["friends".to_owned()], Belonging::Candidate));
    assert_eq!(judged.decision.score, Some(0.4), "a weight below 1 decides nothing alone");
}

#[test]
fn who_cannot_be_read_is_open_and_who_is_gone_stays_what_it_was() {
    let mut silent = facts(Some(""), &[(PORTUGAL, 3)]);
    if let Some(profile) = &mut silent.profile {
        profile.state = Some("protected".into());
    }
    assert_eq!(state(&silent), Belonging::Open);
    if let Some(profile) = &mut silent.profile {
        // On Mastodon: it approves its followers, and everybody reads its posts.
        (profile.state, profile.protected) = (Some("live".into()), Some(true));
    }
    assert_eq!(state(&silent), Belonging::Candidate);
    let mut gone = facts(Some("São Paulo"), &[]);
    gone.state = Some(Belonging::Member);
    if let Some(profile) = &mut gone.profile {
        profile.state = Some("suspended".into());
    }
    assert_eq!(state(&gone), Belonging::Member);
}

#[test]
fn a_community_without_tests_takes_all_and_versions_differ() {
    let all = Rule::new(&CommunitySettings::default()).unwrap();
    assert_eq!(all.judge(&facts(Some("anywhere"), &[])).decision.state, Belonging::Member);
    assert_eq!(all.texts_per_account(), 0, "no post is read: no rule judges by posts");
    let version = |settings: &CommunitySettings| Rule::new(settings).unwrap().version().to_owned();
    assert_eq!(version(&settings()), version(&settings()));
    assert_ne!(version(&settings()), version(&CommunitySettings { threshold: 0.6, ..settings() }));
    // What is collected is no part of the rule.
    assert_eq!(version(&settings()), version(&CommunitySettings { followers: true, ..settings() }));
    let wrong = Rule::new(&CommunitySettings { variant: "pt-AO".into(), ..settings() }).unwrap_err().to_string();
    assert!(wrong.contains("pt-AO") && !wrong.contains('\n'), "{wrong}");
    let missing = CommunitySettings { variants_file: "/nowhere.variants".into(), ..settings() };
    assert!(Rule::new(&missing).unwrap_err().to_string().starts_with("/nowhere.variants: "));
}

#[test]
fn a_file_of_a_rule_has_a_largest_size() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("huge");
    std::fs::File::create(&file).unwrap().set_len(50_000_001).unwrap();
    let name = file.to_str().unwrap();
    for settings in [
        CommunitySettings { variants_file: file.clone(), ..settings() },
        CommunitySettings { names_file: file.clone(), ..settings() },
        CommunitySettings { places_files: name.into(), ..settings() },
    ] {
        assert_eq!(Rule::new(&settings).unwrap_err().to_string(), format!("{name}: it is larger than 50000000 bytes"));
    }
}

#[test]
fn a_communitys_own_places_are_added_or_stand_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("places.tsv");
    let own = "\u{feff}# ours\n\ncity\tPT\tterra do nunca|Nárnia\ntown\tBR\tlagos\ncode\tPT\tTN\n";
    std::fs::write(&file, own).unwrap();
    let with = |files: &str| CommunitySettings { places_files: files.into(), ..settings() };
    let rule = |files: String| Rule::new(&with(&files));
    let path = file.display();
    let (shipped, both, alone) =
        (rule("shipped".into()).unwrap(), rule(format!("shipped, {path}")).unwrap(), rule(path.to_string()).unwrap());
    let says = |rule: &Rule, location: &str| {
        let judged = rule.judge(&facts(Some(location), &[])).decision;
        let findings: Vec<EvidenceItem> = serde_json::from_str(&judged.evidence).unwrap();
        findings.iter().find(|finding| finding.test == "place").map(|finding| finding.says)
    };
    for (location, expected) in [
        ("na Narnia", [None, Some(0.8), Some(0.8)]),
        ("Lisboa", [Some(0.8), Some(0.8), None]),
        ("Terra do Nunca, TN", [Some(-0.5), Some(0.8), Some(0.8)]),
        // It is known in Portugal and in Nigeria, and by now in Brazil.
        ("Lagos, PT", [Some(0.8), Some(0.8), Some(0.7)]),
        ("Lagos, Brasil", [Some(-1.0), Some(-1.0), Some(-0.3)]),
    ] {
        assert_eq!([&shipped, &both, &alone].map(|rule| says(rule, location)), expected, "{location}");
    }
    // Another file is another rule.
    assert!(shipped.version() != both.version() && both.version() != alone.version());
    assert_eq!(shipped.version(), Rule::new(&settings()).unwrap().version());
    std::fs::write(&file, format!("{own}city\tPT\tx-town\n")).unwrap();
    assert_ne!(rule(path.to_string()).unwrap().version(), alone.version());
    for (line, why) in [
        ("village\tPT\tx", "\"village\" is none of country, region, part, code, city, town"),
        ("city\tPortugal\tx", "\"Portugal\" is no country"),
        ("city\tpt\tx", "\"pt\" is no country"),
        ("city PT x", "three columns are needed, with tabs between them"),
        ("city\tPT\tx||y", "\"\" is no name"),
    ] {
        std::fs::write(&file, format!("# ours\n{line}\n")).unwrap();
        let error = rule(format!("shipped, {path}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: line 2: {why}")) && !error.contains('\n'), "{error}");
    }
    assert!(rule("/nowhere.tsv".into()).unwrap_err().to_string().starts_with("/nowhere.tsv: "));
}

#[test]
fn names_are_evidence_that_never_decides_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.tsv");
    std::fs::write(&file, "# ours\nPT\tjoão|Inês|gonçalo|pereira\nBR\tjoão|thiago|pereira\nGB\tjohn|smith\n").unwrap();
    let settings = CommunitySettings { names_file: file.clone(), ..settings() };
    let rule = Rule::new(&settings).unwrap();
    let named = |name: &str, location: Option<&str>| {
        let mut facts = facts(location.or(Some("")), &[]);
        facts.profile.as_mut().unwrap().name = Some(name.to_owned());
        rule.judge(&facts).decision
    };
    for (name, expected) in [
        ("Gonçalo Pereira", Some(1.0)),
        ("JOAO PEREIRA", Some(0.5)),
        ("Inês \u{1f33b} de Sousa", Some(1.0)),
        ("John Smith", Some(-1.0)),
        ("Thiago", Some(-1.0)),
        ("João Smith", None),
        ("Joãozinho", None),
        ("", None),
    ] {
        let decision = named(name, None);
        let findings: Vec<EvidenceItem> = serde_json::from_str(&decision.evidence).unwrap();
        assert_eq!(findings.iter().map(|of| of.says).next(), expected, "{name}: {findings:?}");
        assert!(findings.iter().all(|of| of.test == "name" && of.weight == 0.25));
        assert!(!decision.state.is_decided(), "{name}");
    }
    // Beside a place it counts with its weight.
    let score = |name: &str| named(name, Some("Lisboa, Portugal")).score.unwrap();
    assert!((score("Inês") - 1.0).abs() < 1e-9 && (score("Smith") - 0.75 / 1.25).abs() < 1e-9);
    // Without a file they say nothing, and another file is another rule.
    let plain = Rule::new(&CommunitySettings { names_file: "".into(), ..settings.clone() }).unwrap();
    assert_ne!(plain.version(), rule.version());
    for (line, why) in [
        ("pt\tjoão", "\"pt\" is no country"),
        ("PT joão", "two columns are needed, with a tab between them"),
        ("PT\tjoão pedro", "\"joão pedro\" is not one word"),
        ("PT\tjoão||inês", "\"\" is not one word"),
    ] {
        std::fs::write(&file, format!("{line}\n")).unwrap();
        let error = Rule::new(&settings).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: line 1: {why}", file.display())), "{error}");
    }
}

#[test]
fn the_shipped_places_are_entries() {
    assert!(Gazetteer::read(&[SHIPPED]).is_ok());
}

#[test]
fn wrong_settings_are_told_by_name() {
    let load = |text: &str| Settings::load_text(Path::new("a.toml"), text, &[]);
    let good =
        "[accounts]\ncollect = true\n[visits]\ncollect = true\n[communities.pt]\ncountry = \"PT\"\nlanguage = \"pt\"\n";
    assert_eq!(load(good).unwrap().communities["pt"].country, "PT");
    for (bad, says) in [
        ("country = \"Portugal\"", "communities.pt.country: \"Portugal\" is not a country code"),
        ("language = \"por\"", "communities.pt.language"),
        ("seeds = \"@ann\"", "@ann is a handle"),
        ("variant = \"pt-PT\"", "set communities.pt.language, too"),
        ("country = \"PT\"\nplaces_files = \"\"", "communities.pt.places_files: it is empty"),
        ("names_file = \"names.tsv\"", "set communities.pt.country, too"),
        ("names_weight = -1.0", "communities.pt.names_weight: -1 is out of bounds"),
        ("threshold = 2.0", "communities.pt.threshold: 2 is out of bounds"),
        ("from_searches = \"none\"", "there is no [poll.sources.none]"),
        ("followers = true", "add followers to relations.collect"),
        ("from_posts = \"author\"", "communities.pt.from_posts: \"author\" is unknown"),
        ("nonsense = 1", "nonsense"),
        ("posts = -1", "posts"),
    ] {
        let text = format!("[accounts]\ncollect = true\n[visits]\ncollect = true\n[communities.pt]\n{bad}\n");
        let why = load(&text).unwrap_err().to_string();
        assert!(why.contains(says) && !why.contains('\n'), "{bad}: {why}");
    }
    let why = load("[communities.pt]\n").unwrap_err().to_string();
    assert!(why.contains("accounts.collect = true") && why.contains("visits.collect = true"), "{why}");
}
