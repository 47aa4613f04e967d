//! Sets of numbers as sorted runs.

/// Numbers from `start` to before `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A set of numbers: runs in order, apart from each other.
#[derive(Clone, Debug)]
pub(super) struct Intervals {
    runs: Vec<Run>,
}

impl Intervals {
    pub(super) fn new() -> Self {
        Self { runs: Vec::with_capacity(64) }
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Adds a run; returns how many of its numbers are new.
    pub(super) fn insert(&mut self, new: Run) -> u64 {
        if new.start >= new.end {
            return 0;
        }
        let first = self.runs.partition_point(|run| run.end < new.start);
        let last = self.runs.partition_point(|run| run.start <= new.end);
        let Some(touched) = self.runs.get(first..last).filter(|touched| !touched.is_empty()) else {
            self.runs.insert(first, new);
            return new.end - new.start;
        };
        let before: u64 = touched.iter().map(|run| run.end - run.start).sum();
        let joined =
            Run { start: new.start.min(touched[0].start), end: new.end.max(touched[touched.len() - 1].end) };
        self.runs[first] = joined;
        self.runs.drain(first + 1..last);
        joined.end - joined.start - before
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.run_at(number).is_some()
    }

    /// The run that holds a number.
    pub(super) fn run_at(&self, number: u64) -> Option<Run> {
        let index = self.runs.partition_point(|run| run.end <= number);
        self.runs.get(index).copied().filter(|run| run.start <= number)
    }

    /// The first part of `run` that is not in the set.
    pub(super) fn first_missing(&self, run: Run) -> Option<Run> {
        let mut start = run.start;
        let mut index = self.runs.partition_point(|held| held.end <= start);
        if let Some(held) = self.runs.get(index).filter(|held| held.start <= start) {
            start = held.end;
            index += 1;
        }
        let end = self.runs.get(index).map_or(run.end, |held| held.start.min(run.end));
        (start < end).then_some(Run { start, end })
    }

    /// End of the run that starts at zero; 0 if there is none.
    pub(super) fn prefix(&self) -> u64 {
        self.runs.first().filter(|run| run.start == 0).map_or(0, |run| run.end)
    }

    /// Removes all numbers before `number`.
    pub(super) fn forget_before(&mut self, number: u64) {
        let removed = self.runs.partition_point(|run| run.end <= number);
        self.runs.drain(..removed);
        if let Some(run) = self.runs.first_mut() {
            run.start = run.start.max(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_the_set_of_inserted_numbers(ops in prop::collection::vec((0..80_u64, 0..12_u64), 1..40), floor in 0..40_u64) {
            let (mut runs, mut set) = (Intervals::new(), BTreeSet::new());
            for (start, len) in ops {
                let new = (start..start + len).filter(|&number| set.insert(number)).count() as u64;
                prop_assert_eq!(runs.insert(Run { start, end: start + len }), new);
            }
            for pair in runs.runs().windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
            let prefix = (0..).take_while(|number| set.contains(number)).count() as u64;
            prop_assert_eq!(runs.prefix(), prefix);
            for number in 0..100 {
                prop_assert_eq!(runs.contains(number), set.contains(&number));
                let gap: Vec<_> = (number..number + 9).skip_while(|n| set.contains(n)).take_while(|n| !set.contains(n)).collect();
                let expected = gap.first().map(|&start| Run { start, end: start + gap.len() as u64 });
                prop_assert_eq!(runs.first_missing(Run { start: number, end: number + 9 }), expected);
            }
            runs.forget_before(floor);
            for number in 0..100 {
                prop_assert_eq!(runs.contains(number), number >= floor && set.contains(&number));
            }
        }
    }
}
