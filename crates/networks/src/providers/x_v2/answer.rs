//! Turns the body of a successful answer into one outcome per requested id.

use std::borrow::Cow;
use std::cmp::Reverse;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::post::Post;
use crate::model::account::Absence;
use crate::model::post::{Tweet, TweetId};
use crate::providers::id_outcomes::{IdOutcomes, fold_handle};
use crate::providers::lookup::{
    LookupError, Outcome, UnsolicitedObjects, Usage, decode_lossy, json_error, require_object,
};
use crate::providers::scalar;
use crate::providers::unreadable::UnreadableObject;

#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// Parameter that holds the requested ids.
    pub parameter: &'static str,
    pub resource: &'static str,
}

const POSTS: Subject = Subject { parameter: "ids", resource: "tweet" };

/// Problem types of ids that an answer does not return: deleted or unknown; protected or suspended; taken down. No other problem is a
/// reason to end a post.
const NOT_THERE: &[&str] =
    &["resource-not-found", "not-authorized-for-resource", "resource-unavailable", "disallowed-resource"];
/// Titles of the same problems, if they have no type.
const NOT_THERE_BY_TITLE: &[&str] = &["Not Found Error", "Authorization Error"];

#[derive(Deserialize)]
struct Body<'a> {
    /// Missing if nothing is found.
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    errors: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Problem<'a> {
    #[serde(borrow)]
    parameter: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_id: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_type: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub detail: Option<Cow<'a, str>>,
}

/// Reads X's own counts; its figures are texts or numbers.
pub fn read_usage(body: &[u8]) -> Result<Usage, LookupError> {
    let body: Value = serde_json::from_str(&decode_lossy(body)).map_err(|error| json_error(&error))?;
    let figure = |name: &str| {
        let figure = &body["data"][name];
        figure.as_u64().or_else(|| figure.as_str()?.parse().ok())
    };
    let posts = figure("project_usage");
    let posts = posts.ok_or_else(|| LookupError::BadAnswer("it has no project_usage".to_owned()))?;
    let reset_day = figure("cap_reset_day").and_then(|day| u32::try_from(day).ok());
    Ok(Usage { posts, cap: figure("project_cap"), reset_day })
}

/// Reads an answer about `ids`: one outcome per id, in their order, and the objects that were not requested.
pub fn read(body: &[u8], ids: &[String]) -> Result<(Vec<Outcome>, UnsolicitedObjects), LookupError> {
    read_objects(body, POSTS, ids, assign_posts, |problem| match problem.kind() {
        "resource-unavailable" | "disallowed-resource" => Outcome::Unavailable,
        _ => Outcome::Absent(problem.reason()),
    })
}

/// Reads a body. `found` assigns the objects in `data` to the requested ids. `missing` is the outcome of an id in `errors`, which also
/// has problems of resources that the found objects refer to. Requested handles are in small letters. An error does not repeat the body.
pub fn read_objects<T: Clone>(
    body: &[u8],
    subject: Subject,
    ids: &[String],
    found: impl FnOnce(&mut IdOutcomes<'_, T>, Vec<&RawValue>),
    missing: impl Fn(&Problem<'_>) -> Outcome<T>,
) -> Result<(Vec<Outcome<T>>, UnsolicitedObjects), LookupError> {
    let body = require_object(body)?;
    let body: Body<'_> = serde_json::from_str(&body).map_err(|error| json_error(&error))?;
    let data: Option<Vec<&RawValue>> = match scalar::present(body.data) {
        None => None,
        Some(data) => Some(list(data).ok_or_else(|| LookupError::BadAnswer("its data is not a list".to_owned()))?),
    };
    let problems: Vec<Problem<'_>> = scalar::present(body.errors)
        .and_then(list)
        .unwrap_or_default()
        .into_iter()
        .map(|problem| serde_json::from_str(problem.get()).unwrap_or_default())
        .collect();
    if data.is_none() && !problems.iter().any(|problem| problem.is_about(subject)) {
        let what = if body.errors.is_some() { "a success that says error" } else { "an object without data" };
        return Err(LookupError::BadAnswer(what.to_owned()));
    }
    let mut asked = IdOutcomes::new(ids);
    found(&mut asked, data.unwrap_or_default());
    for problem in problems.iter().filter(|problem| problem.is_about(subject)) {
        let texts = [problem.value, problem.resource_id].into_iter().flatten().filter_map(scalar::string);
        for place in texts.filter_map(|id| asked.position(&fold_handle(&id))).collect::<Vec<_>>() {
            asked.set_outcome(place, || problem.outcome(&missing));
        }
    }
    let names_the_missing = true; // all ids that it does not return
    asked.finish(names_the_missing)
}

/// Assigns each post to its own id, or to an earlier id of its history without a post of its own. X returns each version of an edited
/// post under its own id (twarc-csv's recordings), although its page on the lookup says otherwise.
fn assign_posts(asked: &mut IdOutcomes<'_, Tweet>, data: Vec<&RawValue>) {
    let mut edited = Vec::new();
    for raw in data {
        let post = Post::parse(raw.get());
        let own = post.as_ref().ok().and_then(|post| post.id().ok());
        let place = own.and_then(|id| asked.position(&id.to_string()));
        if let Some(place) = place {
            asked.set_outcome(place, || outcome(&post, raw));
        }
        edited.push((own, place.is_some(), post, raw));
    }
    // A requested older id gets the newest returned version.
    edited.sort_by_key(|(own, ..)| Reverse(own.map(TweetId::get)));
    for (own, mut is_asked, post, raw) in edited {
        for earlier in post.as_ref().map(Post::history).unwrap_or_default() {
            is_asked |= asked.position(&earlier).is_some();
            if let Some(place) = asked.position_without_outcome(&earlier) {
                asked.set_outcome(place, || outcome(&post, raw));
            }
        }
        if !is_asked {
            asked.unsolicited.add(own.map(|id| id.to_string()));
        }
    }
}

fn outcome(post: &Result<Post<'_>, UnreadableObject>, raw: &RawValue) -> Outcome {
    post.as_ref().map_err(Clone::clone).and_then(|post| post.to_tweet(raw.get())).into()
}

impl Problem<'_> {
    /// Returns true if the problem concerns the subject of the call, not a resource that a found object refers to. X's documents name
    /// either the parameter of the call, or only the resource.
    pub fn is_about(&self, subject: Subject) -> bool {
        let Some(parameter) = self.parameter.as_deref() else {
            let resource = self.resource_type.as_deref();
            return self.resource_id.or(self.value).is_some() && resource.is_none_or(|of| of == subject.resource);
        };
        parameter == subject.parameter
    }

    /// Returns true if the resource does not exist, or is not visible to us.
    pub fn means_absent(&self) -> bool {
        NOT_THERE.contains(&self.kind()) || NOT_THERE_BY_TITLE.contains(&self.title.as_deref().unwrap_or_default())
    }

    /// Reason why the resource is not returned. A suspended account has the type of an unknown one, and another title.
    pub fn reason(&self) -> Absence {
        let says = |start: &str| self.detail.as_deref().is_some_and(|detail| detail.starts_with(start));
        if self.title.as_deref() == Some("Forbidden") || says("User has been suspended") {
            Absence::Suspended
        } else if self.kind() == "resource-not-found" || self.title.as_deref() == Some("Not Found Error") {
            Absence::NotFound
        } else {
            Absence::Protected
        }
    }

    /// Last part of the type: its host has been api.twitter.com and api.x.com.
    pub fn kind(&self) -> &str {
        self.kind.as_deref().and_then(|kind| kind.rsplit('/').next()).unwrap_or_default()
    }

    /// Outcome of the problem's resource; `missing` gives it for an absent one.
    pub fn outcome<T>(&self, missing: impl Fn(&Self) -> Outcome<T>) -> Outcome<T> {
        if self.means_absent() {
            return missing(self);
        }
        let kind: String = self.kind().chars().filter(|c| c.is_ascii_lowercase() || *c == '-').take(40).collect();
        Outcome::Broken(format!("in its place came the problem {kind:?}"))
    }
}

fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}
