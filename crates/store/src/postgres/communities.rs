use async_trait::async_trait;

use super::PostgresStore;
use crate::communities;
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
        let authors: Vec<&str> = appeared.iter().filter_map(|of| author_from_id(of.post.as_deref()?)).collect();
        let people = || self.account_pseudonyms(namespace, people.iter().chain(&authors).copied());
        let (has_found, has_appeared) = (!found.is_empty(), !appeared.is_empty());
        let (found, appeared) = (communities::encode_posts(found), communities::encode_appearances(appeared));
        let with = |statement: &'static str, given: &str| statement!(statement, namespace, given, at);
        if has_appeared {
            self.write(|| with(sql!("communities/record_appearances.pg"), &appeared).bind(people())).await?;
            self.write(|| with(sql!("communities/add_appeared_accounts.pg"), &appeared).bind(people())).await?;
        }
        if has_found && !searches.is_empty() {
            let searches = communities::encode_ids(searches);
            let find = || {
                with(sql!("communities/record_search_results.pg"), &found).bind(posts).bind(&searches).bind(people())
            };
            self.write(find).await?;
            self.write(|| with(sql!("communities/add_appeared_accounts.pg"), &found).bind(people())).await?;
        }
        failpoint::point("before_commit");
        self.read(|| statement!("communities/count_posts.pg", namespace, &found)).await
    }

    async fn belonging(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Belonging>>> {
        let given = communities::encode_ids(accounts);
        let rows = self.read(|| statement!("communities/states.pg", namespace, &given)).await?;
        Ok(communities::order_states(accounts, rows))
    }

    async fn admissible(&self, namespace: &str, at: Millis, growth: &GrowthLimits, limit: u32) -> Result<Vec<String>> {
        let (least, limit) = (i64::from(growth.appearances), i64::from(limit));
        let mut accounts = self.read_column(|| statement!("communities/admissible", namespace, least, limit)).await?;
        if !accounts.is_empty() {
            let room =
                self.read_one(|| statement!("communities/admission_counts", namespace, at - communities::DAY)).await?;
            accounts.truncate(communities::remaining_admissions(growth, room));
        }
        Ok(accounts)
    }

    async fn admit(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<()> {
        let given = communities::encode_ids(accounts);
        self.write(|| statement!("communities/admit.pg", namespace, &given, at)).await
    }

    async fn facts(
        &self,
        namespace: &str,
        of: NetworkPipelines<'_>,
        accounts: &[String],
        texts: u32,
    ) -> Result<Vec<AccountFacts>> {
        let given = communities::encode_ids(accounts);
        let with = |statement: &'static str, namespace: &str| statement!(statement, namespace, &given);
        let states = self.read(|| with(sql!("communities/states.pg"), namespace)).await?;
        let profiles = self.read(|| with(sql!("communities/profiles.pg"), of.profiles)).await?;
        let friends = self.read(|| with(sql!("communities/friends.pg"), namespace).bind(of.friends)).await?;
        let newest = || with(sql!("communities/texts.pg"), of.posts).bind(of.profiles).bind(i64::from(texts));
        let texts: Vec<PostText> = if texts > 0 { self.read(newest).await? } else { Vec::new() };
        Ok(communities::join_facts(accounts, states, profiles, texts, friends))
    }

    async fn save_decisions(&self, namespace: &str, at: Millis, rule: &str, decisions: &[Decision]) -> Result<()> {
        let given = communities::encode_decisions(decisions);
        failpoint::point("before_commit"); // the statement is its own transaction
        self.write(|| statement!("communities/save_decisions.pg", namespace, &given, at, rule)).await
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
        self.write(|| {
            statement!("communities/save_hand_decisions.pg", namespace, &given, at, clean(who), clean(why), people())
        })
        .await
    }

    async fn set_mark(&self, namespace: &str, accounts: &[String], mark: FollowMark) -> Result<()> {
        let given = communities::encode_ids(accounts);
        self.write(|| statement!("communities/set_mark.pg", namespace, &given, mark as i64)).await
    }

    async fn accounts_with_mark(
        &self,
        namespaces: &[String],
        accounts: &[String],
        mark: FollowMark,
    ) -> Result<Vec<String>> {
        let (given, mut all) = (communities::encode_ids(accounts), Vec::new());
        for namespace in namespaces {
            let marked = || statement!("communities/marked.pg", namespace, &given, mark as i64);
            all.extend(self.read_column::<String>(marked).await?);
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
            let unwanted = statement!("communities/unwanted.pg", of.namespace, &given, of.posts, of.profiles, &others);
            unwanted.bind(of.visits).bind(i64::from(limit))
        };
        self.read(unwanted).await
    }

    async fn save_languages(&self, posts: &str, languages: &[PostLanguage]) -> Result<()> {
        if languages.is_empty() {
            return Ok(());
        }
        let given = communities::encode_languages(languages);
        self.write(|| statement!("communities/languages.pg", posts, &given)).await
    }

    async fn unjudged_accounts(&self, namespace: &str, before: Millis, limit: u32) -> Result<Vec<String>> {
        self.read_column(|| statement!("communities/unjudged", namespace, before, i64::from(limit))).await
    }

    async fn outdated_accounts(&self, namespace: &str, rule: &str, limit: u32) -> Result<Vec<String>> {
        self.read_column(|| statement!("communities/outdated", namespace, rule, i64::from(limit))).await
    }

    async fn size(&self, namespace: &str, of: Option<NetworkPipelines<'_>>, at: Millis) -> Result<CommunitySize> {
        self.read_one(|| statement!("communities/size", namespace, at, of.map(|of| of.posts))).await
    }

    async fn save_size(&self, namespace: &str, size: &CommunitySize) -> Result<()> {
        let CommunitySize { at, seen, candidates, open, members, outside, posts, edges } = *size;
        self.write(|| {
            statement!("communities/save_size", namespace, at, seen, candidates, open, members, outside, posts, edges)
        })
        .await
    }

    async fn past_sizes(&self, namespace: &str, since: Millis, limit: u32) -> Result<Vec<CommunitySize>> {
        self.read(|| statement!("communities/past_sizes", namespace, since, i64::from(limit))).await
    }

    async fn community_account(&self, namespace: &str, account: &str) -> Result<Option<CommunityAccount>> {
        self.read_first(|| statement!("communities/account", namespace, clean(account))).await
    }

    async fn belonging_changes(&self, namespace: &str, account: &str) -> Result<Vec<BelongingChange>> {
        self.read(|| statement!("communities/changes", namespace, clean(account))).await
    }

    async fn appearances(&self, namespace: &str, account: &str, limit: u32) -> Result<Vec<StoredAppearance>> {
        self.read(|| statement!("communities/appearances", namespace, clean(account), i64::from(limit))).await
    }

    async fn page_community(
        &self,
        namespace: &str,
        state: Belonging,
        above: &str,
        limit: u32,
    ) -> Result<Vec<CommunityAccount>> {
        self.read(|| statement!("communities/page", namespace, state.as_str(), clean(above), i64::from(limit))).await
    }

    async fn near_misses(&self, namespace: &str, threshold: f64, limit: u32) -> Result<Vec<CommunityAccount>> {
        self.read(|| statement!("communities/near_misses", namespace, threshold, i64::from(limit))).await
    }

    async fn count_by_reason(&self, namespace: &str) -> Result<Vec<(String, String, i64)>> {
        self.read(|| statement!("communities/by_reason", namespace)).await
    }
}
