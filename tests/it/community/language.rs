//! The language of posts: cutting, detecting, variants, and the commands for them.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use twitter_updater::locate::language::evaluate::{EvaluationSettings, evaluate};
use twitter_updater::locate::language::labelled::{LabelledText, read};
use twitter_updater::locate::language::train::Training;
use twitter_updater::locate::language::{Variants, Weight, clean_text, detect};

/// A file of `../shared/datasets`; `None`, with a line that says so, where it is not there.
fn dataset(file: &str) -> Option<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/datasets");
    let folder = std::env::var_os("TWITTER_UPDATER_DATASETS").map_or(folder, PathBuf::from);
    match std::fs::read(folder.join(file)) {
        Ok(bytes) => Some(bytes),
        Err(_) => {
            println!("skipped: no {file} in {} (set TWITTER_UPDATER_DATASETS)", folder.display());
            None
        }
    }
}

fn texts(file: &[u8]) -> Vec<LabelledText> {
    read(file, |line, why| panic!("line {line} {why}"))
}

#[test]
fn cut_leaves_the_words() {
    for (text, cut_text) in [
        ("RT @ana: Olá  mundo https://t.co/abc #bomdia", "Olá mundo"),
        ("rt @ana olá", "olá"),
        ("@a @b@server.example está bem? (http://x.pt/a) sim", "está bem? ( sim"),
        ("vê bit.ly/3xYz e www.rtp.pt já", "vê e já"),
        ("e/ou, 1.5/2, p/ ti, S.Paulo/RJ", "e/ou, 1.5/2, p/ ti, S.Paulo/RJ"),
        ("fala com ana@sapo.pt &amp; rui", "fala com ana rui"),
        ("# @ # C# é bom", "# @ # C# é bom"),
        ("＠ana ＃tag 日本", "日本"),
        ("#नमस्ते ok", "ok"),
        ("ARTE RT", "ARTE RT"),
        // As Mastodon writes posts.
        (
            "<p>Obrigado, até amanhã!<br />Já d&#39;ouro</p><p>vê <a href=\"https://x.pt/a/b\" target=\"_blank\" rel=\"nofollow \
             noopener\" translate=\"no\"><span class=\"invisible\">https://www.</span><span class=\"ellipsis\">x.pt/a</span>\
             <span class=\"invisible\">/b</span></a> <a href=\"https://s.example/tags/lisboa\" class=\"mention hashtag\" \
             rel=\"tag\">#<span>lisboa</span></a> <span class=\"h-card\"><a href=\"https://s.example/@ana\" class=\"u-url \
             mention\">@<span>ana</span></a></span> mu<em>ito</em></p>",
            "Obrigado, até amanhã! Já d'ouro vê muito",
        ),
        ("eu <3 isto, 1 < 2 > 0 </", "eu <3 isto, 1 < 2 > 0 </"),
        ("", ""),
    ] {
        assert_eq!(clean_text(text), cut_text, "{text:?}");
    }
}

/// Where a URL, a mention or a tag is left.
fn left(cut: &str) -> Option<&'static str> {
    let follows = |sign: [char; 2]| {
        let mut letters = cut.chars().peekable();
        while let Some(letter) = letters.next() {
            if sign.contains(&letter) && letters.peek().is_some_and(|next| next.is_alphanumeric() || *next == '_') {
                return true;
            }
        }
        false
    };
    let lower = cut.to_ascii_lowercase();
    if ["http://", "https://", "www."].iter().any(|scheme| lower.contains(scheme)) {
        return Some("a URL");
    }
    if follows(['@', '＠']) {
        return Some("a mention");
    }
    follows(['#', '＃']).then_some("a tag")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_cut_detected_and_weighed(
        parts in prop::collection::vec(
            prop_oneof![
                any::<String>(),
                "(@|#|＠|＃|http://|HTTPS://|www\\.|RT @|&amp;|t\\.co/|<p>|</a>|<a href=|<|>|&#39;|&quot;|&lt;)",
                "[ \u{0}\u{301}\u{200d}kà-ü.:/-]{0,6}",
            ],
            0..12,
        ),
    ) {
        let text = parts.concat();
        let cut_text = clean_text(&text);
        prop_assert_eq!(left(&cut_text), None, "{:?} of {:?}", cut_text, text);
        prop_assert_eq!(clean_text(&cut_text), cut_text.clone(), "cutting twice is cutting once");
        if let Some(found) = detect(&text) {
            prop_assert!(found.language.len() == 2 && (0.0..=1.0).contains(&found.confidence));
        }
        let weight = Variants::shipped().weigh(&text);
        prop_assert!(weight.log_odds.is_finite());
        prop_assert_eq!(weight, Variants::shipped().weigh(&cut_text));
    }
}

#[test]
fn languages_are_told_and_little_text_is_not() {
    for (text, language) in [
        ("O governo aprovou hoje as medidas que tinha anunciado @ana", Some("pt")),
        ("The minister said that nothing of the kind had been decided", Some("en")),
        ("El ministro dijo que no se había decidido nada todavía", Some("es")),
        ("今日はとても良い天気ですね", Some("ja")),
        ("Η κυβέρνηση ανακοίνωσε σήμερα νέα μέτρα", Some("el")),
        ("הממשלה הודיעה היום על צעדים חדשים", Some("he")),
        ("Уряд сьогодні оголосив нові заходи", None),
        ("دولت امروز اقدامات جدیدی را پذیرفت", None),
        ("ok lol", None),
        ("kkkkkkkk hahahaha rsrsrs", None),
        ("kkkkkkkk não acredito que ele disse isso", Some("pt")),
        ("https://t.co/abcdefghij @somebody_else #portugal", None),
        ("😀😀😀😀😀😀😀😀😀😀", None),
    ] {
        assert_eq!(detect(text).map(|found| found.language), language, "{text}");
    }
    let (short, long) = ("que bom dia", "que bom dia para todos os que ainda não acordaram, e que ninguém se esqueça");
    assert!(detect(short).unwrap().confidence < detect(long).unwrap().confidence);
}

/// What issue and paper ask for: of thirty sentences each, at a precision of 0.974 a recall of 0.95 and more.
#[test]
fn thirty_sentences_of_portugal_are_told_from_brazil() {
    let Some(file) = dataset("dsl_tl_pt/PT_dev.tsv") else { return };
    let texts = texts(&file);
    let of =
        |group: usize| evaluate(Variants::shipped(), &texts, EvaluationSettings { group, resamples: 1_000, seed: 1 });
    for group in [1, 5, 30] {
        let figures = of(group);
        println!("{group} sentences: {figures:#?}");
        let portugal = &figures[0];
        assert_eq!((portugal.label.as_str(), figures[1].label.as_str()), ("PT-PT", "PT-BR"));
        if group == 30 {
            assert!(portugal.precision.unwrap() >= 0.974, "{portugal:?}");
            assert!(portugal.recall.unwrap() >= 0.95, "{portugal:?}");
            let [from, _] = portugal.recall_interval.unwrap();
            assert!(from >= 0.9, "{portugal:?}");
        } else {
            // Few sentences are left open rather than told wrongly.
            assert!(figures.iter().take(2).all(|of| of.called[2] > 300), "{figures:?}");
        }
    }
}

#[test]
fn the_shipped_model_is_what_the_command_counts() {
    let Some(file) = dataset("bosque_pt/sentences.tsv") else { return };
    let shipped = Variants::shipped();
    let head = shipped.header().clone();
    let training = Training {
        language: head.language,
        labels: head.labels,
        source: head.source,
        licence: head.licence,
        markers: shipped.markers().to_vec(),
    };
    let counted = Variants::train(texts(&file).into_iter(), &training).unwrap();
    assert!(counted.to_text() == shipped.to_text(), "counted anew, the model differs");
    assert!(shipped.to_text().contains("CC BY-SA 4.0"));
    assert!(shipped.to_text().len() < 300_000);
}

#[test]
fn a_model_is_the_same_after_writing_and_reading() {
    let text = Variants::shipped().to_text();
    assert_eq!(Variants::parse(&text).unwrap().to_text(), text);
    // Letters of a tiny model of another language, without markers.
    let one = |label: &str, at: usize| LabelledText {
        text: format!("{} number {at} of many", if label == "en-GB" { "the colour grey" } else { "the color gray" }),
        label: label.to_owned(),
    };
    let texts = (0..200).map(|at| one(["en-GB", "en-US"][at % 2], at));
    let training = Training {
        language: "en".into(),
        labels: ["en-GB".into(), "en-US".into()],
        source: "two words".into(),
        licence: "none".into(),
        markers: Vec::new(),
    };
    let model = Variants::train(texts, &training).unwrap();
    let again = Variants::parse(&model.to_text()).unwrap();
    for (text, first) in [("what a grey colour this is", true), ("what a gray color this is", false)] {
        let weight = again.weigh(text);
        assert_eq!(weight, model.weigh(text));
        assert_eq!(weight.log_odds > 0.0, first, "{weight:?}");
    }
    let few = Variants::train(std::iter::once(one("en-GB", 0)), &training).unwrap_err().to_string();
    assert_eq!(few, "has 1 texts labelled en-GB; a model needs at least 100 of each label");
}

#[test]
fn a_bad_model_is_told_in_one_line() {
    let good =
        "twitter-updater variants 1\nlanguage\tpt\nlabels\ta\tb\nsource\ts\nlicence\tl\nscale\t1\nsure\t2\n10\tab\n";
    Variants::parse(good).unwrap();
    for (from, to, told) in [
        ("twitter-updater variants 1\n", "", "is no model of variants"),
        ("language\tpt\n", "", "has no language"),
        ("labels\ta\tb", "labels\ta", "labels must be two different names"),
        ("labels\ta\tb", "labels\ta\ta", "labels must be two different names"),
        ("scale\t1", "scale\tNaN", "scale must be above 0"),
        ("sure\t2", "sure\t-2", "sure must be above 0"),
        ("source\ts", "source\ts\nsource\tt", "line 5: source occurs twice"),
        ("10\tab\n", "", "has no n-gram"),
        ("10\tab", "10\ta", "line 8: an n-gram must have 2 to 6 letters, not 1"),
        ("10\tab", "10", "line 8: has no tab"),
        ("10\tab", "what\tab", "line 8: \"what\" is unknown"),
        ("10\tab", "marker\t2\t1\tkkk\n10\tab", "line 8: a marker's label must be 0 or 1"),
        ("10\tab", "marker\t1\tinf\tkkk\n10\tab", "line 8: a marker's weight must be above 0"),
    ] {
        let why = Variants::parse(&good.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(why.starts_with(told) && !why.contains('\n'), "{why}");
    }
}

#[test]
fn a_person_is_judged_by_many_posts() {
    let model = Variants::shipped();
    let judge = |posts: &[&str]| model.judge(posts.iter().map(|post| model.weigh(post)));
    let portugal = [
        "se calhar vou de autocarro, o comboio está atrasado",
        "estou a ver o jogo, que golo da nossa equipa!",
        "tou farto disto, o gajo nunca atende o telemóvel",
        "bora jantar connosco, pá",
    ];
    let brazil = [
        "kkkkkkk vc viu isso? tá rindo até agora",
        "o ônibus atrasou de novo, estou esperando faz uma hora",
        "que gol da nossa equipe, a torcida tá gritando rsrsrs",
        "galera, alguém me empresta o celular?",
    ];
    let (here, there) = (judge(&portugal), judge(&brazil));
    assert_eq!((here.label, there.label), (Some(0), Some(1)), "{here:?} {there:?}");
    assert!((0.9..=1.0).contains(&here.score) && (-1.0..=-0.9).contains(&there.score), "{here:?} {there:?}");
    assert!(here.markers[0] >= 5 && there.markers[1] >= 5, "{here:?} {there:?}");
    let open = judge(&["bom dia a todos", "que calor hoje"]);
    assert_eq!((open.label, open.posts), (None, 2), "{open:?}");
    let nothing = judge(&["", "😀", "ok"]);
    assert_eq!((nothing.posts, nothing.mean, nothing.score, nothing.label), (0, 0.0, 0.0, None));
    // A thousand posts are no surer than thirty like them; broken rows count for nothing.
    let slight =
        |count: usize| model.judge(std::iter::repeat_n(Weight { log_odds: 0.1, grams: 99, markers: [0; 2] }, count));
    assert_eq!((slight(1_000).label, slight(30).label), (None, None));
    assert_eq!(slight(1_000).score, slight(30).score);
    let broken = Weight { log_odds: f32::NAN, grams: 99, markers: [0; 2] };
    assert_eq!(model.judge(std::iter::once(broken)).posts, 0);
}

#[test]
fn the_spelling_of_before_the_agreement_decides_nothing() {
    let model = Variants::shipped();
    for (before, after) in [
        ("a acção óptima do director", "a ação ótima do diretor"),
        ("a idéia tranqüila do vôo", "a ideia tranquila do voo"),
    ] {
        assert_eq!(model.weigh(before).log_odds, model.weigh(after).log_odds, "{before}");
    }
}

#[test]
fn labelled_files_have_their_forms() {
    let file =
        "# comment\n\"um \"\"dois\"\"\"\tPT\n17\tuma linha\tPT-BR\r\n\nnichts\n\tPT\ntext\t\n#tag no início\tPT\n"
            .as_bytes();
    let mut refused = Vec::new();
    let texts = read(&[file, b"\xff\tPT\n"].concat(), |line, why| refused.push(format!("{line} {why}")));
    let of = |at: usize| (texts[at].text.as_str(), texts[at].label.as_str());
    assert_eq!((of(0), of(1), of(2)), (("um \"dois\"", "PT"), ("uma linha", "PT-BR"), ("#tag no início", "PT")));
    assert_eq!(texts.len(), 3);
    let told = ["5 has no tab", "6 has no text", "7 has no label", "9 is not UTF-8"];
    assert!(refused.len() == 4 && refused.iter().zip(told).all(|(one, told)| one.starts_with(told)), "{refused:?}");
    let named = read(b"id\tvariety\ttext\n1\tPT-PT\tum dia\n", |_, why| panic!("{why}"));
    assert_eq!(named, [LabelledText { text: "um dia".into(), label: "PT-PT".into() }]);
}
