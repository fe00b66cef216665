//! The body of a page of X API v2.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::providers::lookup::LookupError;
use crate::providers::timeline::{Post, of_target, read_posts};
use crate::providers::x_v2::answer::Problem;
use crate::providers::x_v2::{id_of, parse_post};

/// A page.
#[derive(Debug)]
pub struct Read {
    /// Its posts.
    pub posts: Vec<Post>,
    /// Posts that cannot be read.
    pub broken: usize,
    /// The token of the next page; the last page has none.
    pub next_token: Option<String>,
}

#[derive(Deserialize)]
struct Body<'a> {
    /// Left out where nothing is found, as in an empty page.
    #[serde(borrow)]
    data: Option<Vec<&'a RawValue>>,
    meta: Option<Meta>,
    #[serde(borrow)]
    errors: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Meta {
    next_token: Option<String>,
}

/// Returns true if a problem that stands in place of posts is about whose they are.
fn is_about_the_timeline(raw: &RawValue) -> bool {
    serde_json::from_str::<Problem<'_>>(raw.get()).is_ok_and(|problem| problem.is_of_the_absent())
}

/// Returns true if a refusal is the API's own, and not of something in front of it.
pub fn is_problem(body: &[u8]) -> bool {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    body["title"].is_string() || body["errors"].is_array()
}

/// Reads a page, under the field names of both of X's documents. Problems beside posts are about what those refer to.
///
/// # Errors
/// [`LookupError::BadRequest`] where it says that the timeline is not there or not ours to see,
/// [`LookupError::BadAnswer`] for a body of another shape, and for a post without an id: passed over, it would be lost.
pub fn read(body: &[u8]) -> Result<Read, LookupError> {
    let body = String::from_utf8_lossy(body);
    let bad = |why: &str| LookupError::BadAnswer(why.to_owned());
    let Body { data, meta, errors } = serde_json::from_str(&body).map_err(|_| bad("it is no page of posts"))?;
    if data.is_none() && errors.unwrap_or_default().into_iter().any(is_about_the_timeline) {
        return Err(of_target("the API says so in a success"));
    }
    // Without either it is an error that calls itself a success: taken for the last page, it would lose posts.
    let meta = meta.ok_or_else(|| bad("a page of posts without its meta"))?;
    let (posts, broken) = read_posts(data.unwrap_or_default(), parse_post, id_of)?;
    Ok(Read { posts, broken, next_token: meta.next_token.filter(|token| !token.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_or_it_is_none() {
        let page = |text: &str| read(text.as_bytes());
        let empty = page(r#"{"meta":{"result_count":0}}"#).unwrap();
        assert!(empty.posts.is_empty() && empty.next_token.is_none());
        let filtered = page(r#"{"meta":{"result_count":0,"next_token":"t"}}"#).unwrap();
        assert_eq!((filtered.posts.len(), filtered.next_token.as_deref()), (0, Some("t")));
        let odd = page(r#"{"data":[{"id":"30","text":"a"},{"id":"29","text":{}}],"meta":{"result_count":2}}"#).unwrap();
        assert_eq!((odd.posts.iter().map(|post| post.id).collect::<Vec<_>>(), odd.broken), (vec![30, 29], 1));
        let gone = r#"{"errors":[{"parameter":"id","type":"https://api.twitter.com/2/problems/resource-not-found"}]}"#;
        assert!(matches!(page(gone), Err(LookupError::BadRequest(_))));
        let untyped = r#"{"errors":[{"resource_id":"5","resource_type":"user","title":"Not Found Error"}]}"#;
        assert!(matches!(page(untyped), Err(LookupError::BadRequest(_))));
        for bad in ["", "[]", "{}", r#"{"data":[]}"#, r#"{"data":[{"text":"a"}],"meta":{}}"#, r#"{"errors":[]}"#] {
            assert!(matches!(page(bad), Err(LookupError::BadAnswer(_))), "{bad}");
        }
    }
}
