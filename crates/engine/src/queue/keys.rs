//! Every Redis key of the queue, with its type. People with redis-cli read this file.
//!
//! All keys of a namespace carry the same hash tag, so they live in one slot of a cluster.
//! Scripts declare `{ns}:` and `{ns}:.`, which never exist: so no call runs while a cluster moves the slot.
//! Outsiders write `incoming` only; everything else is theirs to read.
//!
//! | key | type | holds |
//! |---|---|---|
//! | `{ns}:delayed:<lane>` | ZSET | id → due, ms since the epoch |
//! | `{ns}:lanes` | HASH | lane → patience, ms; `patience:tier:order` in another tier than 0, or `oldest` or `newest` first |
//! | `{ns}:leased` | ZSET | id → fence: the lease's deadline, ms since the epoch |
//! | `{ns}:fence` | STRING | the last fence |
//! | `{ns}:claim:<token>` | STRING | the batch of that claim, or the fence of a rebuild's page, until it is settled or its lease ends |
//! | `{ns}:deliveries` | HASH | id → leases that ran out, and counted retries (only ids that have any) |
//! | `{ns}:failures` | HASH | id → those that the id itself caused |
//! | `{ns}:trials` | HASH | id → the fence of its trial, in which its process handles nothing else |
//! | `{ns}:promoted` | HASH | leased id → "due kind lane" (the kind as in `{ns}:lanes`) it takes when its lease ends; due in ms since the epoch |
//! | `{ns}:turns` | STRING | claims since the last claim of suspects |
//! | `{ns}:incoming` | ZSET | id → the item's date, ms since the epoch (0: take it from the id) |
//! | `{ns}:incoming:refused` | HASH | malformed or too old member of `incoming`, or malformed one of a lane → reason; expires |
//! | `{ns}:incoming:refused:at` | ZSET | the same → refused at, ms since the epoch: the newest 10,000 of 30 days are kept; expires |
//! | `{ns}:incoming:drainer` | STRING | the worker that drains it, expires |
//! | `{ns}:dead` | ZSET | id → time of its death, ms since the epoch |
//! | `{ns}:dead:why` | HASH | id → reason |
//! | `{ns}:stats` | HASH | counters since the beginning |
//! | `{ns}:rate:<minute>` | HASH | the same counters of one minute since the epoch; expires |
//! | `{ns}:lateness:<minute>` | HASH | upper bound, ms → ids that were claimed so late, of one minute; expires |
//! | `{ns}:hour:<hour>` | HASH | the same counters of one hour since the epoch, and `minutes`: how many were added; expires |
//! | `{ns}:hour:lateness:<hour>` | HASH | upper bound, ms → ids that were claimed so late, of one hour; expires |
//! | `{ns}:hour:until` | STRING | the last minute since the epoch that was added to its hour; expires |
//! | `{ns}:workers` | ZSET | worker → last heartbeat, ms since the epoch |
//! | `{ns}:worker:<id>` | HASH | the worker's own report; expires |
//! | `{ns}:errors` | HASH | pipeline, kind, host and endpoint → the errors of workers there, JSON: count, first and last time, example, message; expires |
//! | `{ns}:errors:at` | ZSET | the same → the last error, ms since the epoch: the newest 200 of 7 days are kept; expires |
//! | `{ns}:errors:bare` | STRING | errors up to this moment, ms since the epoch, are recorded without an example, because a person was forgotten; expires |
//! | `{ns}:paused` | STRING | the reason; while the key exists, no ids are claimed |
//! | `twitter-updater:namespaces` | SET | all namespaces |

pub const NAMESPACES: &str = "twitter-updater:namespaces";

/// The keys of one namespace; the table above has their types. The scripts build other names from [`Keys::prefix`] likewise.
#[derive(Debug, Clone)]
pub struct Keys {
    /// `{ns}:`
    pub prefix: String,
}

impl Keys {
    #[must_use]
    pub fn new(namespace: &str) -> Self {
        Self { prefix: format!("{{{namespace}}}:") }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    #[must_use]
    pub fn delayed(&self, lane: &str) -> String {
        self.key(&format!("delayed:{lane}"))
    }

    #[must_use]
    pub fn lanes(&self) -> String {
        self.key("lanes")
    }

    #[must_use]
    pub fn leased(&self) -> String {
        self.key("leased")
    }

    #[must_use]
    pub fn deliveries(&self) -> String {
        self.key("deliveries")
    }

    #[must_use]
    pub fn failures(&self) -> String {
        self.key("failures")
    }

    #[must_use]
    pub fn trials(&self) -> String {
        self.key("trials")
    }

    #[must_use]
    pub fn promoted(&self) -> String {
        self.key("promoted")
    }

    #[must_use]
    pub fn turns(&self) -> String {
        self.key("turns")
    }

    #[must_use]
    pub fn incoming(&self) -> String {
        self.key("incoming")
    }

    #[must_use]
    pub fn incoming_refused(&self) -> String {
        self.key("incoming:refused")
    }

    #[must_use]
    pub fn incoming_drainer(&self) -> String {
        self.key("incoming:drainer")
    }

    #[must_use]
    pub fn dead(&self) -> String {
        self.key("dead")
    }

    #[must_use]
    pub fn dead_why(&self) -> String {
        self.key("dead:why")
    }

    #[must_use]
    pub fn stats(&self) -> String {
        self.key("stats")
    }

    #[must_use]
    pub fn workers(&self) -> String {
        self.key("workers")
    }

    #[must_use]
    pub fn worker(&self, worker: &str) -> String {
        self.key(&format!("worker:{worker}"))
    }

    #[must_use]
    pub fn paused(&self) -> String {
        self.key("paused")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_share_the_hash_tag() {
        let keys = Keys::new("thing:update");
        let all = [
            keys.delayed("18m"),
            keys.lanes(),
            keys.leased(),
            keys.deliveries(),
            keys.failures(),
            keys.trials(),
            keys.promoted(),
            keys.turns(),
            keys.incoming(),
            keys.incoming_refused(),
            keys.incoming_drainer(),
            keys.dead(),
            keys.dead_why(),
            keys.stats(),
            keys.workers(),
            keys.worker("w1"),
            keys.paused(),
        ];
        for key in all {
            assert!(key.starts_with("{thing:update}:"), "{key}");
        }
    }
}
