//! Boolean expressions whose leaves are tests of any type.

/// A Boolean expression with leaves of type `L`, for example a [`Primitive`](super::Primitive) or a
/// [`Test`](super::Test).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree<L> {
    /// A constant: true for each packet, or false for each packet.
    Constant(bool),
    /// A leaf, whose value depends on the packet.
    Leaf(L),
    /// The negation of an expression.
    Not(Box<Tree<L>>),
    /// The conjunction of its parts; true without parts.
    All(Vec<Tree<L>>),
    /// The disjunction of its parts; false without parts.
    Any(Vec<Tree<L>>),
    /// The choice `condition ? then : otherwise`, in this order.
    Choose(Box<[Tree<L>; 3]>),
}

impl<L> Tree<L> {
    /// Returns the negation of the expression; negating twice gives the expression itself.
    #[must_use]
    pub fn negated(self) -> Tree<L> {
        match self {
            Tree::Constant(value) => Tree::Constant(!value),
            Tree::Not(inner) => *inner,
            other => Tree::Not(Box::new(other)),
        }
    }

    /// Makes the conjunction of expressions. A single expression is returned as it is.
    pub fn all(mut parts: Vec<Tree<L>>) -> Tree<L> {
        match parts.len() {
            1 => parts.remove(0),
            _ => Tree::All(parts),
        }
    }

    /// Makes the disjunction of expressions. A single expression is returned as it is.
    pub fn any(mut parts: Vec<Tree<L>>) -> Tree<L> {
        match parts.len() {
            1 => parts.remove(0),
            _ => Tree::Any(parts),
        }
    }

    /// Returns the value of the expression, where `leaf` returns the value of each leaf. Compiled forms
    /// must have the same value.
    pub fn holds(&self, leaf: &impl Fn(&L) -> bool) -> bool {
        match self {
            Tree::Constant(value) => *value,
            Tree::Leaf(test) => leaf(test),
            Tree::Not(inner) => !inner.holds(leaf),
            Tree::All(parts) => parts.iter().all(|part| part.holds(leaf)),
            Tree::Any(parts) => parts.iter().any(|part| part.holds(leaf)),
            Tree::Choose(parts) => {
                let [condition, then, otherwise] = &**parts;
                if condition.holds(leaf) { then.holds(leaf) } else { otherwise.holds(leaf) }
            }
        }
    }

    /// Returns the expression in which each leaf is replaced by the expression that `leaf` returns for it.
    pub fn replace<M>(&self, leaf: &impl Fn(&L) -> Tree<M>) -> Tree<M> {
        let each = |parts: &[Tree<L>]| parts.iter().map(|part| part.replace(leaf)).collect();
        match self {
            Tree::Constant(value) => Tree::Constant(*value),
            Tree::Leaf(test) => leaf(test),
            Tree::Not(inner) => inner.replace(leaf).negated(),
            Tree::All(parts) => Tree::All(each(parts)),
            Tree::Any(parts) => Tree::Any(each(parts)),
            Tree::Choose(parts) => Tree::Choose(Box::new(parts.each_ref().map(|part| part.replace(leaf)))),
        }
    }

    /// Returns an equal expression that is a constant or contains none, and has no conjunction directly in
    /// a conjunction, nor a disjunction directly in a disjunction.
    #[must_use]
    pub fn simplified(self) -> Tree<L> {
        match self {
            Tree::Constant(_) | Tree::Leaf(_) => self,
            Tree::Not(inner) => inner.simplified().negated(),
            Tree::All(parts) => Tree::joined(parts, true),
            Tree::Any(parts) => Tree::joined(parts, false),
            Tree::Choose(parts) => match parts.map(Tree::simplified) {
                [Tree::Constant(true), then, _] => then,
                [Tree::Constant(false), _, otherwise] => otherwise,
                parts => Tree::Choose(Box::new(parts)),
            },
        }
    }

    /// Makes the conjunction (`neutral` is true) or disjunction (`neutral` is false) of expressions and
    /// simplifies it. Parts with the value `neutral` change nothing and are left out; a constant part with
    /// the other value decides.
    fn joined(parts: Vec<Tree<L>>, neutral: bool) -> Tree<L> {
        let mut kept = Vec::with_capacity(parts.len());
        for part in parts {
            match part.simplified() {
                Tree::Constant(value) if value == neutral => {}
                Tree::Constant(value) => return Tree::Constant(value),
                Tree::All(inner) if neutral => kept.extend(inner),
                Tree::Any(inner) if !neutral => kept.extend(inner),
                other => kept.push(other),
            }
        }
        match (kept.is_empty(), neutral) {
            (true, value) => Tree::Constant(value),
            (false, true) => Tree::all(kept),
            (false, false) => Tree::any(kept),
        }
    }
}
