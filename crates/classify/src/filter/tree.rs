//! Boolean expressions over tests of any type.

/// An expression whose leaves are tests of type `L`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree<L> {
    /// A constant, true or false for any packet.
    Constant(bool),
    /// A test.
    Leaf(L),
    /// The negation of an expression.
    Not(Box<Tree<L>>),
    /// True if all parts are true.
    All(Vec<Tree<L>>),
    /// True if any part is true.
    Any(Vec<Tree<L>>),
    /// `condition ? then : otherwise`.
    Choose(Box<[Tree<L>; 3]>),
}

impl<L> Tree<L> {
    /// Returns the negation of the expression.
    #[must_use]
    pub fn negated(self) -> Tree<L> {
        match self {
            Tree::Constant(value) => Tree::Constant(!value),
            Tree::Not(inner) => *inner,
            other => Tree::Not(Box::new(other)),
        }
    }

    /// Makes an expression that is true if all parts are. A single part is returned as it is.
    pub fn all(mut parts: Vec<Tree<L>>) -> Tree<L> {
        match parts.len() {
            1 => parts.remove(0),
            _ => Tree::All(parts),
        }
    }

    /// Makes an expression that is true if any part is. A single part is returned as it is.
    pub fn any(mut parts: Vec<Tree<L>>) -> Tree<L> {
        match parts.len() {
            1 => parts.remove(0),
            _ => Tree::Any(parts),
        }
    }

    /// Returns the value of the expression, given the value of each leaf. All other ways to evaluate must
    /// agree with it.
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

    /// Returns the expression with each leaf replaced by an expression.
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

    /// Returns the expression without constants inside, without `All` in `All` and `Any` in `Any`.
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

    /// Joins simplified parts. `neutral` is the value that changes nothing: true in `All`, false in `Any`.
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
