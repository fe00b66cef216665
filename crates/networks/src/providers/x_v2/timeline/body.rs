//! Body of a page of X API v2.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::providers::lookup::LookupError;
use crate::providers::timeline::{Post, read_posts, target_error};
use crate::providers::x_v2::answer::Problem;
use crate::providers::x_v2::{parse_post, read_id};

#[derive(Debug)]
pub struct ParsedPage {
    pub posts: Vec<Post>,
    pub broken: usize,
    /// Token of the next page; `None` on the last.
    pub next_token: Option<String>,
}

#[derive(Deserialize)]
struct Body<'a> {
    /// Missing if nothing is found, as on an empty page.
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

/// Returns true if a problem in place of posts concerns the timeline's owner.
fn is_about_timeline(raw: &RawValue) -> bool {
    serde_json::from_str::<Problem<'_>>(raw.get()).is_ok_and(|problem| problem.means_absent())
}

/// Returns true if a refusal is the API's own, not a proxy's.
pub fn is_problem(body: &[u8]) -> bool {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    body["title"].is_string() || body["errors"].is_array()
}

/// Reads a page, with the field names of both of X's documents. Errors next to posts concern other resources, and are ignored.
///
/// # Errors
/// [`LookupError::BadRequest`] if the timeline does not exist, or is not visible to us. [`LookupError::BadAnswer`] for a body of
/// another shape, and for a post without an id: skipping the post would lose it.
pub fn read(body: &[u8]) -> Result<ParsedPage, LookupError> {
    let body = String::from_utf8_lossy(body);
    let bad = |why: &str| LookupError::BadAnswer(why.to_owned());
    let Body { data, meta, errors } = serde_json::from_str(&body).map_err(|_| bad("it is no page of posts"))?;
    if data.is_none() && errors.unwrap_or_default().into_iter().any(is_about_timeline) {
        return Err(target_error("the API says so in a success"));
    }
    // Without data and meta it is an error in a success: treating it as the last page would lose posts.
    let meta = meta.ok_or_else(|| bad("a page of posts without its meta"))?;
    let (posts, broken) = read_posts(data.unwrap_or_default(), parse_post, read_id)?;
    Ok(ParsedPage { posts, broken, next_token: meta.next_token.filter(|token| !token.is_empty()) })
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
