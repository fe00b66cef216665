//! The countries that location texts name.

use std::collections::BTreeMap;

use proptest::prelude::*;
use twitter_updater::locate::place::{Gazetteer, Place};

fn judge(text: &str) -> Place {
    Gazetteer::shipped().find_countries(text)
}

/// The countries that are named with enough strength, by name.
fn countries(place: &Place) -> Vec<&'static str> {
    let mut countries: Vec<&str> =
        place.countries.iter().filter(|named| named.strength >= Place::ENOUGH).map(|named| named.country).collect();
    countries.sort_unstable();
    countries
}

#[test]
fn texts_name_their_countries() {
    for (text, expected) in [
        ("Lisboa, Portugal", &["PT"][..]),
        ("lisboa", &["PT"]),
        ("Portugal, Lisbon", &["PT"]),
        ("Margem Sul", &["PT"]),
        ("Porto Alegre, RS", &["BR"]),
        ("Porto Feliz - SP", &["BR"]),
        ("Natal/RN", &["BR"]),
        ("Lagos, Portugal", &["PT"]),
        ("Lagos", &[]),
        ("Paris", &["FR"]),
        ("Paris, Texas", &["US"]),
        ("Moscow, ID", &["US"]),
        ("Berlin, DE", &["DE"]),
        ("Newark, DE", &["US"]),
        ("London, Ontario", &["CA"]),
        ("Georgia", &[]),
        ("Georgia, USA", &["US"]),
        ("Tbilisi, Georgia", &["GE"]),
        ("harrisburg, pa", &["US"]),
        // Contradictions stay open.
        ("Porto / São Paulo", &["BR", "PT"]),
        ("Lisboa, Portugal (from Guinea-Bissau)", &["GW", "PT"]),
        ("New York / Lisbon / Paris", &["FR", "PT", "US"]),
        ("Sweden & Portugal", &["PT", "SE"]),
        // Cities with namesakes in the United States do not make each other American, whatever stands between them.
        ("Paris & London", &["FR", "GB"]),
        ("Paris&London", &["FR", "GB"]),
        ("Moscow / Paris", &["FR", "RU"]),
        ("Moscow/Paris", &["FR", "RU"]),
        ("Rome & Athens", &["GR", "IT"]),
        ("London | Paris", &["FR", "GB"]),
        ("Rome + Berlin", &["DE", "IT"]),
        ("London → Athens", &["GB", "GR"]),
        ("London, Paris", &["FR", "GB"]),
        ("Paris and London", &["FR", "GB"]),
        ("Rome / Paris / London", &["FR", "GB", "IT"]),
        ("London / Los Angeles", &["GB", "US"]),
        ("Athens", &["GR"]),
        ("Athens, Georgia", &["US"]),
        ("Rome, GA", &["US"]),
        ("Rome & Georgia", &["IT"]),
        ("Naples + Venice", &["IT"]),
        // In a list a region holds no city before it; otherwise it does.
        ("Athens & Texas", &["GR", "US"]),
        ("London → Ontario", &["CA", "GB"]),
        ("Paris + Texas", &["FR", "US"]),
        ("Paris / Texas", &["US"]),
        ("London | Ontario", &["CA"]),
        ("Birmingham & Manchester", &["GB"]),
        // Flags, other scripts, right to left.
        ("🇵🇹", &["PT"]),
        ("🇧🇷✈️🇵🇹", &["BR", "PT"]),
        ("🏴󠁧󠁢󠁳󠁣󠁴󠁿", &["GB"]),
        ("🇵", &[]),
        ("القاهرة، مصر", &["EG"]),
        ("תל אביב", &["IL"]),
        ("東京都渋谷区", &["JP"]),
        ("Санкт-Петербург", &["RU"]),
        // Neither.
        ("", &[]),
        ("Somewhere over the rainbow", &[]),
        ("mit dem Rad unterwegs", &[]),
        ("join us in la, ok", &[]),
        ("I LIVE IN LA, OK?", &[]),
        ("no mundo da lua", &[]),
        ("she/her", &[]),
        ("\0\0Lisboa\0", &["PT"]),
    ] {
        assert_eq!(countries(&judge(text)), expected, "{text:?}: {:?}", judge(text));
    }
}

#[test]
fn each_country_is_told_with_what_said_so() {
    let place = judge("vivo em Coimbra 🇵🇹 e no Rio de Janeiro");
    let told: Vec<(&str, &str)> = place.countries.iter().map(|named| (named.country, named.said.as_str())).collect();
    assert_eq!(told, [("PT", "🇵🇹"), ("BR", "Rio de Janeiro")]);
    assert_eq!(place.single_country(), None);
    assert_eq!(judge("Évora").single_country().map(|named| (named.country, &*named.said)), Some(("PT", "Évora")));
    // Below enough, a hint: both are told.
    let hints: Vec<&str> = judge("Santiago").countries.iter().map(|named| named.country).collect();
    assert_eq!((hints, judge("Santiago").single_country()), (vec!["CL", "ES"], None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_has_an_answer(
        parts in prop::collection::vec(
            prop_oneof![any::<String>(), "(Lisboa|Porto|PT|🇵🇹|🇵|🏴|, |/| - |São|Paulo|ca|\u{0}|\u{301}|東京)"],
            0..12,
        ),
    ) {
        let text = parts.concat();
        let place = judge(&text);
        let mut seen = std::collections::BTreeSet::new();
        for named in &place.countries {
            prop_assert!(text.contains(&named.said) && !named.said.is_empty());
            prop_assert!((0.0..=1.0).contains(&named.strength));
            prop_assert!(seen.insert(named.country), "{:?}", place);
        }
    }
}

#[test]
fn ten_thousand_characters_are_judged_like_ten() {
    let long = "Lisboa, ".repeat(1_250);
    assert_eq!(countries(&judge(&long)), ["PT"]);
    assert_eq!(countries(&judge(&"🇵".repeat(10_001))), ["PP"; 0]);
    assert_eq!(judge(&"a".repeat(10_000)), Place::default());
}

/// Texts of one country, how many were told to be in one, and how many of those rightly.
#[derive(Debug, Default)]
struct Counted {
    texts: usize,
    told: usize,
    right: usize,
}

/// The hand-labelled file: in both halves, what is told of one country is right, and most are told.
#[test]
fn labelled_locations_are_told_as_by_hand() {
    let mut counted: BTreeMap<(&str, &str), Counted> = BTreeMap::new();
    let mut texts = 0;
    let (mut contradictions, mut left_open, mut nothing, mut no_place) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for line in include_str!("places.tsv").lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, half, label, text] = columns[..] else { panic!("{line}") };
        texts += 1;
        let place = judge(&text.replace("\\n", "\n"));
        let only = place.single_country().map(|named| named.country);
        let told_wrong = || format!("{text:?} is {label}, not {only:?}");
        match label {
            "?" => continue,
            "several" => {
                contradictions += 1;
                left_open += usize::from(countries(&place).len() > 1);
                wrong.extend(only.map(|_| told_wrong()));
            }
            "none" => {
                no_place += 1;
                nothing += usize::from(countries(&place).is_empty());
                wrong.extend(only.map(|_| told_wrong()));
            }
            country => {
                let group = if matches!(country, "PT" | "BR") { country } else { "others" };
                let count = counted.entry((half, group)).or_default();
                count.texts += 1;
                count.told += usize::from(only.is_some());
                count.right += usize::from(only == Some(country));
                wrong.extend(only.filter(|only| *only != country).map(|_| told_wrong()));
            }
        }
    }
    println!(
        "{texts} texts: {counted:#?}; {left_open} of {contradictions} contradictions open, {nothing} of {no_place} without place; {wrong:#?}"
    );
    assert!(texts >= 300);
    let told: usize = counted.values().map(|count| count.told).sum();
    assert!(wrong.len() * 100 <= told, "{wrong:?}");
    for (of, count) in &counted {
        assert!(count.told * 100 >= count.texts * 85 && count.right * 100 >= count.told * 98, "{of:?}: {count:?}");
    }
    assert!(left_open * 10 >= contradictions * 8 && nothing * 100 >= no_place * 97);
}
