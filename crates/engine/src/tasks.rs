//! Scheduled tasks and whose turn is next: stride scheduling (Waldspurger and Weihl, 1995), as in Click.
//!
//! While all tasks have the same number of tickets, strides come to taking turns, and a plain queue does.

use std::collections::VecDeque;

use element::ElementId;

/// Tickets of a task of which nothing else was said.
pub(crate) const USUAL_TICKETS: u32 = element::setup::TICKETS_OF_ONE;
/// The most tickets that a task can have.
pub(crate) const MOST_TICKETS: u32 = 1 << 15;
/// What a task with one ticket moves on by.
const STRIDE: u64 = 1 << 16;

/// The tasks of a worker.
pub(crate) struct Tasks {
    /// Scheduled tasks whose time has come,
    first: VecDeque<ElementId>,
    /// and those that wait for a turn, next one first.
    queue: VecDeque<ElementId>,
    scheduled: Vec<bool>,
    /// Only where tickets differ.
    shares: Option<Box<Shares>>,
}

/// How far each task has come. The one that is behind the others is next.
struct Shares {
    tickets: Vec<u32>,
    /// Where a task goes on; it moves by a stride whenever it runs.
    pass: Vec<u64>,
    /// Where the task that ran last was: one that has slept starts there, so that it has not saved up turns.
    now: u64,
}

impl Tasks {
    /// For so many elements, none of which is scheduled.
    pub(crate) fn new(elements: usize) -> Tasks {
        Tasks {
            first: VecDeque::new(),
            queue: VecDeque::new(),
            scheduled: vec![false; elements],
            shares: None,
        }
    }

    /// Whether no task is scheduled.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.queue.is_empty()
    }

    /// How many tasks are scheduled.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.queue.len()
    }

    #[inline]
    pub(crate) fn is_scheduled(&self, task: ElementId) -> bool {
        self.scheduled[task]
    }

    /// Schedules a task behind those whose turn is not later than its own.
    #[inline]
    pub(crate) fn schedule(&mut self, task: ElementId) {
        if std::mem::replace(&mut self.scheduled[task], true) {
            return;
        }
        match self.shares.as_deref_mut() {
            None => self.queue.push_back(task),
            Some(shares) => shares.insert(&mut self.queue, &mut self.scheduled, task),
        }
    }

    /// Schedules a task in front of those that wait for a turn: it has waited for a time.
    pub(crate) fn schedule_first(&mut self, task: ElementId) {
        let may_run = self.tickets(task) > 0;
        if may_run && !std::mem::replace(&mut self.scheduled[task], true) {
            self.first.push_back(task);
        }
    }

    pub(crate) fn unschedule(&mut self, task: ElementId) {
        if std::mem::replace(&mut self.scheduled[task], false) {
            self.first.retain(|&other| other != task);
            self.queue.retain(|&other| other != task);
        }
    }

    /// The task whose turn it is; it is not scheduled any more.
    #[inline]
    pub(crate) fn take_next(&mut self) -> Option<ElementId> {
        if let Some(task) = self.first.pop_front() {
            self.scheduled[task] = false;
            return Some(task);
        }
        let task = self.queue.pop_front()?;
        self.scheduled[task] = false;
        if let Some(shares) = self.shares.as_deref_mut() {
            shares.run(task);
        }
        Some(task)
    }

    pub(crate) fn tickets(&self, task: ElementId) -> u32 {
        self.shares.as_ref().map_or(USUAL_TICKETS, |shares| shares.tickets[task])
    }

    /// Sets a task's tickets; with none it never runs.
    pub(crate) fn set_tickets(&mut self, task: ElementId, tickets: u32) {
        if self.tickets(task) == tickets {
            return;
        }
        let elements = self.scheduled.len();
        let shares = self.shares.get_or_insert_with(|| {
            Box::new(Shares { tickets: vec![USUAL_TICKETS; elements], pass: vec![0; elements], now: 0 })
        });
        shares.tickets[task] = tickets.min(MOST_TICKETS);
    }
}

impl Shares {
    #[cold]
    fn insert(&mut self, queue: &mut VecDeque<ElementId>, scheduled: &mut [bool], task: ElementId) {
        if self.tickets[task] == 0 {
            scheduled[task] = false;
            return;
        }
        let pass = self.pass[task].max(self.now);
        self.pass[task] = pass;
        let place = queue.partition_point(|&other| self.pass[other] <= pass);
        queue.insert(place, task);
    }

    #[cold]
    fn run(&mut self, task: ElementId) {
        self.now = self.pass[task];
        self.pass[task] += STRIDE / u64::from(self.tickets[task].max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of these tasks runs if all of them always want to.
    fn turns(tickets: &[u32], rounds: usize) -> Vec<usize> {
        let mut tasks = Tasks::new(tickets.len());
        for (task, &tickets) in tickets.iter().enumerate() {
            tasks.set_tickets(task, tickets);
            tasks.schedule(task);
        }
        let mut turns = vec![0; tickets.len()];
        for _ in 0..rounds {
            let Some(task) = tasks.take_next() else { break };
            turns[task] += 1;
            tasks.schedule(task);
        }
        turns
    }

    #[test]
    fn turns_are_as_tickets() {
        assert_eq!(turns(&[1024, 1024, 1024], 30), [10, 10, 10]);
        assert_eq!(turns(&[1024, 2048], 300), [100, 200]);
        assert_eq!(turns(&[512, 1024, 4096], 1100), [100, 200, 800]);
        assert_eq!(turns(&[0, 1024], 10), [0, 10]);
    }

    #[test]
    fn equals_take_turns_in_the_order_of_scheduling() {
        let mut tasks = Tasks::new(4);
        tasks.set_tickets(3, 2048);
        for task in [2, 0, 1, 0] {
            tasks.schedule(task);
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let task = tasks.take_next().unwrap();
            order.push(task);
            tasks.schedule(task);
        }
        assert_eq!(order, [2, 0, 1, 2, 0, 1]);
        tasks.unschedule(0);
        assert!(!tasks.is_scheduled(0) && tasks.len() == 2);
    }

    #[test]
    fn tasks_whose_time_has_come_are_first_and_in_order() {
        let mut tasks = Tasks::new(4);
        for task in [0, 1] {
            tasks.schedule(task);
        }
        for task in [3, 2, 1, 3] {
            tasks.schedule_first(task);
        }
        assert_eq!(tasks.len(), 4);
        assert_eq!([(); 4].map(|()| tasks.take_next().unwrap()), [3, 2, 0, 1]);
        tasks.schedule_first(2);
        tasks.unschedule(2);
        tasks.set_tickets(3, 0);
        tasks.schedule_first(3);
        assert!(tasks.is_empty() && tasks.take_next().is_none());
    }

    #[test]
    fn who_has_slept_has_not_saved_up_turns() {
        let mut tasks = Tasks::new(2);
        tasks.set_tickets(1, 2048);
        tasks.schedule(0);
        for _ in 0..100 {
            assert_eq!(tasks.take_next(), Some(0));
            tasks.schedule(0);
        }
        tasks.schedule(1);
        let mut turns = [0; 2];
        for _ in 0..30 {
            let task = tasks.take_next().unwrap();
            turns[task] += 1;
            tasks.schedule(task);
        }
        assert!(turns[0] >= 9, "{turns:?}");
    }
}
