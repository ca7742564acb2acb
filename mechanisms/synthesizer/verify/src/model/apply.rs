//! The operations on binary decision diagrams that the model uses: conjunction, exclusive or, and
//! if-then-else. They can be aborted in the middle of a recursion, at a deadline.
//!
//! The algorithms are the textbook's recursions (Bryant 1986; complemented edges after Brace, Rudell and
//! Bryant 1990) over the nodes and the result cache of `oxidd`. The library's own operations cannot be
//! interrupted, and one operation on diagrams of millions of nodes takes seconds. The results are the same
//! nodes as the library's, so both kinds of operations can be mixed.

use std::cell::Cell;
use std::time::Instant;

use oxidd::bcdd::{BCDDFunction, BCDDManagerRef};
use oxidd::{Edge, Function, HasLevel, LevelNo, Manager, ManagerRef, Node};
use oxidd_core::util::{EdgeDropGuard, Own, Ref};
use oxidd_core::{ApplyCache, DiagramRules, HasApplyCache, LevelView, ReducedOrNew};
use oxidd_rules_bdd::complement_edge::{BCDDOp, BCDDRules, BCDDTerminal, EdgeTag};

/// The number of recursion steps between two readings of the clock. They take some tenths of a millisecond.
const STEPS: u64 = 1 << 12;

/// The reason why an operation was aborted without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// There is no memory for another node.
    Full,
    /// The deadline has passed.
    Late,
}

/// A counter of the nodes and of the steps of diagram operations, which also checks the limits of both: the
/// room for nodes, and the deadline.
///
/// The library has room for more nodes than `room`. When its own room is nearly full, a thread of the library
/// frees nodes in the background, and meanwhile neither finds room for a node nor frees nodes when it is
/// asked to. Whether there is room would then depend on the speed of that thread.
#[derive(Debug)]
pub(super) struct Meter {
    /// The number of nodes that may exist.
    room: usize,
    /// The number of nodes that exist, including unreferenced nodes that have not been freed.
    nodes: Cell<usize>,
    steps: Cell<u64>,
    /// The step count at the last reading of the clock.
    looked: Cell<u64>,
    deadline: Cell<Option<Instant>>,
    is_late: Cell<bool>,
}

impl Meter {
    /// Makes a counter for an empty set of diagrams with room for `room` nodes.
    pub(super) fn new(room: usize) -> Meter {
        Meter {
            room,
            nodes: Cell::new(0),
            steps: Cell::new(0),
            looked: Cell::new(0),
            deadline: Cell::new(None),
            is_late: Cell::new(false),
        }
    }

    /// Returns the number of nodes that exist, including unreferenced nodes that have not been freed.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.get()
    }

    /// Sets the number of nodes that exist, after unreferenced nodes were freed.
    pub(super) fn set_nodes(&self, nodes: usize) {
        self.nodes.set(nodes);
    }

    pub(super) fn set_deadline(&self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
    }

    /// True if the deadline has passed. The result may be false for up to [`STEPS`] steps after the deadline,
    /// because the clock is read only once per [`STEPS`] steps.
    pub(super) fn is_late(&self) -> bool {
        if self.steps.get() - self.looked.get() >= STEPS {
            self.look();
        }
        self.is_late.get()
    }

    /// Reads the clock now; returns true if the deadline has passed.
    pub(super) fn look(&self) -> bool {
        self.looked.set(self.steps.get());
        let is_late = self.deadline.get().is_some_and(|deadline| Instant::now() >= deadline);
        self.is_late.set(self.is_late.get() || is_late);
        self.is_late.get()
    }

    /// Returns the number of recursion steps of all operations so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Counts one recursion step; `Err(Stop::Late)` if the deadline has passed.
    #[inline]
    pub(super) fn step(&self) -> Result<(), Stop> {
        self.steps.set(self.steps.get() + 1);
        if self.is_late() { Err(Stop::Late) } else { Ok(()) }
    }
}

/// Returns the function that is the value of the variable at `level` of the variable order.
pub(super) fn variable(
    meter: &Meter,
    manager: &BCDDManagerRef,
    level: LevelNo,
) -> Result<BCDDFunction, Stop> {
    manager.with_manager_shared(|manager| {
        let apply = Apply { manager, meter };
        let edge = apply.node(level, apply.constant(true)?, apply.constant(false)?)?;
        Ok(BCDDFunction::from_edge(manager, edge))
    })
}

pub(super) fn and(meter: &Meter, f: &BCDDFunction, g: &BCDDFunction) -> Result<BCDDFunction, Stop> {
    f.with_manager_shared(|manager, edge| {
        let result = Apply { manager, meter }.and(edge, g.as_edge(manager))?;
        Ok(BCDDFunction::from_edge(manager, result))
    })
}

pub(super) fn xor(meter: &Meter, f: &BCDDFunction, g: &BCDDFunction) -> Result<BCDDFunction, Stop> {
    f.with_manager_shared(|manager, edge| {
        let result = Apply { manager, meter }.xor(edge, g.as_edge(manager))?;
        Ok(BCDDFunction::from_edge(manager, result))
    })
}

/// Returns `g` where `f` holds, else `h`.
pub(super) fn choose(
    meter: &Meter,
    f: &BCDDFunction,
    g: &BCDDFunction,
    h: &BCDDFunction,
) -> Result<BCDDFunction, Stop> {
    f.with_manager_shared(|manager, edge| {
        let result = Apply { manager, meter }.choose(edge, g.as_edge(manager), h.as_edge(manager))?;
        Ok(BCDDFunction::from_edge(manager, result))
    })
}

/// The recursions over the nodes of one manager (the owner of all nodes of a set of diagrams).
struct Apply<'a, M: Manager> {
    manager: &'a M,
    meter: &'a Meter,
}

fn not<E: Edge<Tag = EdgeTag>>(edge: Ref<'_, E>) -> Ref<'_, E> {
    edge.with_tag(!edge.tag())
}

fn not_owned<E: Edge<Tag = EdgeTag>>(edge: Own<E>) -> Own<E> {
    let tag = edge.tag();
    edge.with_tag(!tag)
}

fn plain<E: Edge<Tag = EdgeTag>>(edge: Ref<'_, E>) -> Ref<'_, E> {
    edge.with_tag(EdgeTag::None)
}

impl<'a, M> Apply<'a, M>
where
    M: Manager<EdgeTag = EdgeTag, Terminal = BCDDTerminal> + HasApplyCache<M, BCDDOp>,
    M::InnerNode: HasLevel,
{
    fn and(&self, f: Ref<'a, M::Edge>, g: Ref<'a, M::Edge>) -> Result<Own<M::Edge>, Stop> {
        self.meter.step()?;
        if plain(f) == plain(g) {
            return if f.tag() == g.tag() { Ok(self.manager.clone_edge(f)) } else { self.constant(false) };
        }
        match [self.known(f), self.known(g)] {
            [Some(false), _] | [_, Some(false)] => return self.constant(false),
            [Some(true), _] => return Ok(self.manager.clone_edge(g)),
            [_, Some(true)] => return Ok(self.manager.clone_edge(f)),
            [None, None] => {}
        }
        let [f, g] = if f < g { [f, g] } else { [g, f] };
        self.cached(BCDDOp::And, [f, g], |apply, [f, g]| apply.and(f, g))
    }

    fn xor(&self, f: Ref<'a, M::Edge>, g: Ref<'a, M::Edge>) -> Result<Own<M::Edge>, Stop> {
        self.meter.step()?;
        if plain(f) == plain(g) {
            return self.constant(f.tag() != g.tag());
        }
        match [self.known(f), self.known(g)] {
            [Some(false), _] => return Ok(self.manager.clone_edge(g)),
            [_, Some(false)] => return Ok(self.manager.clone_edge(f)),
            [Some(true), _] => return Ok(self.manager.clone_edge(not(g))),
            [_, Some(true)] => return Ok(self.manager.clone_edge(not(f))),
            [None, None] => {}
        }
        let [f, g] = if f < g { [f, g] } else { [g, f] };
        self.cached(BCDDOp::Xor, [f, g], |apply, [f, g]| apply.xor(f, g))
    }

    fn choose(
        &self,
        f: Ref<'a, M::Edge>,
        g: Ref<'a, M::Edge>,
        h: Ref<'a, M::Edge>,
    ) -> Result<Own<M::Edge>, Stop> {
        self.meter.step()?;
        if let Some(condition) = self.known(f) {
            return Ok(self.manager.clone_edge(if condition { g } else { h }));
        }
        if plain(g) == plain(h) {
            return if g.tag() == h.tag() {
                Ok(self.manager.clone_edge(g))
            } else {
                self.xor(f, g).map(not_owned)
            };
        }
        // If `g` or `h` is constant, or equals `f` or its negation, the result is a conjunction or its
        // negation.
        let is_true = |edge: Ref<'a, M::Edge>, with: bool| match self.known(edge) {
            Some(value) => Some(value),
            None if edge == f => Some(with),
            None if edge == not(f) => Some(!with),
            None => None,
        };
        match [is_true(g, true), is_true(h, false)] {
            [Some(true), _] => return self.and(not(f), not(h)).map(not_owned),
            [Some(false), _] => return self.and(not(f), h),
            [_, Some(true)] => return self.and(f, not(g)).map(not_owned),
            [_, Some(false)] => return self.and(f, g),
            [None, None] => {}
        }
        self.cached(BCDDOp::Ite, [f, g, h], |apply, [f, g, h]| apply.choose(f, g, h))
    }

    /// Returns the result of `operation` on `operands` from the cache. If it is not there, applies the
    /// operation to both cofactors for the topmost variable of the operands, joins the results, and caches
    /// the joined result.
    fn cached<const N: usize>(
        &self,
        operation: BCDDOp,
        operands: [Ref<'a, M::Edge>; N],
        apply: impl Fn(&Self, [Ref<'a, M::Edge>; N]) -> Result<Own<M::Edge>, Stop>,
    ) -> Result<Own<M::Edge>, Stop> {
        let manager = self.manager;
        if let Some(result) = manager.apply_cache().get(manager, operation, &operands) {
            return Ok(result);
        }
        let level = operands.iter().map(|edge| manager.get_node(*edge).level()).min().unwrap_or_default();
        let part = |child: usize| {
            operands.map(|edge| match manager.get_node(edge) {
                Node::Inner(node) if node.level() == level => BCDDRules::cofactor(edge.tag(), node, child),
                _ => edge,
            })
        };
        let then = EdgeDropGuard::new(manager, apply(self, part(0))?);
        let otherwise = apply(self, part(1))?;
        let result = self.node(level, then.into_edge(), otherwise)?;
        manager.apply_cache().add(manager, operation, &operands, result.borrowed());
        Ok(result)
    }

    fn node(
        &self,
        level: LevelNo,
        then: Own<M::Edge>,
        otherwise: Own<M::Edge>,
    ) -> Result<Own<M::Edge>, Stop> {
        let (node, tag) = match BCDDRules::reduce(self.manager, level, [then, otherwise]) {
            ReducedOrNew::Reduced(edge) => return Ok(edge),
            ReducedOrNew::New(node, tag) => (node, tag),
        };
        let mut nodes = self.manager.level(level);
        let before = nodes.len();
        let edge = nodes.get_or_insert(node).map_err(|_| Stop::Full)?.with_tag(tag);
        if nodes.len() > before {
            self.meter.nodes.set(self.meter.nodes.get() + 1);
            if self.meter.nodes.get() > self.meter.room {
                self.manager.drop_edge(edge);
                return Err(Stop::Full);
            }
        }
        Ok(edge)
    }

    /// Returns the value of a diagram that is a constant; `None` if it depends on a variable.
    fn known(&self, edge: Ref<'a, M::Edge>) -> Option<bool> {
        match self.manager.get_node(edge) {
            Node::Inner(_) => None,
            Node::Terminal(_) => Some(edge.tag() == EdgeTag::None),
        }
    }

    fn constant(&self, value: bool) -> Result<Own<M::Edge>, Stop> {
        let edge = self.manager.get_terminal(BCDDTerminal).map_err(|_| Stop::Full)?;
        Ok(if value { edge } else { not_owned(edge) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fastrand::Rng;
    use oxidd::BooleanFunction;

    use super::*;

    /// Returns random Boolean functions of `variables` variables.
    fn functions(variables: u32, random: &mut Rng) -> Vec<BCDDFunction> {
        let manager = oxidd::bcdd::new_manager(1 << 16, 1 << 12, 1);
        manager.with_manager_exclusive(|manager| manager.add_vars(variables));
        let mut all: Vec<BCDDFunction> = manager.with_manager_shared(|manager| {
            let variables = (0..variables).map(|number| BCDDFunction::var(manager, number).unwrap());
            variables.chain([BCDDFunction::t(manager), BCDDFunction::f(manager)]).collect()
        });
        for _ in 0..60 {
            let [f, g, h] = std::array::from_fn(|_| all[random.usize(..all.len())].clone());
            all.push(match random.u8(..4) {
                0 => f.and(&g).unwrap(),
                1 => f.xor(&g).unwrap(),
                2 => f.ite(&g, &h).unwrap(),
                _ => f.not().unwrap(),
            });
        }
        all
    }

    #[test]
    fn results_are_those_of_the_library() {
        let mut random = Rng::with_seed(5);
        let meter = Meter::new(usize::MAX);
        for _ in 0..20 {
            let all = functions(9, &mut random);
            for _ in 0..200 {
                let [f, g, h] = std::array::from_fn(|_| &all[random.usize(..all.len())]);
                assert!(and(&meter, f, g).unwrap() == f.and(g).unwrap());
                assert!(xor(&meter, f, g).unwrap() == f.xor(g).unwrap());
                assert!(choose(&meter, f, g, h).unwrap() == f.ite(g, h).unwrap());
            }
        }
    }

    /// Aborts the conjunction of two comparisons of numbers whose bits are far apart in the variable order.
    /// The conjunction takes many recursion steps, so the deadline has to abort it before it is complete.
    #[test]
    fn an_operation_is_given_up_in_the_middle() {
        let bits = 14;
        let manager = oxidd::bcdd::new_manager(1 << 22, 1 << 16, 1);
        manager.with_manager_exclusive(|manager| manager.add_vars(3 * bits));
        let variable =
            |number: u32| manager.with_manager_shared(|manager| BCDDFunction::var(manager, number).unwrap());
        let meter = Meter::new(usize::MAX);
        let equal = |first: u32, second: u32| {
            let all = manager.with_manager_shared(BCDDFunction::t);
            (0..bits).fold(all, |all, bit| {
                let differ = xor(&meter, &variable(first + bit), &variable(second + bit)).unwrap();
                and(&meter, &all, &differ.not().unwrap()).unwrap()
            })
        };
        let [one, other] = [equal(0, bits), equal(bits, 2 * bits)];
        meter.set_deadline(Some(Instant::now() - Duration::from_secs(1)));
        let before = meter.steps();
        assert_eq!(and(&meter, &one, &other).err(), Some(Stop::Late));
        assert!(meter.steps() - before <= STEPS, "{} steps", meter.steps() - before);
    }

    #[test]
    fn there_is_an_end_of_room() {
        let manager = oxidd::bcdd::new_manager(1 << 8, 1 << 8, 1);
        manager.with_manager_exclusive(|manager| manager.add_vars(40));
        let variable =
            |number: u32| manager.with_manager_shared(|manager| BCDDFunction::var(manager, number).unwrap());
        let meter = Meter::new(usize::MAX);
        let mut all = manager.with_manager_shared(BCDDFunction::t);
        let full = (0..20).find_map(|bit| {
            let differ = xor(&meter, &variable(bit), &variable(20 + bit)).ok()?;
            match and(&meter, &all, &differ) {
                Ok(more) => {
                    all = more;
                    None
                }
                Err(stop) => Some(stop),
            }
        });
        assert_eq!(full, Some(Stop::Full));
    }
}
