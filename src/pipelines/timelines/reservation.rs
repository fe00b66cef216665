//! A page's reservation in the budget of a provider that charges for each post: which posts come is not known before.

use crate::base::random;
use crate::providers::lookup::LookupError;
use crate::quota::ChargedReads;

use crate::providers::timeline::Page;

/// A place for each post that a page may have, reserved under names that no post has.
#[derive(Debug)]
pub struct Reservation(Vec<String>);

impl Reservation {
    /// For a page of so many posts at the most.
    #[must_use]
    pub fn of(count: u32) -> Self {
        let page = format!("page {:016x}", random::number());
        Self((0..count).map(|place| format!("{page} {place}")).collect())
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Each post took a place, and the rest are free. What may have been returned, and never arrived, stays counted.
    #[must_use]
    pub fn settled(self, answer: &Result<Page, LookupError>) -> ChargedReads {
        self.charged(match answer {
            Ok(page) => Some(page.posts.iter().map(|post| post.id.to_string()).collect()),
            Err(error) if error.is_refusal() => Some(Vec::new()),
            Err(_) => None,
        })
    }

    /// Each of the ids that came took a place; `None`: nobody knows what was returned, so that all of it stays counted.
    #[must_use]
    pub fn charged(self, came: Option<Vec<String>>) -> ChargedReads {
        let Some(came) = came else { return ChargedReads::default() };
        let mut reservation = self.0.into_iter();
        // As an edited post: what is charged is the id that came.
        let edited = reservation.by_ref().zip(came).collect();
        ChargedReads { edited, unread: reservation.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::post::Tweet;
    use crate::providers::since::Reading;
    use crate::providers::timeline::More;
    use crate::providers::timeline::Post;

    fn page(ids: &[u64]) -> Page {
        let post = |id: &u64| Post { id: *id, tweet: Tweet { id: id.to_string(), ..Tweet::default() } };
        let reading = Reading { sent_at: 0, took: 1, date: None };
        Page { posts: ids.iter().map(post).collect(), broken: 0, more: More::No, reading, quota: None }
    }

    #[test]
    fn each_post_takes_a_place_and_the_rest_are_free() {
        let reservation = Reservation::of(3);
        let [first, second, third] = reservation.names().to_vec().try_into().unwrap();
        assert!(!Reservation::of(1).names().contains(&first), "those of another page");
        let charged = reservation.settled(&Ok(page(&[7])));
        assert_eq!(charged, ChargedReads { edited: vec![(first, "7".to_owned())], unread: vec![second, third] });
        let lost = Reservation::of(2).settled(&Err(LookupError::Outage("no answer".to_owned())));
        assert_eq!(lost, ChargedReads::default());
        assert_eq!(Reservation::of(2).settled(&Err(LookupError::BadRequest("no".to_owned()))).unread.len(), 2);
    }
}
