use async_trait::async_trait;

use super::{PostgresStore, author_from_id, not_blocked};
use crate::communities::{self, statements};
use crate::forget::author_from_id as author_of_post;
use crate::rows::clean;
use crate::{
    AccountFacts, Appearance, BelongingChange, Communities, CommunityAccount, CommunitySize, Decision, FollowMark,
    FoundPost, GrowthLimits, HandDecision, KnownAccount, NetworkPipelines, PostLanguage, PostText, Result,
    StoredAppearance, UnwantedPost, UnwantedQuery,
};
use engine::base::clock::Millis;
use engine::base::failpoint;
use networks::model::community::Belonging;

macro_rules! account_not_blocked {
    ($account:literal, $network:literal) => {
        not_blocked!($account, $network)
    };
    (post $id:literal, $network:literal) => {
        not_blocked!(author_from_id!($id), $network)
    };
}

macro_rules! among {
    ($which:literal) => {
        concat!(
            "= ANY(ARRAY(SELECT given.value ->> 0 FROM json_array_elements(CAST($2 AS json)) AS given (value)",
            $which,
            "))"
        )
    };
}

statements!(
    "json_array_elements(CAST($2 AS json)) AS given (value)",
    "json_array_elements(CAST($5 AS json)) AS searches (value)",
    "post_language (namespace, id, language, confidence) SELECT tweet.namespace, tweet.id,",
    account_not_blocked,
    among
);

/// Each post is looked up separately: the planner cannot join a subquery with a LIMIT in another way.
const TEXTS: &str = "SELECT of.account, tweet.id, tweet.text \
     FROM (SELECT given.value ->> 0 AS account FROM json_array_elements(CAST($2 AS json)) AS given (value)) AS of \
     CROSS JOIN LATERAL (SELECT post FROM account_post WHERE namespace = $3 AND id = of.account \
     ORDER BY at DESC, post DESC LIMIT $4) AS newest CROSS JOIN LATERAL (SELECT id, text FROM tweet \
     WHERE tweet.namespace = $1 AND tweet.id = newest.post AND text IS NOT NULL AND retweet_of IS NULL \
     AND (author_id IS NULL OR author_id = of.account) LIMIT 1) AS tweet";

/// Each step is looked up separately, as in [`TEXTS`]: with joins, PostgreSQL reads all edges, all accounts on lists,
/// and the whole community. OFFSET 0 keeps a list, which has many rows, as a separate step.
const FRIENDS: &str = "SELECT of.account, count(*) FILTER (WHERE known.state = 'member'), \
     count(*) FILTER (WHERE known.state = 'outside') \
     FROM (SELECT given.value ->> 0 AS account FROM json_array_elements(CAST($2 AS json)) AS given (value)) AS of \
     CROSS JOIN LATERAL (SELECT key FROM list_owner WHERE namespace = $3 AND id = of.account LIMIT 1) AS list \
     CROSS JOIN LATERAL (SELECT member FROM list_edge WHERE list_edge.list = list.key AND closed_by IS NULL OFFSET 0) AS edge \
     CROSS JOIN LATERAL (SELECT id FROM list_account WHERE key = edge.member LIMIT 1) AS friend \
     CROSS JOIN LATERAL (SELECT state FROM community_account WHERE namespace = $1 AND account = friend.id LIMIT 1) AS known \
     GROUP BY of.account";

#[async_trait]
impl Communities for PostgresStore {
    /// Each statement may be repeated alone, since appearances are stored before their accounts.
    async fn record_arrivals(
        &self,
        namespace: &str,
        at: Millis,
        found: &[FoundPost],
        appeared: &[Appearance],
        (posts, searches): (&str, &[String]),
    ) -> Result<Vec<KnownAccount>> {
        let people: Vec<&str> =
            appeared.iter().map(|of| &*of.account).chain(found.iter().map(|of| &*of.author)).collect();
        let authors: Vec<&str> = appeared.iter().filter_map(|of| author_of_post(of.post.as_deref()?)).collect();
        let people = || self.account_pseudonyms(namespace, people.iter().chain(&authors).copied());
        let (has_found, has_appeared) = (!found.is_empty(), !appeared.is_empty());
        let (found, appeared) = (communities::encode_posts(found), communities::encode_appearances(appeared));
        let with = |statement: &'static str, given: &str| {
            sqlx::query(statement).bind(namespace.to_owned()).bind(given.to_owned()).bind(at)
        };
        if has_appeared {
            let _: Vec<()> = self.rows(|| with(APPEAR, &appeared).bind(people())).await?;
            let _: Vec<()> = self.rows(|| with(SEE, &appeared).bind(people())).await?;
        }
        if has_found && !searches.is_empty() {
            let searches = communities::encode_ids(searches);
            let find = || {
                let statement = with(FIND, &found).bind(posts.to_owned());
                statement.bind(searches.clone()).bind(people())
            };
            let _: Vec<()> = self.rows(find).await?;
            let _: Vec<()> = self.rows(|| with(SEE, &found).bind(people())).await?;
        }
        failpoint::point("before_commit");
        self.rows(|| sqlx::query(COUNT_POSTS).bind(namespace.to_owned()).bind(found.clone())).await
    }

    async fn belonging(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Belonging>>> {
        let given = communities::encode_ids(accounts);
        let rows = self.rows(|| sqlx::query(STATES).bind(namespace.to_owned()).bind(given.clone())).await?;
        Ok(communities::order_states(accounts, rows))
    }

    async fn admissible(&self, namespace: &str, at: Millis, growth: &GrowthLimits, limit: u32) -> Result<Vec<String>> {
        let accounts = || {
            let statement = sqlx::query(communities::ADMISSIBLE).bind(namespace.to_owned());
            statement.bind(i64::from(growth.appearances)).bind(i64::from(limit))
        };
        let mut accounts: Vec<(String,)> = self.rows(accounts).await?;
        if !accounts.is_empty() {
            let room = || sqlx::query(communities::ROOM).bind(namespace.to_owned()).bind(at - communities::DAY);
            accounts.truncate(communities::remaining_admissions(growth, self.row(room).await?));
        }
        Ok(accounts.into_iter().map(|(account,)| account).collect())
    }

    async fn admit(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<()> {
        let given = communities::encode_ids(accounts);
        let admit = || sqlx::query(ADMIT).bind(namespace.to_owned()).bind(given.clone()).bind(at);
        let _: Vec<()> = self.rows(admit).await?;
        Ok(())
    }

    async fn facts(
        &self,
        namespace: &str,
        of: NetworkPipelines<'_>,
        accounts: &[String],
        texts: u32,
    ) -> Result<Vec<AccountFacts>> {
        let given = communities::encode_ids(accounts);
        let with = |statement: &'static str, namespace: &str| {
            sqlx::query(statement).bind(namespace.to_owned()).bind(given.clone())
        };
        let states = self.rows(|| with(STATES, namespace)).await?;
        let profiles = self.rows(|| with(PROFILES, of.profiles)).await?;
        let friends = self.rows(|| with(FRIENDS, namespace).bind(of.friends.to_owned())).await?;
        let newest = || with(TEXTS, of.posts).bind(of.profiles.to_owned()).bind(i64::from(texts));
        let texts: Vec<PostText> = if texts > 0 { self.rows(newest).await? } else { Vec::new() };
        Ok(communities::join_facts(accounts, states, profiles, texts, friends))
    }

    async fn save_decisions(&self, namespace: &str, at: Millis, rule: &str, decisions: &[Decision]) -> Result<()> {
        let given = communities::encode_decisions(decisions);
        failpoint::point("before_commit"); // the statement is its own transaction
        let decide =
            || sqlx::query(DECIDE).bind(namespace.to_owned()).bind(given.clone()).bind(at).bind(rule.to_owned());
        let _: Vec<()> = self.rows(decide).await?;
        Ok(())
    }

    async fn save_hand_decisions(
        &self,
        namespace: &str,
        at: Millis,
        who: &str,
        why: &str,
        decisions: &[HandDecision],
    ) -> Result<()> {
        let given = communities::encode_hand_decisions(decisions);
        let people = || self.account_pseudonyms(namespace, decisions.iter().map(|of| &*of.account));
        let decide = || {
            let statement = sqlx::query(BY_HAND).bind(namespace.to_owned()).bind(given.clone()).bind(at);
            let statement = statement.bind(clean(who).into_owned()).bind(clean(why).into_owned());
            statement.bind(people())
        };
        let _: Vec<()> = self.rows(decide).await?;
        Ok(())
    }

    async fn set_mark(&self, namespace: &str, accounts: &[String], mark: FollowMark) -> Result<()> {
        let given = communities::encode_ids(accounts);
        let mark = || sqlx::query(MARK).bind(namespace.to_owned()).bind(given.clone()).bind(mark as i64);
        let _: Vec<()> = self.rows(mark).await?;
        Ok(())
    }

    async fn accounts_with_mark(
        &self,
        namespaces: &[String],
        accounts: &[String],
        mark: FollowMark,
    ) -> Result<Vec<String>> {
        let (given, mut all) = (communities::encode_ids(accounts), Vec::new());
        for namespace in namespaces {
            let marked = || sqlx::query(MARKED).bind(namespace.to_owned()).bind(given.clone()).bind(mark as i64);
            let rows: Vec<(String,)> = self.rows(marked).await?;
            all.extend(rows.into_iter().map(|(account,)| account));
        }
        Ok(all)
    }

    async fn find_unwanted_posts(
        &self,
        of: &UnwantedQuery<'_>,
        accounts: &[String],
        limit: u32,
    ) -> Result<Vec<UnwantedPost>> {
        let (given, others) = (communities::encode_ids(accounts), communities::encode_ids(of.others));
        let unwanted = || {
            let statement = sqlx::query(UNWANTED).bind(of.namespace.to_owned()).bind(given.clone());
            let statement = statement.bind(of.posts.to_owned()).bind(of.profiles.to_owned()).bind(others.clone());
            statement.bind(of.visits.to_owned()).bind(i64::from(limit))
        };
        self.rows(unwanted).await
    }

    async fn save_languages(&self, posts: &str, languages: &[PostLanguage]) -> Result<()> {
        if languages.is_empty() {
            return Ok(());
        }
        let given = communities::encode_languages(languages);
        let _: Vec<()> = self.rows(|| sqlx::query(LANGUAGES).bind(posts.to_owned()).bind(given.clone())).await?;
        Ok(())
    }

    async fn unjudged_accounts(&self, namespace: &str, before: Millis, limit: u32) -> Result<Vec<String>> {
        let unjudged = || sqlx::query(communities::UNJUDGED).bind(namespace.to_owned()).bind(before);
        let rows: Vec<(String,)> = self.rows(|| unjudged().bind(i64::from(limit))).await?;
        Ok(rows.into_iter().map(|(account,)| account).collect())
    }

    async fn outdated_accounts(&self, namespace: &str, rule: &str, limit: u32) -> Result<Vec<String>> {
        let outdated = || sqlx::query(communities::OUTDATED).bind(namespace.to_owned()).bind(rule.to_owned());
        let rows: Vec<(String,)> = self.rows(|| outdated().bind(i64::from(limit))).await?;
        Ok(rows.into_iter().map(|(account,)| account).collect())
    }

    async fn size(&self, namespace: &str, of: Option<NetworkPipelines<'_>>, at: Millis) -> Result<CommunitySize> {
        let posts = of.map(|of| of.posts.to_owned());
        self.row(|| sqlx::query(communities::SIZE).bind(namespace.to_owned()).bind(at).bind(posts.clone())).await
    }

    async fn save_size(&self, namespace: &str, size: &CommunitySize) -> Result<()> {
        let CommunitySize { at, seen, candidates, open, members, outside, posts, edges } = *size;
        let note = || {
            let statement = sqlx::query(communities::SAVE_SIZE).bind(namespace.to_owned()).bind(at).bind(seen);
            statement.bind(candidates).bind(open).bind(members).bind(outside).bind(posts).bind(edges)
        };
        let _: Vec<()> = self.rows(note).await?;
        Ok(())
    }

    async fn past_sizes(&self, namespace: &str, since: Millis, limit: u32) -> Result<Vec<CommunitySize>> {
        let growth = || sqlx::query(communities::GROWTH).bind(namespace.to_owned()).bind(since);
        self.rows(|| growth().bind(i64::from(limit))).await
    }

    async fn community_account(&self, namespace: &str, account: &str) -> Result<Option<CommunityAccount>> {
        let known = || sqlx::query(communities::ACCOUNT).bind(namespace.to_owned()).bind(clean(account).into_owned());
        Ok(self.rows(known).await?.pop())
    }

    async fn belonging_changes(&self, namespace: &str, account: &str) -> Result<Vec<BelongingChange>> {
        self.rows(|| sqlx::query(communities::CHANGES).bind(namespace.to_owned()).bind(clean(account).into_owned()))
            .await
    }

    async fn appearances(&self, namespace: &str, account: &str, limit: u32) -> Result<Vec<StoredAppearance>> {
        let of = || sqlx::query(communities::APPEARANCES).bind(namespace.to_owned()).bind(clean(account).into_owned());
        self.rows(|| of().bind(i64::from(limit))).await
    }

    async fn page_community(
        &self,
        namespace: &str,
        state: Belonging,
        above: &str,
        limit: u32,
    ) -> Result<Vec<CommunityAccount>> {
        let page = || {
            let statement = sqlx::query(communities::PAGE).bind(namespace.to_owned()).bind(state.as_str());
            statement.bind(clean(above).into_owned()).bind(i64::from(limit))
        };
        self.rows(page).await
    }

    async fn near_misses(&self, namespace: &str, threshold: f64, limit: u32) -> Result<Vec<CommunityAccount>> {
        let near = || sqlx::query(communities::NEAR).bind(namespace.to_owned()).bind(threshold);
        self.rows(|| near().bind(i64::from(limit))).await
    }

    async fn count_by_reason(&self, namespace: &str) -> Result<Vec<(String, String, i64)>> {
        self.rows(|| sqlx::query(communities::BY_REASON).bind(namespace.to_owned())).await
    }
}
