//! The order of visits of the paper on visiting (002, algorithm 1). Pure.

/// The paper's algorithm 1: the order of visits, as positions in `rates`.
#[must_use]
pub fn organ_pipe_order(rates: &[f64]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..rates.len()).collect();
    sorted.sort_by(|one, other| rates[*one].total_cmp(&rates[*other]));
    let rising = sorted.iter().copied().step_by(2);
    let falling = sorted.iter().copied().skip(1).step_by(2);
    rising.chain(falling.rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_papers() {
        // The paper's example: rates 0 to 5 in the order 0, 2, 4, 5, 3, 1.
        assert_eq!(organ_pipe_order(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), [0, 2, 4, 5, 3, 1]);
        assert!(organ_pipe_order(&[]).is_empty());
    }
}
