//! Members that are not ids: those rejected from `incoming`, and those added to a lane by hand.

use std::sync::LazyLock;

use redis::Script;

use super::super::{REFUSED_KEPT, REFUSED_KEPT_FOR, Result, check_id};
use super::{RedisQueue, SCHEDULE_CHUNK, escape};
use crate::base::backend::redis::{ALLOW_OOM, Call, script};
use crate::base::clock;

static REFUSE: LazyLock<Script> = LazyLock::new(|| {
    let text = concat!(include_str!("../lua/keep_newest.lua"), "\n", include_str!("../lua/refuse.lua"));
    script(ALLOW_OOM, text)
});

/// Moves members to `incoming:refused`, each with its reason: from `incoming`, or from the lease of this fence and token.
pub(super) async fn move_to_refused(
    queue: &RedisQueue,
    (fence, token): (&str, &str),
    members: &[(Vec<u8>, &str)],
) -> Result<()> {
    for members in members.chunks(SCHEDULE_CHUNK) {
        let mut call = Call::new(&REFUSE, &queue.keys.prefix);
        call.arg(fence).arg(token).arg(REFUSED_KEPT).arg(clock::millis(REFUSED_KEPT_FOR));
        for (member, reason) in members {
            call.arg(member).arg(*reason);
        }
        let () = queue.pool.invoke(&call).await?;
    }
    Ok(())
}

/// Moves members of a claim's record that are no ids, since they make the batch unreadable. Returns their number.
pub(super) async fn refuse_invalid_members(queue: &RedisQueue, token: &str, record: &[u8]) -> Result<usize> {
    let fence: String = record.iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| char::from(*byte)).collect();
    let mut leased = redis::cmd("ZRANGEBYSCORE");
    leased.arg(queue.keys.leased()).arg(&fence).arg(&fence);
    let members: Vec<Vec<u8>> = queue.pool.read(&queue.keys.prefix, &leased).await?;
    let refused: Vec<(Vec<u8>, &str)> =
        members.into_iter().filter_map(|member| Some((member.clone(), id_fault(&member)?))).collect();
    if let Some((first, reason)) = refused.first() {
        tracing::warn!(
            namespace = queue.namespace,
            refused = refused.len(),
            first = escape(first).escape_default().to_string(),
            first_reason = reason,
            "lane members with malformed ids were moved to incoming:refused"
        );
        move_to_refused(queue, (&fence, token), &refused).await?;
    }
    Ok(refused.len())
}

/// The reason why it is not an id; `None` if it is one.
fn id_fault(member: &[u8]) -> Option<&'static str> {
    match std::str::from_utf8(member) {
        Ok(id) => check_id(id).err(),
        Err(_) => Some("it is not UTF-8"),
    }
}
