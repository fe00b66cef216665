//! Files as people have them: each bad line is refused with its number and the reason, and the good
//! ones of the same file are scheduled.

use proptest::prelude::*;

use super::*;

/// Each bad line between two good ones; every reason must hold the text beside it.
async fn refuses(cases: &[(Vec<u8>, &str)]) -> Summary {
    let world = World::new().await;
    let mut file = format!("{}\n", id(0)).into_bytes();
    for (sequence, (line, _)) in (1..).zip(cases) {
        file.extend_from_slice(line);
        file.extend_from_slice(format!("\n{}\n", id(sequence)).as_bytes());
    }
    let summary = world.enqueue(&file).await;
    assert_eq!(summary.refusals.len(), cases.len());
    for ((line, (bytes, says)), refusal) in (2..).step_by(2).zip(cases).zip(&summary.refusals) {
        let sample = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        assert_eq!(refusal.line, line, "{sample}");
        assert!(refusal.reason.contains(says), "{sample}: {}", refusal.reason);
    }
    assert_eq!(summary.scheduled, cases.len() as u64 + 1);
    assert_eq!(summary.refused, cases.len() as u64);
    assert_eq!(summary.refused_by_reason.values().sum::<u64>(), summary.refused);
    assert!(!summary.is_clean());
    for sequence in 0..=cases.len() {
        assert_eq!(world.places(&id(sequence as u32)).await.len(), 1);
    }
    summary
}

fn case(line: impl Into<Vec<u8>>, says: &str) -> (Vec<u8>, &str) {
    (line.into(), says)
}

#[tokio::test]
async fn ids_that_are_none() {
    refuses(&[
        case("x", "not a digit: 'x'"),
        case("\x01", "not a digit"),
        case("-1500000000000000001", "negative"),
        case("1".repeat(40), "40 digits"),
        case("1.5E+18", "scientific notation"),
        case("1,46E+18", "scientific notation"),
        case("0123", "starts with 0"),
        case("0", "starts with 0"),
        case("9999999999999999999", "larger than an id can be"),
        case("\"\"", "the id is empty"),
        case("\"123", "not a digit: '\"'"),
        case("12 34", "not a digit: ' '"),
        case("29700859247", "the id is too short to contain its date"),
        case(TweetId::at(clock::wall_ms() + DAY, 0).to_string(), "into the future"),
        case("https://twitter.com/jack/status/20", "the id is too short to contain its date"),
    ])
    .await;
}

#[tokio::test]
async fn lines_that_are_something_else() {
    let young = id(9_999);
    refuses(&[
        case(format!("{young},foo"), "not a digit: ','; the line has a comma; only the id column is wanted"),
        case(format!("{young};foo"), "a semicolon; only the id column"),
        case(format!("{young}\tfoo"), "a tab; only the id column"),
        case("id,text", "only the id column is wanted"),
        case(format!("[[\"{young}\"]]"), "a list in a list"),
        case("[", "cut off"),
        case(format!("{{\"id_str\":\"{young}"), "cut off"),
        case(format!("{{\"id_str\":\"{young}\","), "cut off"),
        case(format!("{{\"id_str\":\"{young}\"}},"), "not a JSON object"),
        case("{}", "no id"),
        case("{\"id\":\"12x\"}", "not a digit"),
        case(format!("{{\"id\":\"{young}\",\"created_at\":-5}}"), "created_at is before 1970"),
        case(b"\xff\xff".to_vec(), "not UTF-8"),
        case(b"12\x003".to_vec(), "NUL byte"),
        case(vec![b'1'; 5 << 20], "line longer than 1 MiB"),
        case([b"{\"text\":\"".to_vec(), vec![b' '; 5 << 20]].concat(), "longer than 1 MiB"),
    ])
    .await;
}

#[tokio::test]
async fn white_space_quotes_and_line_ends_are_forgiven() {
    let world = World::new().await;
    let file =
        format!("\u{feff}{}\r\n\r\n  {}\t\n\"{}\"\n'{}'\n \n\u{a0}{}\n{}", id(1), id(2), id(3), id(4), id(5), id(6));
    let summary = world.enqueue(file.as_bytes()).await;
    assert_eq!((summary.lines, summary.scheduled, summary.refused), (6, 6, 0), "{summary}");
    assert!(summary.is_clean());
}

#[tokio::test]
async fn an_empty_file_is_no_success() {
    let world = World::new().await;
    for bytes in ["", "\n", "\n \r\n\t\n", "\u{feff}", "\u{feff}\r\n"] {
        let summary = world.enqueue(bytes.as_bytes()).await;
        assert_eq!((summary.lines, summary.refused), (0, 0), "{bytes:?}");
        assert!(summary.is_empty() && !summary.is_clean());
        assert!(summary.to_string().contains("test is empty"), "{summary}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_text_is_refused_in_one_sentence() {
    let world = World::new().await;
    let utf16 = |order: fn(u16) -> [u8; 2]| {
        let text = format!("\u{feff}{}\n{}\n", id(1), id(2));
        text.encode_utf16().flat_map(order).collect::<Vec<u8>>()
    };
    let kinds = [
        (utf16(u16::to_le_bytes), "iconv -f UTF-16 "),
        (utf16(u16::to_be_bytes), "iconv -f UTF-16 "),
        (utf16(u16::to_le_bytes)[2..].to_vec(), "iconv -f UTF-16LE"),
        (utf16(u16::to_be_bytes)[2..].to_vec(), "iconv -f UTF-16BE"),
        (b"\x1f\x8b\x08\0\0\n12\n".to_vec(), "gzip"),
        (b"PK\x03\x04\x14\0\n12\n".to_vec(), "Excel"),
    ];
    for (bytes, says) in kinds {
        let summary = world.enqueue(&bytes).await;
        assert_eq!((summary.lines, summary.refused), (1, 1));
        assert_eq!(summary.refusals[0].line, 1);
        assert!(summary.refusals[0].reason.contains(says), "{summary}");
    }
}

#[tokio::test]
async fn a_binary_file_is_refused_line_by_line() {
    let world = World::new().await;
    // Every byte after every other: 256 line ends, and no line that is an id.
    let binary: Vec<u8> = (0..=u16::MAX).flat_map(|pair| [(pair >> 8) as u8 | 0x80, pair as u8]).collect();
    let file = [format!("{}\n", id(1)).into_bytes(), binary, format!("\n{}\n", id(2)).into_bytes()].concat();
    let summary = world.enqueue(&file).await;
    assert_eq!(summary.scheduled, 2);
    assert_eq!(summary.refused, summary.lines - 2);
    assert_eq!(summary.lines, non_blank(&file));
    assert_eq!(summary.refusals.len(), 50);
}

#[tokio::test]
async fn ids_a_spreadsheet_rounded_are_scheduled_with_a_warning() {
    let world = World::new().await;
    let rounded: Vec<String> =
        (0..20_000).map(|sequence| id_aged(MINUTE, sequence)).filter(|id| id.ends_with("00")).collect();
    let file = |rounded: &[String], exact: u32| {
        let exact = (0..exact).map(id);
        exact.chain(rounded.iter().cloned()).map(|id| id + "\n").collect::<String>()
    };
    let summary = world.enqueue(file(&rounded[..5], 95).as_bytes()).await;
    assert_eq!((summary.scheduled, summary.refused), (100, 0));
    let warning = summary.warning.as_deref().unwrap();
    assert!(warning.contains("5 of 100") && warning.contains("line 96") && warning.contains("as text"), "{warning}");
    assert!(summary.to_string().contains(warning));
    assert!(summary.is_clean());

    assert_eq!(world.enqueue(file(&rounded[..1], 99).as_bytes()).await.warning, None);
}

#[tokio::test]
async fn a_summary_is_json_for_scripts() {
    let world = World::new().await;
    let summary = world.enqueue(format!("{}\nx\n", id(1)).as_bytes()).await;
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["scheduled"], 1);
    assert_eq!(json["refusals"][0]["line"], 2);
    let fields: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = [
        "name",
        "lines",
        "scheduled",
        "known",
        "too_old",
        "dead",
        "refused",
        "refusals",
        "refused_by_reason",
        "warning",
        "seconds",
        "ids_per_second",
        "first_update_s",
        "last_update_s",
    ];
    expected.sort_unstable();
    assert_eq!(fields, expected);
}

/// The lines that are neither blank nor comments, said in another way.
fn non_blank(bytes: &[u8]) -> u64 {
    let no_text: [&[u8]; 4] = [b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"PK\x03\x04"];
    if no_text.iter().any(|magic| bytes.starts_with(magic)) {
        return 1;
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let is_comment =
        |line: &[u8]| !line.contains(&0) && std::str::from_utf8(line).is_ok_and(|text| text.trim().starts_with('#'));
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.trim_ascii().is_empty() && !is_comment(line)).count() as u64
}

/// Whether a line opens JSON that may go on beyond it, said in another way.
fn opens_json(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.any(|line| line.starts_with(b"[") || line.starts_with(b"{") && !line.ends_with(b"}"))
}

/// Lines of all kinds, and rubble.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u32..50).prop_map(|sequence| id(sequence).into_bytes()),
        (0u32..50).prop_map(|sequence| format!("\"{}\"\r", id(sequence)).into_bytes()),
        (0u32..50).prop_map(|sequence| format!("{{\"id_str\":\"{}\"}}", id(sequence)).into_bytes()),
        (31i64..4_000).prop_map(|days| id_aged(days * DAY, 0).into_bytes()),
        "[0-9eE,.+\"'{}\\[\\] \t-]{0,30}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
        Just(Vec::new()),
        Just(b" \r".to_vec()),
    ]
}

#[test]
fn every_line_is_answered_for_once_whatever_it_is() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::new());
    let head = prop_oneof![
        9 => Just(&b""[..]), 1 => Just(&b"\xef\xbb\xbf"[..]), 1 => Just(&b"\xff\xfe"[..]), 1 => Just(&b"\x1f\x8b"[..]),
    ];
    let options = EnqueueOptions { batch_size: 7, ..quick() };
    proptest!(|(head in head, lines in prop::collection::vec(any_line(), 0..40))| {
        let bytes = [head, &lines.join(&b'\n')].concat();
        let mut told = 0;
        let summary = runtime
            .block_on(enqueue(&*bytes, "test", &world.starter, &options, |_| {}, |_, _| told += 1))
            .unwrap();
        let answered = summary.scheduled + summary.known + summary.too_old + summary.dead + summary.refused;
        if !opens_json(&bytes) {
            prop_assert_eq!(summary.lines, non_blank(&bytes));
        }
        prop_assert_eq!(answered, summary.lines);
        prop_assert_eq!(told, summary.refused);
        prop_assert_eq!(summary.refused_by_reason.values().sum::<u64>(), summary.refused);
    });
}
