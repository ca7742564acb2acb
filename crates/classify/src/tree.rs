//! Boolean expressions whose leaves are tests of any type.

use std::iter;

/// A Boolean expression with leaves of type `L`: the condition of a filter over packets
/// ([`filter`](crate::filter)), of a case in an element's declaration, or of a path through a chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// The expression that is true for each packet.
    pub const TRUE: Tree<L> = Tree::Constant(true);
    /// The expression that is false for each packet.
    pub const FALSE: Tree<L> = Tree::Constant(false);

    /// Returns the negation of the expression; negating twice gives the expression itself.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "reads better than an operator in declarations")]
    pub fn not(self) -> Tree<L> {
        match self {
            Tree::Constant(value) => Tree::Constant(!value),
            Tree::Not(inner) => *inner,
            other => Tree::Not(Box::new(other)),
        }
    }

    /// Returns the conjunction of this expression and all expressions in `more`, as [`all`](Self::all)
    /// makes it.
    #[must_use]
    pub fn and(self, more: impl IntoIterator<Item = Tree<L>>) -> Tree<L> {
        Tree::all(iter::once(self).chain(more))
    }

    /// Makes the conjunction of expressions. Constants are evaluated, and parts that are conjunctions
    /// themselves are merged into the result. A single part is returned as it is.
    pub fn all(parts: impl IntoIterator<Item = Tree<L>>) -> Tree<L> {
        Tree::joined(parts, true)
    }

    /// Makes the disjunction of expressions. Constants are evaluated, and parts that are disjunctions
    /// themselves are merged into the result. A single part is returned as it is.
    pub fn any(parts: impl IntoIterator<Item = Tree<L>>) -> Tree<L> {
        Tree::joined(parts, false)
    }

    /// Makes the conjunction (`neutral` is true) or disjunction (`neutral` is false) of expressions. Parts
    /// with the value `neutral` change nothing and are left out; a constant part with the other value is the
    /// result.
    fn joined(parts: impl IntoIterator<Item = Tree<L>>, neutral: bool) -> Tree<L> {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Tree::Constant(value) if value == neutral => {}
                Tree::Constant(value) => return Tree::Constant(value),
                Tree::All(inner) if neutral => kept.extend(inner),
                Tree::Any(inner) if !neutral => kept.extend(inner),
                other => kept.push(other),
            }
        }
        match kept.len() {
            0 => Tree::Constant(neutral),
            1 => kept.remove(0),
            _ if neutral => Tree::All(kept),
            _ => Tree::Any(kept),
        }
    }

    /// Makes the choice `condition ? then : otherwise`; a constant condition decides it.
    fn choice(parts: [Tree<L>; 3]) -> Tree<L> {
        match parts {
            [Tree::Constant(true), then, _] => then,
            [Tree::Constant(false), _, otherwise] => otherwise,
            parts => Tree::Choose(Box::new(parts)),
        }
    }

    /// Returns the value of the expression, where `leaf` returns the value of each leaf. Compiled forms of
    /// the expression must give the same value.
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

    /// Returns an iterator over the leaves, from left to right.
    pub fn leaves(&self) -> impl Iterator<Item = &L> {
        let mut rest = vec![self];
        iter::from_fn(move || {
            loop {
                match rest.pop()? {
                    Tree::Constant(_) => {}
                    Tree::Leaf(leaf) => return Some(leaf),
                    Tree::Not(inner) => rest.push(inner),
                    Tree::All(parts) | Tree::Any(parts) => rest.extend(parts.iter().rev()),
                    Tree::Choose(parts) => rest.extend(parts.iter().rev()),
                }
            }
        })
    }

    /// Returns the expression in which each leaf is replaced by the expression that `leaf` returns for it.
    /// Constants are resolved as by [`all`](Self::all) and [`any`](Self::any).
    pub fn replace<M>(&self, leaf: &mut impl FnMut(&L) -> Tree<M>) -> Tree<M> {
        match self {
            Tree::Constant(value) => Tree::Constant(*value),
            Tree::Leaf(test) => leaf(test),
            Tree::Not(inner) => inner.replace(leaf).not(),
            Tree::All(parts) => Tree::all(parts.iter().map(|part| part.replace(leaf))),
            Tree::Any(parts) => Tree::any(parts.iter().map(|part| part.replace(leaf))),
            Tree::Choose(parts) => Tree::choice(parts.each_ref().map(|part| part.replace(leaf))),
        }
    }

    /// Returns an equal expression that has no conjunction directly in a conjunction, nor a disjunction
    /// directly in a disjunction. Constants remain only as the whole expression or as a branch of a choice.
    #[must_use]
    pub fn simplified(self) -> Tree<L> {
        match self {
            Tree::Constant(_) | Tree::Leaf(_) => self,
            Tree::Not(inner) => inner.simplified().not(),
            Tree::All(parts) => Tree::all(parts.into_iter().map(Tree::simplified)),
            Tree::Any(parts) => Tree::any(parts.into_iter().map(Tree::simplified)),
            Tree::Choose(parts) => Tree::choice(parts.map(Tree::simplified)),
        }
    }

    /// Returns the expression in which each leaf is replaced as by [`replace`](Self::replace); `None` if
    /// `leaf` returns `None` for a leaf. `leaf` is not called for the leaves after a constant that decides a
    /// conjunction or disjunction.
    pub fn try_replace<M>(&self, leaf: &mut impl FnMut(&L) -> Option<Tree<M>>) -> Option<Tree<M>> {
        let mut is_complete = true;
        let replaced = self.replace(&mut |test| {
            leaf(test).unwrap_or_else(|| {
                is_complete = false;
                Tree::FALSE
            })
        });
        is_complete.then_some(replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_resolved() {
        let leaf = |name: char| Tree::Leaf(name);
        assert_eq!(Tree::all([leaf('a'), Tree::TRUE]), leaf('a'));
        assert_eq!(Tree::all([leaf('a'), Tree::FALSE]), Tree::FALSE);
        assert_eq!(Tree::any([leaf('a'), Tree::TRUE]), Tree::TRUE);
        assert_eq!(Tree::<char>::all([]), Tree::TRUE);
        assert_eq!(Tree::<char>::any([]), Tree::FALSE);
        let nested = leaf('a').and([leaf('b').and([leaf('c')])]);
        assert_eq!(nested, Tree::All(vec![leaf('a'), leaf('b'), leaf('c')]));
        assert_eq!(leaf('a').not().not(), leaf('a'));
        let choice = Tree::Choose(Box::new([leaf('a'), leaf('b'), leaf('c')]));
        let decided = choice.replace(&mut |&name| if name == 'a' { Tree::FALSE } else { leaf(name) });
        assert_eq!(decided, leaf('c'));
    }

    #[test]
    fn leaves_come_from_left_to_right() {
        let choice = Tree::Choose(Box::new([Tree::Leaf('a'), Tree::Leaf('b').not(), Tree::Leaf('c')]));
        let tree = Tree::Any(vec![choice, Tree::TRUE, Tree::All(vec![Tree::Leaf('d'), Tree::Leaf('e')])]);
        assert_eq!(tree.leaves().collect::<String>(), "abcde");
        let without_d =
            |tree: &Tree<char>| tree.try_replace(&mut |&name| (name != 'd').then_some(Tree::Leaf(name)));
        assert_eq!(without_d(&Tree::Leaf('d').and([Tree::Leaf('e')])), None);
        assert_eq!(without_d(&tree), Some(Tree::TRUE), "a constant decides before d");
    }
}
