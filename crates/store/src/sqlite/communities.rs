use async_trait::async_trait;

use super::SqliteStore;
use super::forget::find_blocked;
use crate::communities::{self, statements};
use crate::forget::author_from_id;
use crate::rows::clean;
use crate::{
    AccountFacts, Appearance, BelongingChange, Communities, CommunityAccount, CommunitySize, Decision, FollowMark,
    FoundPost, GrowthLimits, HandDecision, KnownAccount, NetworkPipelines, PostLanguage, PostText, Result,
    StoredAppearance, UnwantedPost, UnwantedQuery,
};
use engine::base::clock::Millis;
use engine::base::failpoint;
use networks::model::community::Belonging;

/// Always true: the same transaction removes blocked accounts before.
macro_rules! account_not_blocked {
    ($($whose:tt)*) => {
        "TRUE"
    };
}

macro_rules! among {
    ($which:literal) => {
        concat!("IN (SELECT given.value ->> 0 FROM json_each($2) AS given", $which, ")")
    };
}

statements!(
    "json_each($2) AS given",
    "json_each($5) AS searches",
    "post_language_row (tweet, language, confidence) SELECT tweet.key,",
    account_not_blocked,
    among
);

/// Newest posts of one account: SQLite has no lateral joins. CROSS JOIN stops it from scanning all posts.
const TEXTS: &str = "SELECT $2 AS account, tweet.id, tweet.text FROM (SELECT post FROM account_post WHERE namespace = $3 \
     AND id = $2 ORDER BY at DESC, post DESC LIMIT $4) AS newest CROSS JOIN tweet \
     WHERE tweet.namespace = $1 AND tweet.id = newest.post AND tweet.text IS NOT NULL AND tweet.retweet_of IS NULL \
     AND (tweet.author_id IS NULL OR tweet.author_id = $2)";

/// Joins in the order of the tables, each by its key.
const FRIENDS: &str = "SELECT of.account, count(*) FILTER (WHERE known.state = 'member'), \
     count(*) FILTER (WHERE known.state = 'outside') FROM (SELECT given.value ->> 0 AS account FROM json_each($2) AS given) AS of \
     CROSS JOIN tweet AS list CROSS JOIN list_edge AS edge CROSS JOIN list_account AS friend \
     CROSS JOIN community_account AS known WHERE list.namespace = $3 AND list.id = of.account \
     AND edge.list = list.key AND edge.closed_by IS NULL AND friend.key = edge.member \
     AND known.namespace = $1 AND known.account = friend.id GROUP BY of.account";

#[async_trait]
impl Communities for SqliteStore {
    async fn record_arrivals(
        &self,
        namespace: &str,
        at: Millis,
        found: &[FoundPost],
        appeared: &[Appearance],
        (posts, searches): (&str, &[String]),
    ) -> Result<Vec<KnownAccount>> {
        let mut transaction = self.begin().await?;
        let people = appeared.iter().map(|of| &*of.account).chain(found.iter().map(|of| &*of.author));
        let people = people.chain(appeared.iter().filter_map(|of| author_from_id(of.post.as_deref()?)));
        let away = find_blocked(&mut transaction, &self.keys, namespace, people.collect::<Vec<_>>()).await?;
        let is_away = |of: &Appearance| {
            let author = of.post.as_deref().and_then(author_from_id);
            away.contains(&of.account) || author.is_some_and(|author| away.contains(author))
        };
        let appeared: Vec<Appearance> = appeared.iter().filter(|of| !is_away(of)).cloned().collect();
        let found: Vec<FoundPost> = found.iter().filter(|of| !away.contains(&of.author)).cloned().collect();
        let (found, appeared) = (communities::encode_posts(&found), communities::encode_appearances(&appeared));
        let appear = sqlx::query(APPEAR).bind(namespace).bind(&appeared).bind(at);
        appear.execute(&mut *transaction).await?;
        if !searches.is_empty() {
            let find = sqlx::query(FIND).bind(namespace).bind(&found).bind(at).bind(posts);
            find.bind(communities::encode_ids(searches)).execute(&mut *transaction).await?;
            sqlx::query(SEE).bind(namespace).bind(&found).bind(at).execute(&mut *transaction).await?;
        }
        sqlx::query(SEE).bind(namespace).bind(&appeared).bind(at).execute(&mut *transaction).await?;
        let known = sqlx::query_as(COUNT_POSTS).bind(namespace).bind(&found).fetch_all(&mut *transaction).await?;
        failpoint::point("before_commit");
        transaction.commit().await?;
        Ok(known)
    }

    async fn belonging(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Belonging>>> {
        let rows = sqlx::query_as(STATES).bind(namespace).bind(communities::encode_ids(accounts));
        Ok(communities::order_states(accounts, rows.fetch_all(self.readers()).await?))
    }

    async fn admissible(&self, namespace: &str, at: Millis, growth: &GrowthLimits, limit: u32) -> Result<Vec<String>> {
        let accounts = sqlx::query_scalar(communities::ADMISSIBLE).bind(namespace).bind(growth.appearances).bind(limit);
        let mut accounts: Vec<String> = accounts.fetch_all(self.readers()).await?;
        if !accounts.is_empty() {
            let room = sqlx::query_as(communities::ROOM).bind(namespace).bind(at - communities::DAY);
            accounts.truncate(communities::remaining_admissions(growth, room.fetch_one(self.readers()).await?));
        }
        Ok(accounts)
    }

    async fn admit(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<()> {
        let mut transaction = self.begin().await?;
        let admit = sqlx::query(ADMIT).bind(namespace).bind(communities::encode_ids(accounts)).bind(at);
        admit.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn facts(
        &self,
        namespace: &str,
        of: NetworkPipelines<'_>,
        accounts: &[String],
        texts: u32,
    ) -> Result<Vec<AccountFacts>> {
        let given = communities::encode_ids(accounts);
        let states = sqlx::query_as(STATES).bind(namespace).bind(&given).fetch_all(self.readers()).await?;
        let profiles = sqlx::query_as(PROFILES).bind(of.profiles).bind(&given).fetch_all(self.readers()).await?;
        let friends = sqlx::query_as(FRIENDS).bind(namespace).bind(&given).bind(of.friends);
        let friends = friends.fetch_all(self.readers()).await?;
        let mut all = Vec::new();
        for account in accounts.iter().filter(|_| texts > 0) {
            let newest = sqlx::query_as(TEXTS).bind(of.posts).bind(clean(account)).bind(of.profiles).bind(texts);
            let newest: Vec<PostText> = newest.fetch_all(self.readers()).await?;
            all.extend(newest);
        }
        Ok(communities::join_facts(accounts, states, profiles, all, friends))
    }

    async fn save_decisions(&self, namespace: &str, at: Millis, rule: &str, decisions: &[Decision]) -> Result<()> {
        let given = communities::encode_decisions(decisions);
        let mut transaction = self.begin().await?;
        sqlx::query(DECIDE).bind(namespace).bind(given).bind(at).bind(rule).execute(&mut *transaction).await?;
        failpoint::point("before_commit");
        Ok(transaction.commit().await?)
    }

    async fn save_hand_decisions(
        &self,
        namespace: &str,
        at: Millis,
        who: &str,
        why: &str,
        decisions: &[HandDecision],
    ) -> Result<()> {
        let mut transaction = self.begin().await?;
        let people: Vec<&str> = decisions.iter().map(|of| &*of.account).collect();
        let away = find_blocked(&mut transaction, &self.keys, namespace, people).await?;
        let decisions: Vec<HandDecision> = decisions.iter().filter(|of| !away.contains(&of.account)).cloned().collect();
        let given = communities::encode_hand_decisions(&decisions);
        let decide = sqlx::query(BY_HAND).bind(namespace).bind(given).bind(at).bind(clean(who)).bind(clean(why));
        decide.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn set_mark(&self, namespace: &str, accounts: &[String], mark: FollowMark) -> Result<()> {
        let mut transaction = self.begin().await?;
        let mark = sqlx::query(MARK).bind(namespace).bind(communities::encode_ids(accounts)).bind(mark as i64);
        mark.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn accounts_with_mark(
        &self,
        namespaces: &[String],
        accounts: &[String],
        mark: FollowMark,
    ) -> Result<Vec<String>> {
        let (given, mut all) = (communities::encode_ids(accounts), Vec::new());
        for namespace in namespaces {
            let marked = sqlx::query_scalar(MARKED).bind(namespace).bind(&given).bind(mark as i64);
            all.extend(marked.fetch_all(self.readers()).await?);
        }
        Ok(all)
    }

    async fn find_unwanted_posts(
        &self,
        of: &UnwantedQuery<'_>,
        accounts: &[String],
        limit: u32,
    ) -> Result<Vec<UnwantedPost>> {
        let unwanted =
            sqlx::query_as(UNWANTED).bind(of.namespace).bind(communities::encode_ids(accounts)).bind(of.posts);
        let unwanted = unwanted.bind(of.profiles).bind(communities::encode_ids(of.others)).bind(of.visits).bind(limit);
        Ok(unwanted.fetch_all(self.readers()).await?)
    }

    async fn save_languages(&self, posts: &str, languages: &[PostLanguage]) -> Result<()> {
        if languages.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        let save = sqlx::query(LANGUAGES).bind(posts).bind(communities::encode_languages(languages));
        save.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn unjudged_accounts(&self, namespace: &str, before: Millis, limit: u32) -> Result<Vec<String>> {
        let unjudged = sqlx::query_scalar(communities::UNJUDGED).bind(namespace).bind(before).bind(limit);
        Ok(unjudged.fetch_all(self.readers()).await?)
    }

    async fn outdated_accounts(&self, namespace: &str, rule: &str, limit: u32) -> Result<Vec<String>> {
        let outdated = sqlx::query_scalar(communities::OUTDATED).bind(namespace).bind(rule).bind(limit);
        Ok(outdated.fetch_all(self.readers()).await?)
    }

    async fn size(&self, namespace: &str, of: Option<NetworkPipelines<'_>>, at: Millis) -> Result<CommunitySize> {
        let size = sqlx::query_as(communities::SIZE).bind(namespace).bind(at).bind(of.map(|of| of.posts));
        Ok(size.fetch_one(self.readers()).await?)
    }

    async fn save_size(&self, namespace: &str, size: &CommunitySize) -> Result<()> {
        let CommunitySize { at, seen, candidates, open, members, outside, posts, edges } = *size;
        let mut transaction = self.begin().await?;
        let note = sqlx::query(communities::SAVE_SIZE).bind(namespace).bind(at).bind(seen).bind(candidates).bind(open);
        note.bind(members).bind(outside).bind(posts).bind(edges).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn past_sizes(&self, namespace: &str, since: Millis, limit: u32) -> Result<Vec<CommunitySize>> {
        let growth = sqlx::query_as(communities::GROWTH).bind(namespace).bind(since).bind(limit);
        Ok(growth.fetch_all(self.readers()).await?)
    }

    async fn community_account(&self, namespace: &str, account: &str) -> Result<Option<CommunityAccount>> {
        let known = sqlx::query_as(communities::ACCOUNT).bind(namespace).bind(clean(account));
        Ok(known.fetch_optional(self.readers()).await?)
    }

    async fn belonging_changes(&self, namespace: &str, account: &str) -> Result<Vec<BelongingChange>> {
        let changes = sqlx::query_as(communities::CHANGES).bind(namespace).bind(clean(account));
        Ok(changes.fetch_all(self.readers()).await?)
    }

    async fn appearances(&self, namespace: &str, account: &str, limit: u32) -> Result<Vec<StoredAppearance>> {
        let appearances = sqlx::query_as(communities::APPEARANCES).bind(namespace).bind(clean(account)).bind(limit);
        Ok(appearances.fetch_all(self.readers()).await?)
    }

    async fn page_community(
        &self,
        namespace: &str,
        state: Belonging,
        above: &str,
        limit: u32,
    ) -> Result<Vec<CommunityAccount>> {
        let page =
            sqlx::query_as(communities::PAGE).bind(namespace).bind(state.as_str()).bind(clean(above)).bind(limit);
        Ok(page.fetch_all(self.readers()).await?)
    }

    async fn near_misses(&self, namespace: &str, threshold: f64, limit: u32) -> Result<Vec<CommunityAccount>> {
        let near = sqlx::query_as(communities::NEAR).bind(namespace).bind(threshold).bind(limit);
        Ok(near.fetch_all(self.readers()).await?)
    }

    async fn count_by_reason(&self, namespace: &str) -> Result<Vec<(String, String, i64)>> {
        Ok(sqlx::query_as(communities::BY_REASON).bind(namespace).fetch_all(self.readers()).await?)
    }
}
