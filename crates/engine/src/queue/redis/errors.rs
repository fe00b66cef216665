//! Errors that workers recorded.

use std::sync::LazyLock;

use async_trait::async_trait;
use redis::Script;

use super::super::errors::lowercase_names;
use super::super::{ERRORS_KEPT, ERRORS_KEPT_FOR, ErrorRecords, NO_EXAMPLES_FOR, RecordedError, Result};
use super::{RedisQueue, SCHEDULE_CHUNK};
use crate::base::backend::redis::{ALLOW_OOM, Call, NO_WRITES, script};
use crate::base::clock;

static RECORD: LazyLock<Script> = LazyLock::new(|| {
    let text = concat!(include_str!("../lua/keep_newest.lua"), "\n", include_str!("../lua/record_errors.lua"));
    script(ALLOW_OOM, text)
});
static ERRORS: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/errors.lua")));
static FORGET: LazyLock<Script> = LazyLock::new(|| {
    let text = concat!(include_str!("../lua/blank_errors.lua"), "\n", include_str!("../lua/forget_errors.lua"));
    script(ALLOW_OOM, text)
});

#[async_trait]
impl ErrorRecords for RedisQueue {
    async fn record_errors(&self, errors: &[RecordedError]) -> Result<()> {
        let mut call = Call::new(&RECORD, &self.keys.prefix);
        call.arg(ERRORS_KEPT).arg(clock::millis(ERRORS_KEPT_FOR));
        for error in errors {
            // Only texts and numbers, so this cannot fail.
            call.arg(error.key()).arg(serde_json::to_string(error).unwrap_or_default());
        }
        if errors.is_empty() { Ok(()) } else { self.pool.invoke(&call).await }
    }

    async fn errors(&self, most: usize) -> Result<Vec<RecordedError>> {
        let mut call = Call::new(&ERRORS, &self.keys.prefix);
        let texts: Vec<String> = self.pool.invoke(call.arg(most).arg(clock::millis(ERRORS_KEPT_FOR))).await?;
        // Entries of a newer version may have another form: they are skipped.
        Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
    }

    async fn forget_errors(&self, names: &[String]) -> Result<()> {
        let names: Vec<String> = lowercase_names(names).into_iter().collect();
        for names in names.chunks(SCHEDULE_CHUNK) {
            let mut call = Call::new(&FORGET, &self.keys.prefix);
            let () = self.pool.invoke(call.arg(clock::millis(NO_EXAMPLES_FOR)).arg(names)).await?;
        }
        Ok(())
    }
}
