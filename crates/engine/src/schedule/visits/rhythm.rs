//! The rhythm of an item: a record of the events that its visits found. All policies share it, so a new policy keeps the knowledge
//! of the old one. Pure.
//!
//! Units: times in ms since the epoch, hours and days in UTC, counts in events.

use serde::{Deserialize, Serialize};

use super::classes;
pub use super::hours::{DAY, HOUR, day_of, hour_of, is_weekend};
use crate::base::clock::Millis;

/// Spans over which recent events fade, ms: after each, an event counts e times less.
pub const SPANS: [Millis; 7] = [HOUR / 2, 2 * HOUR, 8 * HOUR, DAY, 3 * DAY, 10 * DAY, 40 * DAY];
/// Index of the ten days in `SPANS`.
const TEN_DAYS: usize = 5;
/// Days with separate hours: today and seven before.
pub const DAYS: usize = 8;
/// Half-life of an event in the hours of the day, ms.
const HALF_LIFE: f64 = (60 * DAY) as f64;
/// Age, ms, beyond which events are only counted.
const OLDEST: Millis = 120 * DAY;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Rhythm {
    /// Time from which on its events are known.
    pub since: Millis,
    /// Last visit; `None` before the first.
    pub visited: Option<Millis>,
    pub before: Option<Millis>,
    /// Last event; `None` if none was seen.
    pub last: Option<Millis>,
    pub count: u64,
    /// Priority by classes, 1 to 100.
    pub priority: u8,
    /// Events by the hour of the day; an old one counts less.
    pub hours: [f32; 24],
    /// Recent events at the last visit, each faded over its [span](SPANS).
    pub recent: [f32; SPANS.len()],
    /// Day of the last visit since the epoch: the first of [`days`](Self::days).
    pub today: i64,
    /// Events in each hour of that day and of the days before it.
    pub days: [[u16; 24]; DAYS],
}

/// Kinds of items of the paper on visiting (002, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Less than one event a day.
    Inactive,
    /// Active on some days only. It counts as inactive until it was active on each day of a week.
    Unstable,
    /// Active on each day of the last week, by the hours of a person.
    Constant,
    /// Active through the day and the night, as a newspaper is.
    Authority,
}

impl Rhythm {
    #[must_use]
    pub fn new(now: Millis) -> Self {
        Self {
            since: now,
            visited: None,
            before: None,
            last: None,
            count: 0,
            priority: classes::FIRST_PRIORITY,
            hours: [0.0; 24],
            recent: [0.0; SPANS.len()],
            today: day_of(now),
            days: [[0; 24]; DAYS],
        }
    }

    /// Records a visit at `now` and its events, ms since the epoch, in any order, without those of earlier visits. Events from before
    /// the last visit (the first pages reach back) count at their own time, and future events count as of now. A visit may be
    /// recorded in pieces: the pieces after the first are [more of it](Self::extend_visit).
    pub fn record_visit(&mut self, events: &[Millis], now: Millis, rules: &classes::Rules) {
        let before = self.visited;
        self.extend_visit(events, now);
        self.priority = rules.next_priority(self.priority, !events.is_empty(), self.last, now);
        self.before = before;
    }

    /// Adds events to the last visit. It remains one visit, and ends at `now`.
    pub fn extend_visit(&mut self, events: &[Millis], now: Millis) {
        self.fade(now);
        for event in events.iter().map(|event| (*event).min(now)) {
            self.add_event(event, now);
        }
        self.visited = Some(now);
    }

    fn fade(&mut self, now: Millis) {
        let from = self.visited.unwrap_or(self.since).min(now);
        let elapsed = now.saturating_sub(from) as f64;
        for (recent, span) in self.recent.iter_mut().zip(SPANS) {
            *recent *= (-elapsed / span as f64).exp() as f32;
        }
        let faded = (-elapsed / HALF_LIFE).exp2() as f32;
        self.hours.iter_mut().for_each(|hour| *hour *= faded);
        let today = day_of(now);
        let by = usize::try_from(today.saturating_sub(self.today)).unwrap_or(0).min(DAYS);
        self.days.rotate_right(by % DAYS);
        self.days[..by].fill([0; 24]);
        self.today = today;
        self.since = self.since.min(now);
    }

    fn add_event(&mut self, event: Millis, now: Millis) {
        self.count = self.count.saturating_add(1);
        self.last = self.last.max(Some(event));
        let age = now.saturating_sub(event);
        if age > OLDEST {
            return;
        }
        self.since = self.since.min(event);
        for (recent, span) in self.recent.iter_mut().zip(SPANS) {
            *recent += (-(age as f64) / span as f64).exp() as f32;
        }
        self.hours[hour_of(event)] += (-(age as f64) / HALF_LIFE).exp2() as f32;
        let back = usize::try_from(self.today.saturating_sub(day_of(event))).unwrap_or(DAYS);
        if let Some(day) = self.days.get_mut(back) {
            let hour = &mut day[hour_of(event)];
            *hour = hour.saturating_add(1).min(MAX_HOUR_EVENTS);
        }
    }

    #[must_use]
    pub fn kind(&self, now: Millis) -> Kind {
        // Whole days before today. A week that was not seen yet was not active.
        let of_day = |back: usize| self.days[back].iter().map(|count| u64::from(*count)).sum::<u64>();
        let moved = usize::try_from(day_of(now).saturating_sub(self.today)).unwrap_or(0);
        let week = (1..=7usize).map(|back| back.checked_sub(moved).map_or(0, of_day));
        let (sum, active) = week.fold((0, 0), |(sum, active), day| (sum + day, active + u32::from(day > 0)));
        match active {
            7 if self.quiet_hours() == 0 => Kind::Authority,
            7 => Kind::Constant,
            _ if sum < 7 => Kind::Inactive,
            _ => Kind::Unstable,
        }
    }

    fn quiet_hours(&self) -> usize {
        (0..24).filter(|hour| self.days.iter().all(|day| day[*hour] == 0)).count()
    }

    /// Share of each hour of the day (UTC) in its events. They add up to 1, or are all 0 if no event is known.
    #[must_use]
    pub fn hour_shares(&self) -> [f64; 24] {
        let sum: f64 = self.hours.iter().map(|hour| f64::from(*hour)).sum();
        self.hours.map(|hour| if sum > 0.0 { f64::from(hour) / sum } else { 0.0 })
    }

    /// Events per day, mostly of the last ten days, at the last visit.
    #[must_use]
    pub fn per_day(&self) -> f64 {
        let span = SPANS[TEN_DAYS] as f64;
        let known = self.visited.unwrap_or(self.since).saturating_sub(self.since).max(DAY) as f64;
        f64::from(self.recent[TEN_DAYS]) / (span * -(-known / span).exp_m1()) * DAY as f64
    }
}

/// Maximum number of events per hour in the text form.
const MAX_HOUR_EVENTS: u16 = 36 * 36 - 1;
/// Number of parts of 1 in which fractions are written.
const PARTS: f32 = 100.0;
const VERSION: &str = "1";

/// The text form: 60 to 350 bytes for most items, at most about 850 (36 and more events in each hour of eight days). Numbers are
/// in base 36. In a day, `A` to `X` stand for 1 to 24 hours without events. A digit is a number of events, and `_` comes before
/// a number of two digits.
impl From<Rhythm> for String {
    fn from(rhythm: Rhythm) -> Self {
        let mut text = VERSION.to_owned();
        let mut field = |name: char, value: &str| {
            text.push(';');
            text.push(name);
            text.push_str(value);
        };
        field('s', &base36(rhythm.since));
        rhythm.visited.iter().for_each(|at| field('v', &base36(*at)));
        rhythm.before.iter().for_each(|at| field('b', &base36(*at)));
        rhythm.last.iter().for_each(|at| field('l', &base36(*at)));
        field('n', &base36(i64::try_from(rhythm.count).unwrap_or(i64::MAX)));
        field('p', &base36(i64::from(rhythm.priority)));
        field('h', &fractions(&rhythm.hours));
        field('r', &fractions(&rhythm.recent));
        let days: Vec<Self> = rhythm.days.iter().map(day_text).collect();
        field('d', days.join(".").trim_end_matches("X.X").trim_end_matches(".X"));
        text
    }
}

/// Reads the text form. A missing, unknown or broken field is left out, and the rest counts. A text without the start of the known
/// events, or of another version, gives an unknown rhythm, which starts with the next visit.
impl From<String> for Rhythm {
    fn from(text: String) -> Self {
        let mut fields = text.split(';');
        if fields.next() != Some(VERSION) {
            return Self::unknown();
        }
        let mut rhythm = Self::unknown();
        for field in fields {
            let mut letters = field.chars();
            let Some(name) = letters.next() else { continue };
            rhythm.read_field(name, letters.as_str());
        }
        if rhythm.since == UNKNOWN { Self::unknown() } else { rhythm.with_valid_values() }
    }
}

const UNKNOWN: Millis = Millis::MAX;

impl Rhythm {
    /// An unknown rhythm; the first visit starts it.
    fn unknown() -> Self {
        Self { today: 0, ..Self::new(UNKNOWN) }
    }

    fn read_field(&mut self, name: char, value: &str) {
        let number = || i64::from_str_radix(value, 36).ok();
        match name {
            's' => self.since = number().unwrap_or(UNKNOWN),
            'v' => self.visited = number(),
            'b' => self.before = number(),
            'l' => self.last = number(),
            'n' => self.count = number().and_then(|count| u64::try_from(count).ok()).unwrap_or(0),
            'p' => self.priority = number().and_then(|number| u8::try_from(number).ok()).unwrap_or(self.priority),
            'h' => read_fractions(value, &mut self.hours),
            'r' => read_fractions(value, &mut self.recent),
            'd' => self.days.iter_mut().zip(value.split('.')).for_each(|(day, text)| read_day(text, day)),
            _ => {}
        }
    }

    /// Moves values that a broken text may have set into their bounds.
    fn with_valid_values(mut self) -> Self {
        self.priority = self.priority.clamp(1, 100);
        self.since = self.visited.map_or(self.since, |visited| self.since.min(visited));
        self.today = day_of(self.visited.unwrap_or(self.since));
        self
    }
}

fn base36(number: i64) -> String {
    let mut rest = number.unsigned_abs();
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((rest % 36) as u32, 36).unwrap_or('0'));
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        digits.push('-');
    }
    digits.iter().rev().collect()
}

/// Writes values in hundredths; smaller values are empty.
fn fractions(values: &[f32]) -> String {
    let texts: Vec<String> = values
        .iter()
        .map(|value| match (value * PARTS).round() as i64 {
            0 => String::new(),
            parts => base36(parts),
        })
        .collect();
    texts.join(".").trim_end_matches('.').to_owned()
}

fn read_fractions(text: &str, into: &mut [f32]) {
    for (value, text) in into.iter_mut().zip(text.split('.')) {
        *value = i64::from_str_radix(text, 36).map_or(0.0, |parts| parts.max(0) as f32 / PARTS);
    }
}

fn day_text(day: &[u16; 24]) -> String {
    let mut text = String::new();
    let mut quiet = 0u8;
    for count in day.iter().copied().chain([u16::MAX]) {
        if count == 0 {
            quiet += 1;
            continue;
        }
        if quiet > 0 {
            text.push(char::from(b'A' + quiet - 1));
            quiet = 0;
        }
        match count {
            u16::MAX => {}
            0..36 => text.push_str(&base36(i64::from(count))),
            _ => {
                text.push('_');
                text.push_str(&base36(i64::from(count.min(MAX_HOUR_EVENTS))));
            }
        }
    }
    text
}

fn read_day(text: &str, day: &mut [u16; 24]) {
    let mut letters = text.chars();
    let mut hour = 0;
    while let Some(letter) = letters.next() {
        match letter {
            'A'..='X' => hour += letter as usize - 'A' as usize + 1,
            _ => {
                let digit = |letter: Option<char>| letter.and_then(|letter| letter.to_digit(36)).unwrap_or(0);
                let count = match letter {
                    '_' => digit(letters.next()) * 36 + digit(letters.next()),
                    letter => digit(Some(letter)),
                };
                if let Some(place) = day.get_mut(hour) {
                    *place = u16::try_from(count).unwrap_or(MAX_HOUR_EVENTS);
                }
                hour += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Millis = 1_700_000_000_000;
    const RULES: classes::Rules = classes::Rules { up: 20, down: 5, night: [0, 0], just: 0, step: 2.0 };

    /// Visited each hour for some days, with events in those hours of the day.
    fn regular(days: i64, is_active: impl Fn(i64, i64) -> bool) -> (Rhythm, Millis) {
        let start = day_of(NOW) * DAY;
        let mut rhythm = Rhythm::new(start);
        for hour in 0..days * 24 {
            let at = start + hour * HOUR;
            let events = if is_active(hour / 24, hour % 24) { vec![at + 60_000] } else { vec![] };
            rhythm.record_visit(&events, at + HOUR, &RULES);
        }
        (rhythm, start + days * DAY)
    }

    #[test]
    fn kinds_are_those_of_the_paper() {
        let of = |days, is_active: fn(i64, i64) -> bool| {
            let (rhythm, now) = regular(days, is_active);
            rhythm.kind(now)
        };
        assert_eq!(of(10, |day, hour| day % 3 == 0 && hour == 9), Kind::Inactive);
        assert_eq!(of(10, |day, hour| day % 2 == 0 && hour > 8), Kind::Unstable);
        assert_eq!(of(10, |_, hour| (9..22).contains(&hour)), Kind::Constant);
        assert_eq!(of(10, |_, _| true), Kind::Authority);
        // Promoted after a week with activity on each day, and not before.
        assert_eq!(of(9, |day, hour| day > 2 && hour > 8), Kind::Unstable);
        assert_eq!(of(10, |day, hour| day > 2 && hour > 8), Kind::Constant);
        // Silence since the last visit counts, too.
        let (rhythm, now) = regular(10, |_, _| true);
        assert_eq!(rhythm.kind(now + 2 * DAY), Kind::Unstable);
        assert_eq!(rhythm.kind(now + 30 * DAY), Kind::Inactive);
    }

    #[test]
    fn rates_and_hours_are_those_of_the_events() {
        let (rhythm, _) = regular(30, |_, hour| (8..20).contains(&hour));
        assert!((rhythm.per_day() - 12.0).abs() < 1.0, "{}", rhythm.per_day());
        let hours = rhythm.hour_shares();
        assert!((hours.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        assert!(hours[7] == 0.0 && (hours[8] - 1.0 / 12.0).abs() < 0.01, "{hours:?}");
        assert_eq!(Rhythm::new(NOW).hour_shares(), [0.0; 24]);
        assert_eq!((rhythm.count, rhythm.priority), (360, 100 - 4 * 5));
    }

    #[test]
    fn the_first_pages_reach_back_and_the_order_of_events_is_all_the_same() {
        let events: Vec<Millis> = (1..200).map(|at| NOW - at * 3 * HOUR).collect();
        let mut backwards = events.clone();
        backwards.reverse();
        let of = |events: &[Millis]| {
            let mut rhythm = Rhythm::new(NOW);
            rhythm.record_visit(events, NOW, &RULES);
            rhythm
        };
        let rhythm = of(&events);
        assert_eq!(rhythm.since, NOW - 199 * 3 * HOUR);
        assert_eq!((rhythm.last, rhythm.visited), (Some(NOW - 3 * HOUR), Some(NOW)));
        assert!((rhythm.per_day() - 8.0).abs() < 0.5, "{}", rhythm.per_day());
        assert!((of(&backwards).per_day() - rhythm.per_day()).abs() < 1e-3);
        // A future event counts as of now; an event that is years old is only counted.
        let odd = of(&[NOW + DAY, 0, Millis::MIN, Millis::MAX]);
        assert_eq!((odd.last, odd.since, odd.count), (Some(NOW), NOW, 4));
    }

    #[test]
    fn a_visit_in_pieces_is_one_visit() {
        let (mut whole, now) = regular(10, |_, hour| hour > 8);
        let mut pieces = whole.clone();
        let events: Vec<Millis> = (1..=9).map(|minute| now + minute * 60_000).collect();
        let at = now + HOUR;
        whole.record_visit(&events, at, &RULES);
        pieces.record_visit(&events[6..], at, &RULES);
        pieces.extend_visit(&events[3..6], at);
        pieces.extend_visit(&events[..3], at);
        let of = |rhythm: &Rhythm| (rhythm.before, rhythm.visited, rhythm.priority, rhythm.count, rhythm.days);
        assert_eq!(of(&pieces), of(&whole));
        assert!((pieces.per_day() - whole.per_day()).abs() < 1e-3);
    }

    #[test]
    fn the_text_form_is_short_and_gives_back_what_it_was_made_from() {
        let sizes = [(|_, hour| hour == 9) as fn(i64, i64) -> bool, |_, _| true, |_, _| false].map(|is_active| {
            let (rhythm, _) = regular(40, is_active);
            let text = serde_json::to_string(&rhythm).unwrap();
            let read: Rhythm = serde_json::from_str(&text).unwrap();
            assert_eq!(String::from(read.clone()), String::from(rhythm.clone()));
            assert_eq!((read.days, read.today, read.since), (rhythm.days, rhythm.today, rhythm.since));
            assert!((read.per_day() - rhythm.per_day()).abs() < 0.05);
            text.len()
        });
        assert!(sizes[0] < 130 && sizes[1] < 400 && sizes[2] < 70, "{sizes:?}");
        let mut most = Rhythm::new(NOW);
        let many: Vec<Millis> = (0..8 * 24 * 2_000).map(|at| NOW - at * 1_800).collect();
        most.record_visit(&many, NOW, &RULES);
        let most = String::from(most);
        assert!(most.len() < 900, "{}", most.len());
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let (rhythm, now) = regular(10, |_, hour| hour > 8);
        let text = String::from(rhythm.clone());
        let newer = Rhythm::from(format!("{text};zsomething;;q"));
        assert_eq!(String::from(newer), text);
        let without_hours = text.split(';').filter(|field| !field.starts_with('h')).collect::<Vec<_>>().join(";");
        assert_eq!(Rhythm::from(without_hours).hour_shares(), [0.0; 24]);
        for garbage in ["", "1", "2;s1", "{}", "1;s;v;l", "\u{1F600};s"] {
            let mut unknown = Rhythm::from(garbage.to_owned());
            assert_eq!((unknown.visited, unknown.count), (None, 0), "{garbage}");
            // It starts with the next visit.
            unknown.record_visit(&[now - HOUR], now, &RULES);
            assert_eq!((unknown.since, unknown.visited), (now - HOUR, Some(now)), "{garbage}");
        }
    }

    proptest! {
        #[test]
        fn any_visits_leave_a_sound_rhythm_and_any_text_can_be_read(
            visits in prop::collection::vec((any::<i64>(), prop::collection::vec(any::<i64>(), 0..4)), 0..6),
            near in prop::collection::vec((-DAY..40 * DAY, prop::collection::vec(-DAY..DAY, 0..4)), 0..6),
            text in "1(;[a-z][0-9a-zA-Z._]{0,30}){0,9}",
        ) {
            let mut rhythm = Rhythm::from(text);
            for (now, events) in visits {
                rhythm.record_visit(&events, now, &RULES);
            }
            for (after, events) in near {
                let events: Vec<Millis> = events.iter().map(|event| NOW + after + event).collect();
                rhythm.record_visit(&events, NOW + after, &RULES);
                prop_assert!(rhythm.kind(NOW + after) != Kind::Authority, "not by so few");
            }
            prop_assert!(rhythm.per_day().is_finite() && rhythm.per_day() >= 0.0);
            prop_assert!(rhythm.recent.iter().chain(&rhythm.hours).all(|value| value.is_finite() && *value >= 0.0));
            prop_assert!((1..=100).contains(&rhythm.priority));
            let again = String::from(Rhythm::from(String::from(rhythm.clone())));
            prop_assert_eq!(again, String::from(rhythm));
        }
    }
}
