//! Range of every paged list: a row number and a row limit whose sum cannot overflow.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRange {
    first: u64,
    limit: u32,
}

impl RowRange {
    /// Greatest first row. With any limit the last row still fits into 63 bits, the maximum of Redis and SQLite.
    const MAX_FIRST: u64 = i64::MAX as u64 - u32::MAX as u64;

    /// Up to `limit` rows from row `first` on, counted from 0. A row number beyond any list gives an empty range at the end.
    #[must_use]
    pub fn new(first: u64, limit: u32) -> Self {
        Self { first: first.min(Self::MAX_FIRST), limit }
    }

    #[must_use]
    pub fn first(self) -> u64 {
        self.first
    }

    #[must_use]
    pub fn limit(self) -> u32 {
        self.limit
    }

    /// Number of the last row; `None` for a limit of 0.
    #[must_use]
    pub fn last(self) -> Option<u64> {
        Some(self.first + u64::from(self.limit.checked_sub(1)?))
    }

    /// First row of the next page, after a page of `rows` rows; `None` if this page was not full.
    #[must_use]
    pub fn next_after(self, rows: usize) -> Option<u64> {
        (rows == self.limit as usize).then(|| self.first + u64::from(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_number_overflows() {
        for first in [0, 1, i64::MAX as u64, 1 << 63, u64::MAX] {
            for limit in [0, 1, 50, u32::MAX] {
                let rows = RowRange::new(first, limit);
                let last = rows.last();
                assert_eq!(last.is_none(), limit == 0);
                assert!(last.is_none_or(|last| i64::try_from(last).is_ok()), "{rows:?}");
                assert!(rows.next_after(limit as usize).is_some_and(|next| i64::try_from(next).is_ok()), "{rows:?}");
            }
        }
        assert_eq!(RowRange::new(100, 50).last(), Some(149));
        assert_eq!((RowRange::new(100, 50).next_after(50), RowRange::new(100, 50).next_after(49)), (Some(150), None));
    }
}
