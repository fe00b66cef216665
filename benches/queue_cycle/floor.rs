//! The floor: two sorted sets, nothing asked.

use std::sync::LazyLock;

use redis::Script;
use twitter_updater::base::backend::redis::{Call, RedisPool};

use super::{AsyncStep, BATCH, LEASE, id};
use crate::support::redis::TestRedis;

const DELAYED: &str = "{floor}:delayed";
const LEASED: &str = "{floor}:leased";

static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("floor_claim.lua")));
static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("floor_settle.lua")));

pub async fn fill(server: &TestRedis, ids: u64) {
    let mut connection = server.connection().await;
    for first in (0..ids).step_by(10_000) {
        let mut add = redis::cmd("ZADD");
        add.arg(DELAYED);
        for n in first..ids.min(first + 10_000) {
            add.arg(1_000 + n).arg(id(n));
        }
        let () = add.query_async(&mut connection).await.unwrap();
    }
}

pub struct Floor(RedisPool);

pub fn takers(pools: &[RedisPool]) -> Vec<Floor> {
    pools.iter().cloned().map(Floor).collect()
}

impl AsyncStep for Floor {
    async fn step(&mut self) -> usize {
        let mut claim = Call::on_keys(&CLAIM, &[DELAYED, LEASED]);
        let picked: Vec<(String, i64)> = self.0.invoke(claim.arg(BATCH).arg(LEASE.as_millis() as u64)).await.unwrap();
        let mut settle = Call::on_keys(&SETTLE, &[DELAYED, LEASED]);
        settle.arg(0);
        for (id, _) in &picked {
            settle.arg(id);
        }
        let settled: usize = self.0.invoke(&settle).await.unwrap();
        assert_eq!(settled, picked.len());
        settled
    }
}
