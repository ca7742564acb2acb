//! The scheduled tasks of a worker and their order: stride scheduling (Waldspurger and Weihl, 1995), as in
//! Click.
//!
//! While all tasks have the same number of tickets, stride scheduling is round robin, for which a plain
//! queue is enough.

use std::collections::VecDeque;

use element::ElementId;

/// The number of tickets of a task for which the configuration gives none.
pub(crate) const USUAL_TICKETS: u32 = element::setup::TICKETS_OF_ONE;
/// The largest number of tickets of a task.
pub(crate) const MOST_TICKETS: u32 = 1 << 15;
/// The stride of a task with one ticket; the stride of a task with N tickets is an N-th of it.
const STRIDE: u64 = 1 << 16;

/// The tasks of a worker. A task is identified by its element.
pub(crate) struct Tasks {
    /// Scheduled tasks that run ahead of all others, because a timer has scheduled them, in order of
    /// scheduling.
    first: VecDeque<ElementId>,
    /// The other scheduled tasks; the first of them runs next.
    queue: VecDeque<ElementId>,
    scheduled: Vec<bool>,
    /// The tickets and passes of tasks. `None` until a task gets another number of tickets than
    /// [`USUAL_TICKETS`].
    shares: Option<Box<Shares>>,
}

/// The tickets and the progress of each task. The scheduled task with the smallest pass runs next.
struct Shares {
    tickets: Vec<u32>,
    /// The pass of each task. It grows by the task's stride when the task is taken from the queue.
    pass: Vec<u64>,
    /// The pass of the task that was last taken from the queue. A task that is scheduled again starts from
    /// here at least, so that it cannot save up turns while it is not scheduled.
    now: u64,
}

impl Tasks {
    /// Makes the state of `elements` tasks, none of which is scheduled.
    pub(crate) fn new(elements: usize) -> Tasks {
        Tasks {
            first: VecDeque::new(),
            queue: VecDeque::new(),
            scheduled: vec![false; elements],
            shares: None,
        }
    }

    /// True if no task is scheduled.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.queue.is_empty()
    }

    /// Returns the number of scheduled tasks.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.queue.len()
    }

    #[inline]
    pub(crate) fn is_scheduled(&self, task: ElementId) -> bool {
        self.scheduled[task]
    }

    /// Schedules a task after the tasks in the queue whose pass is not larger. Has no effect if the task is
    /// already scheduled, or has 0 tickets.
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

    /// Schedules a task ahead of all tasks in the queue, because it has waited for a timer. Has no effect if
    /// the task is already scheduled, or has 0 tickets.
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

    /// Takes the next task, which is then no longer scheduled. Returns `None` if no task is scheduled.
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

    /// Sets the tickets of a task, up to [`MOST_TICKETS`]. A task with 0 tickets cannot be scheduled any
    /// more.
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

    /// Returns the number of times that each task runs in `rounds` turns if all tasks are always scheduled.
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
