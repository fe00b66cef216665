//! The page at one address: whether everything is fresh, and if not, why.
//!
//! | address | content or action |
//! |---|---|
//! | `GET /` | a queue, its quota and workers; lateness and flow of `?range=1h`, `24h`, `7d` or `30d` |
//! | `GET /tweet?id=` | a post, by its id or its address on the web |
//! | `GET /account?id=` | an account, by its id or a current or former handle; where the items are accounts, as is `/tweet` |
//! | `GET /dead?reason=` | dead items, page by page; with `reason`, those whose reason contains these words |
//! | `GET /errors?text=` | errors that workers recorded in the last 7 days; with `text`, those that contain these words |
//! | `POST /dead/retry`, `/dead/drop` | one item; form fields `id` and `token` |
//! | `POST /dead/retry-all`, `/dead/drop-all` | all, or those with words in the reason; fields `words`, `sure` and `token` |
//! | `POST /pause`, `/resume` | stops or resumes calls to the network; fields `reason` and `token` |
//! | `POST /refresh` | makes a post due now; fields `id` and `token` |
//! | `POST /belong` | decides about an account of a community; fields `id`, `words` (the decision), `reason` and `token` |
//! | `POST /logout` | ends the session of this browser |
//! | `GET /events` | changes of the front page, of `?range=`, or of `?tweet=`, as server-sent events |
//! | `GET /page.css`, `/page.js`, `/icon.svg` | files of the pages |
//!
//! With several namespaces, each has these below `/n/<namespace>`, except for the files. Then `GET /` and `GET /events` are an overview,
//! and `GET /find?id=` redirects to an item of any namespace.
//!
//! Only the server makes HTML. The script replaces parts by those from `/events`. Without it, the page shows everything once.

mod account;
mod account_communities;
mod accounts;
mod actions;
mod assets;
mod broadcast;
mod chart;
mod community;
mod crawls;
mod dead;
mod error_list;
mod errors;
mod events;
mod form;
mod format;
mod front;
mod ids;
mod item;
mod layout;
mod lists;
mod media;
mod network_object;
mod number;
mod overview;
mod pages;
mod polled;
mod router;
mod routes;
mod scroll_table;
mod sessions;
mod site;
mod state_sections;
mod time_range;
mod time_sections;
mod tweet;
mod visits;
mod watchers;
mod youngest_posts;

pub use self::pages::PageInputs;
pub use self::site::{Access, Site};
