//! The page: one address that answers at a glance whether everything is fresh, and if not, why.
//!
//! | address | what |
//! |---|---|
//! | `GET /` | the whole queue, its quota, its workers; lateness and flow of `?range=1h`, `24h`, `7d` or `30d` |
//! | `GET /tweet?id=` | a tweet, by its id or its address on the web |
//! | `GET /account?id=` | an account, by its id, its handle or one that it had; where the items are accounts, as is `/tweet` |
//! | `GET /dead?reason=` | the dead, a page after the other; those whose reason holds these words |
//! | `GET /errors?text=` | errors that workers recorded in the last 7 days; those that contain these words |
//! | `POST /dead/retry`, `/dead/drop` | does it to one; form fields `id` and `token` |
//! | `POST /dead/retry-all`, `/dead/drop-all` | to all, or to those of a reason; fields `words`, `sure` and `token` |
//! | `POST /pause`, `/resume` | nothing is asked of the API until it goes on; form fields `reason` and `token` |
//! | `POST /refresh` | makes a tweet due now; form fields `id` and `token` |
//! | `POST /belong` | decides whether an account belongs to a community; form fields `id`, `words` (the decision), `reason` and `token` |
//! | `POST /logout` | ends the session of this browser |
//! | `GET /events` | what has changed of the front page, of `?range=`, or of `?tweet=`, as server-sent events |
//! | `GET /page.css`, `/page.js`, `/icon.svg` | what the pages load: nothing comes from elsewhere |
//!
//! If there are several namespaces, each has these below `/n/<namespace>`, except for the files that the pages load. `GET /` and
//! `GET /events` are then an overview, and `GET /find?id=` leads to a tweet or an account in any namespace.
//!
//! Only the server makes HTML. The script puts the parts from `/events` into place and knows no figures. Without it, the page shows
//! everything once.

mod account;
mod accounts;
mod assets;
mod belongs;
mod broadcast;
mod chart;
mod community;
mod crawls;
mod dead;
mod error_list;
mod errors;
mod events;
mod form;
mod front;
mod hands;
mod ids;
mod item;
mod layout;
mod lists;
mod media;
mod number;
mod original;
mod overview;
mod pages;
mod past;
mod polled;
mod rhythm;
mod router;
mod routes;
mod sessions;
mod site;
mod state_sections;
mod time_sections;
mod tweet;
mod watchers;
mod words;
mod young;

pub use self::pages::PageInputs;
pub use self::site::{Access, Site};
