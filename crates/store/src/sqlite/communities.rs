use async_trait::async_trait;

use super::forget::find_blocked;
use super::{SqliteStore, read, read_column, read_first, read_one, write};
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
impl Communities for SqliteStore {
    async fn record_arrivals(
        &self,
        namespace: &str,
        at: Millis,
        found: &[FoundPost],
        appeared: &[Appearance],
        (posts, searches): (&str, &[String]),
    ) -> Result<Vec<KnownAccount>> {
        let mut tx = self.begin().await?;
        let people = appeared.iter().map(|of| &*of.account).chain(found.iter().map(|of| &*of.author));
        let people = people.chain(appeared.iter().filter_map(|of| author_from_id(of.post.as_deref()?)));
        let away = find_blocked(&mut tx, &self.keys, namespace, people.collect::<Vec<_>>()).await?;
        let is_away = |of: &Appearance| {
            let author = of.post.as_deref().and_then(author_from_id);
            away.contains(&of.account) || author.is_some_and(|author| away.contains(author))
        };
        let appeared: Vec<Appearance> = appeared.iter().filter(|of| !is_away(of)).cloned().collect();
        let found: Vec<FoundPost> = found.iter().filter(|of| !away.contains(&of.author)).cloned().collect();
        let (found, appeared) = (communities::encode_posts(&found), communities::encode_appearances(&appeared));
        write(&mut *tx, statement!("communities/record_appearances.lite", namespace, &appeared, at)).await?;
        if !searches.is_empty() {
            let statement = statement!(
                "communities/record_search_results.lite",
                namespace,
                &found,
                at,
                posts,
                communities::encode_ids(searches)
            );
            write(&mut *tx, statement).await?;
            write(&mut *tx, statement!("communities/add_appeared_accounts.lite", namespace, &found, at)).await?;
        }
        write(&mut *tx, statement!("communities/add_appeared_accounts.lite", namespace, &appeared, at)).await?;
        let known = read(&mut *tx, statement!("communities/count_posts.lite", namespace, &found)).await?;
        failpoint::point("before_commit");
        tx.commit().await?;
        Ok(known)
    }

    async fn belonging(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Belonging>>> {
        Ok(communities::order_states(
            accounts,
            read(self.readers(), statement!("communities/states.lite", namespace, communities::encode_ids(accounts)))
                .await?,
        ))
    }

    async fn admissible(&self, namespace: &str, at: Millis, growth: &GrowthLimits, limit: u32) -> Result<Vec<String>> {
        let mut accounts: Vec<String> =
            read_column(self.readers(), statement!("communities/admissible", namespace, growth.appearances, limit))
                .await?;
        if !accounts.is_empty() {
            accounts.truncate(communities::remaining_admissions(
                growth,
                read_one(self.readers(), statement!("communities/admission_counts", namespace, at - communities::DAY))
                    .await?,
            ));
        }
        Ok(accounts)
    }

    async fn admit(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<()> {
        self.write(statement!("communities/admit.lite", namespace, communities::encode_ids(accounts), at)).await
    }

    async fn facts(
        &self,
        namespace: &str,
        of: NetworkPipelines<'_>,
        accounts: &[String],
        texts: u32,
    ) -> Result<Vec<AccountFacts>> {
        let given = communities::encode_ids(accounts);
        let states = read(self.readers(), statement!("communities/states.lite", namespace, &given)).await?;
        let profiles = read(self.readers(), statement!("communities/profiles.lite", of.profiles, &given)).await?;
        let friends =
            read(self.readers(), statement!("communities/friends.lite", namespace, &given, of.friends)).await?;
        let mut all = Vec::new();
        for account in accounts.iter().filter(|_| texts > 0) {
            let statement = statement!("communities/texts.lite", of.posts, clean(account), of.profiles, texts);
            let newest: Vec<PostText> = read(self.readers(), statement).await?;
            all.extend(newest);
        }
        Ok(communities::join_facts(accounts, states, profiles, all, friends))
    }

    async fn save_decisions(&self, namespace: &str, at: Millis, rule: &str, decisions: &[Decision]) -> Result<()> {
        let given = communities::encode_decisions(decisions);
        let mut tx = self.begin().await?;
        write(&mut *tx, statement!("communities/save_decisions.lite", namespace, given, at, rule)).await?;
        failpoint::point("before_commit");
        Ok(tx.commit().await?)
    }

    async fn save_hand_decisions(
        &self,
        namespace: &str,
        at: Millis,
        who: &str,
        why: &str,
        decisions: &[HandDecision],
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        let people: Vec<&str> = decisions.iter().map(|of| &*of.account).collect();
        let away = find_blocked(&mut tx, &self.keys, namespace, people).await?;
        let decisions: Vec<HandDecision> = decisions.iter().filter(|of| !away.contains(&of.account)).cloned().collect();
        let given = communities::encode_hand_decisions(&decisions);
        write(
            &mut *tx,
            statement!("communities/save_hand_decisions.lite", namespace, given, at, clean(who), clean(why)),
        )
        .await?;
        Ok(tx.commit().await?)
    }

    async fn set_mark(&self, namespace: &str, accounts: &[String], mark: FollowMark) -> Result<()> {
        self.write(statement!("communities/set_mark.lite", namespace, communities::encode_ids(accounts), mark as i64))
            .await
    }

    async fn accounts_with_mark(
        &self,
        namespaces: &[String],
        accounts: &[String],
        mark: FollowMark,
    ) -> Result<Vec<String>> {
        let (given, mut all) = (communities::encode_ids(accounts), Vec::new());
        for namespace in namespaces {
            all.extend(
                read_column(self.readers(), statement!("communities/marked.lite", namespace, &given, mark as i64))
                    .await?,
            );
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
        let unwanted = statement!("communities/unwanted.lite", of.namespace, given, of.posts, of.profiles, others);
        read(self.readers(), unwanted.bind(of.visits).bind(limit)).await
    }

    async fn save_languages(&self, posts: &str, languages: &[PostLanguage]) -> Result<()> {
        if languages.is_empty() {
            return Ok(());
        }
        self.write(statement!("communities/languages.lite", posts, communities::encode_languages(languages))).await
    }

    async fn unjudged_accounts(&self, namespace: &str, before: Millis, limit: u32) -> Result<Vec<String>> {
        read_column(self.readers(), statement!("communities/unjudged", namespace, before, limit)).await
    }

    async fn outdated_accounts(&self, namespace: &str, rule: &str, limit: u32) -> Result<Vec<String>> {
        read_column(self.readers(), statement!("communities/outdated", namespace, rule, limit)).await
    }

    async fn size(&self, namespace: &str, of: Option<NetworkPipelines<'_>>, at: Millis) -> Result<CommunitySize> {
        read_one(self.readers(), statement!("communities/size", namespace, at, of.map(|of| of.posts))).await
    }

    async fn save_size(&self, namespace: &str, size: &CommunitySize) -> Result<()> {
        let CommunitySize { at, seen, candidates, open, members, outside, posts, edges } = *size;
        let statement =
            statement!("communities/save_size", namespace, at, seen, candidates, open, members, outside, posts, edges);
        self.write(statement).await
    }

    async fn past_sizes(&self, namespace: &str, since: Millis, limit: u32) -> Result<Vec<CommunitySize>> {
        read(self.readers(), statement!("communities/past_sizes", namespace, since, limit)).await
    }

    async fn community_account(&self, namespace: &str, account: &str) -> Result<Option<CommunityAccount>> {
        read_first(self.readers(), statement!("communities/account", namespace, clean(account))).await
    }

    async fn belonging_changes(&self, namespace: &str, account: &str) -> Result<Vec<BelongingChange>> {
        read(self.readers(), statement!("communities/changes", namespace, clean(account))).await
    }

    async fn appearances(&self, namespace: &str, account: &str, limit: u32) -> Result<Vec<StoredAppearance>> {
        read(self.readers(), statement!("communities/appearances", namespace, clean(account), limit)).await
    }

    async fn page_community(
        &self,
        namespace: &str,
        state: Belonging,
        above: &str,
        limit: u32,
    ) -> Result<Vec<CommunityAccount>> {
        read(self.readers(), statement!("communities/page", namespace, state.as_str(), clean(above), limit)).await
    }

    async fn near_misses(&self, namespace: &str, threshold: f64, limit: u32) -> Result<Vec<CommunityAccount>> {
        read(self.readers(), statement!("communities/near_misses", namespace, threshold, limit)).await
    }

    async fn count_by_reason(&self, namespace: &str) -> Result<Vec<(String, String, i64)>> {
        read(self.readers(), statement!("communities/by_reason", namespace)).await
    }
}
