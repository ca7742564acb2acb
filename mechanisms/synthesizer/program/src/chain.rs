//! The graph of a configuration with the declarations of its elements: the form in which the compiler and
//! the verifier read a configuration.
//!
//! In the chain, an element `Synthesized` is replaced by the stages of its program, each as an element
//! ([`crate::unfold`]), so that the verifier compares the program stage by stage. If the program cannot be
//! read or unfolded, the element stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use element::Class;
use element::effects::{EXTRA_LENGTH, Effects, Field, Target};
use lang::Graph;

use crate::metadata::{Metadata, metadata_of};
use crate::unfold::{self, Forward, PassedState, Unfolded};
use crate::{CLASS_NAME, Step, text};

/// The index of an element in [`Chain::nodes`], and the index of one of its inputs or outputs.
pub type Port = (usize, usize);

/// A configuration as a graph of declarations.
#[derive(Clone)]
pub struct Chain {
    /// The elements of the configuration, in their order, and after them the second and further stages of its
    /// programs.
    pub nodes: Vec<ChainNode>,
    order: TopologicalOrder,
    /// The elements that may write handlers, each as its class and arguments, sorted. They are elements
    /// without ports, and elements of the graph whose arguments have a handler call or a script that writes
    /// handlers.
    scripts: Vec<String>,
    /// True if an element with ports may write handlers while packets pass: it makes handler calls, or its
    /// script writes handlers.
    pub calls: bool,
    /// True if the text [`ChainNode::function`] of each element contains the element's name
    /// ([`Chain::tell_apart`]).
    is_told_apart: bool,
    /// For each element, a hash of the element and of everything upstream of it ([`Chain::upstream()`]).
    upstream: Vec<i64>,
}

/// A topological order of the elements. The elements of a loop have no order among them; the loop as a
/// whole is ordered.
#[derive(Clone, Debug, Default)]
pub struct TopologicalOrder {
    /// The index of each element in the order, by its index in the chain.
    places: Vec<usize>,
    /// For each element, the number of the loop (strongly connected component) that it is on, so that
    /// packets which leave it may come back; `None` for an element on no loop.
    loops: Vec<Option<usize>>,
}

impl TopologicalOrder {
    /// Returns the index of an element in the order: packets pass elements with lower indices first, except
    /// on a loop.
    pub fn rank(&self, node: usize) -> usize {
        self.places[node]
    }

    /// True if the element is on a loop: packets that leave it may come back to it.
    pub fn is_on_loop(&self, node: usize) -> bool {
        self.loops[node].is_some()
    }
}

/// The first input number that stands for a passage ([`Passage`]): an entry into the element for packets of a
/// program. Lower numbers are inputs that the element itself has.
const FIRST_PASSAGE: usize = 1 << 32;

/// The region that a program replaces: the packets that the program accepts, and the replaced elements.
/// `layout`, `needs_link`, `is_certain` and `elements` are copies of the fields of
/// [`Program`](crate::Program).
#[derive(Clone)]
pub struct ReplacedRegion {
    /// The offsets of the link, network and transport header, from the packet's start, that a packet must be
    /// marked with for the program to accept it; `None` for a header that must not be marked. The link header
    /// counts only if `needs_link`.
    pub layout: [Option<i32>; 3],
    /// True if the mark of the link header has to be as `layout` says.
    pub needs_link: bool,
    /// True if all packets that arrive at the program have the layout that it accepts.
    pub is_certain: bool,
    /// The inputs that the program's output `otherwise` is connected to. Packets with another layout go
    /// there, and so do packets that the program does not cover and leaves unchanged.
    pub otherwise: Vec<Port>,
    /// The names of the replaced elements.
    pub elements: Vec<String>,
    /// True if the program leases flows from some of the replaced elements.
    pub leases: bool,
}

/// A second entry into a stateful element of the chain, for packets of a program. The element treats these
/// packets as any others, but they leave it for the rest of the program, and not along the element's own
/// connections.
#[derive(Clone)]
struct Passage {
    /// The input of the stateful element at which packets of the program arrive.
    input: usize,
    /// For each output of the stateful element, the inputs at which packets of the program continue.
    forward: Vec<Vec<Port>>,
}

/// An element of a chain.
#[derive(Clone)]
pub struct ChainNode {
    /// The name of the element.
    pub name: String,
    /// The name of the element class: its main name, or, for an unknown class, the name in the configuration.
    pub class: String,
    /// The declaration of the element. An element of unknown class is declared opaque.
    pub effects: Effects,
    /// Class and arguments in canonical form ([`key`]); the name for a second or further stage of a program.
    pub key: String,
    /// The identity of the element's function: two elements with equal texts do the same. The text has the
    /// element's key, and the keys of all elements without ports, because arguments may refer to these. It
    /// also has the element's name if any element may write handlers, or after [`Chain::tell_apart`].
    pub function: String,
    /// For each output, the inputs that it is connected to.
    pub forward: Vec<Vec<Port>>,
    /// The entries for packets of programs. The entry with index `i` is the input `FIRST_PASSAGE + i`.
    passages: Vec<Passage>,
    /// The region that the program of this element replaces. `None` if the element runs no program, if its
    /// program was not unfolded, and for the second and further stages.
    pub region: Option<ReplacedRegion>,
    /// The number of inputs: one more than the highest input that has a connection.
    pub inputs: usize,
    /// The number of the loop that the element is on, so that packets which leave it may come back; `None`
    /// for an element on no loop.
    pub loop_id: Option<usize>,
}

/// Returns class and arguments in canonical form: comments and the amount of white space outside of quotes do
/// not matter.
pub fn key(class: &str, config: &str) -> String {
    let args = lang::args::split(config);
    // White space inside of quotes is part of an argument and is kept.
    let one_form = |text: &str| {
        let words = lang::args::split_spaces(text);
        words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    };
    let words: Vec<String> = args.iter().map(|arg| one_form(&arg.text)).collect();
    format!("{class}({})", words.join(", "))
}

/// True if an element with this declaration sends packets out of the graph in some case.
pub fn is_exit(effects: &Effects) -> bool {
    effects.cases.iter().any(|case| case.to == Target::Send)
}

/// Replaces the element that runs a program by the stages of the program, each as an element of its own,
/// because several declarations describe the program more precisely than one. The first stage keeps the
/// element's index; the others are appended to `nodes`. Nothing changes if the program cannot be read or
/// expressed as stages.
fn unfold(nodes: &mut Vec<ChainNode>, number: usize, config: &str) {
    let lines: Vec<String> = lang::args::split(config).into_iter().map(|arg| arg.text).collect();
    let Ok(program) = text::read(&lines, nodes[number].forward.len()) else { return };
    let place = |nodes: &[ChainNode], step: &Step| {
        let name = program.elements.get(step.element as usize)?;
        nodes.iter().position(|node| node.name == *name)
    };
    let passed = |step: &Step| {
        let node = &nodes[place(nodes, step)?];
        let (case, excluded) = (node.effects.cases.get(step.case)?, node.effects.support.leases.as_ref()?);
        Some(PassedState { case: case.clone(), excluded: excluded.clone(), outputs: node.forward.len() })
    };
    let Some(Unfolded { stages, passages }) = unfold::unfold(&program, &passed) else { return };
    let elements: Option<Vec<usize>> =
        passages.iter().map(|passage| place(nodes, program.steps.get(usize::from(passage.step))?)).collect();
    let Some(elements) = elements else { return };
    let outputs = std::mem::take(&mut nodes[number].forward);
    let otherwise = outputs.get(program.otherwise).cloned().unwrap_or_default();
    nodes[number].region = Some(ReplacedRegion {
        layout: program.layout,
        needs_link: program.needs_link,
        is_certain: program.is_certain,
        otherwise,
        elements: program.elements.clone(),
        leases: !program.steps.is_empty(),
    });
    let behind = nodes.len();
    // For each passage: the index of its stateful element, and the input number of that element that stands
    // for the passage.
    let mut inputs: Vec<Port> = Vec::with_capacity(passages.len());
    for &element in &elements {
        let before = inputs.iter().filter(|(other, _)| *other == element).count();
        inputs.push((element, FIRST_PASSAGE + nodes[element].passages.len() + before));
    }
    let leading = |forward: &Forward| match *forward {
        Forward::Stage(0) => vec![(number, 0)],
        Forward::Stage(stage) => vec![(behind + stage - 1, 0)],
        Forward::Passage(passage) => vec![inputs[passage]],
        Forward::Output(output) => outputs.get(output).cloned().unwrap_or_default(),
    };
    for (passage, &element) in passages.iter().zip(&elements) {
        let input = program.steps[usize::from(passage.step)].input;
        let forward = passage.forward.iter().map(leading).collect();
        nodes[element].passages.push(Passage { input, forward });
    }
    for (step, stage) in stages.into_iter().enumerate() {
        let (effects, forward) = (stage.effects, stage.forward.iter().map(leading).collect());
        if step == 0 {
            (nodes[number].effects, nodes[number].forward) = (effects, forward);
            continue;
        }
        let name = format!("{}/{step}", nodes[number].name);
        nodes.push(ChainNode {
            key: name.clone(),
            name,
            class: CLASS_NAME.to_string(),
            effects,
            function: String::new(),
            forward,
            passages: Vec::new(),
            region: None,
            inputs: 1,
            loop_id: None,
        });
    }
}

impl ChainNode {
    /// Returns the fields of packets that the element reads or shows to users.
    pub fn looks_at(&self) -> Vec<Field> {
        let mut fields = self.effects.observes.clone();
        fields.extend(self.effects.reads());
        // The extra length annotation holds the number of bytes that were cut off the packet.
        fields.extend(self.effects.support.whole_length.then_some(EXTRA_LENGTH));
        fields.sort();
        fields.dedup();
        fields
    }

    /// Returns the input of the element itself at which packets for `input` arrive, and the inputs that each
    /// output of the element leads to for these packets. If `input` stands for a passage of a program, the
    /// element's input is another number, and the outputs lead back into the program.
    pub fn through(&self, input: usize) -> (usize, &[Vec<Port>]) {
        match input.checked_sub(FIRST_PASSAGE).and_then(|passage| self.passages.get(passage)) {
            Some(passage) => (passage.input, &passage.forward),
            None => (input, &self.forward),
        }
    }

    /// True if this element runs the program of the element named `name`: it is that element itself, or one
    /// of the stages that the element was replaced by ([`crate::unfold`]).
    pub fn is_of_program(&self, name: &str) -> bool {
        let rest = self.name.strip_prefix(name).filter(|_| self.class == CLASS_NAME);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns all inputs that the outputs of this element lead to directly, including those at which packets
    /// of programs continue.
    pub fn leads(&self) -> impl DoubleEndedIterator<Item = Port> {
        let passages = self.passages.iter().flat_map(|passage| &passage.forward);
        self.forward.iter().chain(passages).flatten().copied()
    }

    /// Returns the title of the element in reports: its name if the configuration gives one, else class and
    /// arguments.
    pub fn title(&self) -> &str {
        if self.name.contains('@') { &self.key } else { &self.name }
    }
}

impl Chain {
    /// Returns the metadata bytes that any element of the chain reads or shows; `None` if an element is
    /// opaque, so that it may read any metadata.
    pub fn observed_metadata(&self) -> Option<BTreeSet<Metadata>> {
        let is_known = self.nodes.iter().all(|node| node.effects.opaque.is_none());
        let fields = self.nodes.iter().flat_map(ChainNode::looks_at);
        let sides = fields.filter_map(|field| metadata_of(&field));
        is_known.then(|| sides.flat_map(|(first, length)| first..first.saturating_add(length)).collect())
    }

    /// Makes a chain from a flat graph. `effects` has, for each element of the graph, its declaration and
    /// the class that it was found under; `None` for an element of unknown class.
    pub fn new(graph: &Graph, effects: &[Option<(&Class, &Effects)>]) -> Chain {
        let counts = graph.port_counts();
        let mut nodes: Vec<ChainNode> = graph
            .elements
            .iter()
            .zip(effects)
            .zip(&counts)
            .map(|((element, effects), &(inputs, outputs))| {
                // A class may have several names; its main name is used, so that elements under different
                // names are equal.
                let class = effects.map_or(element.class.as_str(), |(class, _)| class.name);
                let unknown = || Effects { opaque: Some("its class is not known"), ..Effects::default() };
                ChainNode {
                    name: element.name.clone(),
                    class: class.to_string(),
                    effects: effects.map_or_else(unknown, |(_, effects)| effects.clone()),
                    key: key(class, &element.config),
                    function: String::new(),
                    forward: vec![Vec::new(); outputs],
                    passages: Vec::new(),
                    region: None,
                    inputs,
                    loop_id: None,
                }
            })
            .collect();
        for connection in &graph.connections {
            nodes[connection.from.0].forward[connection.from.1].push(connection.to);
        }
        for number in 0..nodes.len() {
            if nodes[number].class == CLASS_NAME {
                unfold(&mut nodes, number, &graph.elements[number].config);
            }
        }
        let says =
            |(node, ports): (&ChainNode, &(usize, usize))| (*ports == (0, 0)).then(|| node.key.clone());
        let mut names: Vec<String> = nodes.iter().zip(&counts).filter_map(says).collect();
        names.sort();
        for node in &mut nodes {
            node.function = format!("{} {}", node.key, names.join(" "));
        }
        let in_graph = graph.elements.iter().zip(effects).zip(&counts).filter(|(_, ports)| **ports != (0, 0));
        let calling = in_graph.filter_map(|((element, effects), _)| {
            let (class, effects) = (*effects)?;
            let calls = effects.calls || class.notes.runs_script && element.config.contains("write");
            calls.then_some((class, element.config.as_str()))
        });
        let scripts: Vec<(&Class, &str)> = calling.collect();
        let calls = !scripts.is_empty();
        let mut chain = Chain {
            nodes,
            order: TopologicalOrder::default(),
            scripts: Vec::new(),
            calls,
            is_told_apart: false,
            upstream: Vec::new(),
        };
        chain.arrange();
        chain.add_scripts(scripts);
        chain
    }

    /// Adds elements that may write handlers, each as class and arguments; elements that are not in the graph
    /// are allowed. Scripts that cannot write are left out. With the first such element, each element's name
    /// becomes part of its `function` text, because scripts refer to elements by name.
    pub fn add_scripts<'a>(&mut self, scripts: impl IntoIterator<Item = (&'a Class, &'a str)>) {
        // A script without the words `write` and `CALL` writes no handlers. Handler calls in its texts, such
        // as `$(c.count)`, only read.
        let writes = |(class, config): &(&Class, &str)| {
            !class.notes.runs_script || config.contains("write") || config.contains("CALL")
        };
        let writing = scripts.into_iter().filter(writes);
        self.scripts.extend(writing.map(|(class, config)| key(class.name, config)));
        self.scripts.sort();
        if !self.scripts.is_empty() {
            // Scripts refer to elements by name.
            self.tell_apart();
        }
    }

    /// Makes the name of each element part of the identity of its function, because handlers may change two
    /// elements of one class with equal arguments in different ways.
    pub fn tell_apart(&mut self) {
        if !std::mem::replace(&mut self.is_told_apart, true) {
            for node in &mut self.nodes {
                node.function = format!("{} {}", node.name, node.function);
            }
        }
    }

    /// True if an element of this configuration may write handlers.
    pub fn has_scripts(&self) -> bool {
        !self.scripts.is_empty()
    }

    /// True if the elements that may write handlers are equal in both chains.
    pub fn same_scripts(&self, other: &Chain) -> bool {
        self.scripts == other.scripts
    }

    /// True if an element may write handlers of `node`: the name of `node` occurs in the class and arguments
    /// of an element that may write handlers.
    pub fn is_written_to(&self, node: usize) -> bool {
        self.scripts.iter().any(|script| script.contains(&self.nodes[node].name))
    }

    /// Returns a hash of an element and of everything upstream of it: the elements that packets come through,
    /// and the ports that connect them. Equal hashes in two chains mean that packets come from equal sources.
    /// On a loop, connections back to elements of lower rank do not count.
    pub fn upstream(&self, node: usize) -> i64 {
        self.upstream[node]
    }

    fn look_upstream(&mut self) {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut by_rank: Vec<usize> = (0..self.nodes.len()).collect();
        by_rank.sort_by_key(|&node| self.rank(node));
        let mut before: Vec<Vec<(usize, i64, usize)>> = vec![Vec::new(); self.nodes.len()];
        self.upstream = vec![0; self.nodes.len()];
        for node in by_rank {
            let mut hasher = DefaultHasher::new();
            before[node].sort_unstable();
            (&self.nodes[node].key, &before[node]).hash(&mut hasher);
            let here = hasher.finish() as i64;
            self.upstream[node] = here;
            for (output, ports) in self.nodes[node].forward.iter().enumerate() {
                for &(to, input) in ports {
                    before[to].push((input, here, output));
                }
            }
        }
    }

    /// Connects an output to the input `to` alone, in place of its former connections. Call
    /// [`arrange`](Self::arrange) after all such changes.
    pub fn lead(&mut self, (node, output): Port, to: Port) {
        self.nodes[node].forward[output] = vec![to];
    }

    /// Disconnects all outputs of all stages of a program. `program` is the index of the first stage.
    pub fn end(&mut self, program: usize) {
        let name = self.nodes[program].name.clone();
        let nodes = self.nodes.iter_mut().filter(|node| node.is_of_program(&name));
        nodes.flat_map(|node| &mut node.forward).for_each(Vec::clear);
    }

    /// Computes the order of the elements, their loops, and the hash of everything upstream of each
    /// element.
    pub fn arrange(&mut self) {
        self.order = self.order_of(&|_| true);
        for (node, loop_id) in self.nodes.iter_mut().zip(&self.order.loops) {
            node.loop_id = *loop_id;
        }
        self.look_upstream();
    }

    /// Returns the order of all elements, as [`arrange`](Self::arrange) has computed it.
    pub fn order(&self) -> &TopologicalOrder {
        &self.order
    }

    /// Returns the order of the elements if packets end at each element for which `is_followed` is false.
    /// Loops are strongly connected components by Tarjan's algorithm, without recursion. The component that
    /// the algorithm finishes last comes first in the order, because it is upstream of the others. So roots
    /// and outputs are visited from last to first: where the graph leaves the order open, the order follows
    /// the indices of elements and outputs.
    pub fn order_of(&self, is_followed: &dyn Fn(usize) -> bool) -> TopologicalOrder {
        let n = self.nodes.len();
        let next: Vec<Vec<usize>> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(number, node)| match is_followed(number) {
                true => node.leads().rev().map(|(to, _)| to).collect(),
                false => Vec::new(),
            })
            .collect();
        let mut loops = vec![None; n];
        let (mut index, mut low) = (vec![usize::MAX; n], vec![0; n]);
        let (mut stack, mut on_stack) = (Vec::new(), vec![false; n]);
        let mut counter = 0;
        let mut finished = Vec::with_capacity(n);
        for root in (0..n).rev() {
            if index[root] != usize::MAX {
                continue;
            }
            let mut work = vec![(root, 0)];
            while let Some(&mut (node, ref mut edge)) = work.last_mut() {
                if *edge == 0 && index[node] == usize::MAX {
                    (index[node], low[node]) = (counter, counter);
                    counter += 1;
                    stack.push(node);
                    on_stack[node] = true;
                }
                if let Some(&to) = next[node].get(*edge) {
                    *edge += 1;
                    if index[to] == usize::MAX {
                        work.push((to, 0));
                    } else if on_stack[to] {
                        low[node] = low[node].min(index[to]);
                    }
                    continue;
                }
                work.pop();
                if let Some(&(parent, _)) = work.last() {
                    low[parent] = low[parent].min(low[node]);
                }
                if low[node] == index[node] {
                    let mut component = Vec::new();
                    while let Some(member) = stack.pop() {
                        on_stack[member] = false;
                        component.push(member);
                        if member == node {
                            break;
                        }
                    }
                    let is_circle = component.len() > 1 || next[node].contains(&node);
                    component.iter().for_each(|&member| loops[member] = is_circle.then_some(node));
                    component.reverse();
                    finished.extend(component.into_iter().rev());
                }
            }
        }
        // The algorithm finishes each strongly connected component after the components that it leads to.
        finished.reverse();
        let mut places = vec![0; n];
        finished.into_iter().enumerate().for_each(|(place, node)| places[node] = place);
        TopologicalOrder { places, loops }
    }

    /// Returns the index of an element in the order in which packets pass all elements.
    pub fn rank(&self, node: usize) -> usize {
        self.order.rank(node)
    }

    /// Returns the entries of the chain: elements that may emit packets of their own, and have a connected
    /// output.
    pub fn entries(&self) -> Vec<usize> {
        let leads = |node: &ChainNode| node.forward.iter().any(|to| !to.is_empty());
        let is_silent = |effects: &Effects| {
            let ends = effects.cases.iter().all(|case| matches!(case.to, Target::Drop(_)));
            effects.emits.is_empty() && effects.opaque.is_none() && !effects.cases.is_empty() && ends
        };
        // Some elements with inputs also emit packets that do not depend on input packets, for example
        // router advertisements.
        let makes = |effects: &Effects| effects.emits.iter().any(|e| !e.is_copy() && e.reads.is_empty());
        let starts = |node: &ChainNode| node.inputs == 0 || makes(&node.effects);
        let gives = |node: &ChainNode| starts(node) && leads(node) && !is_silent(&node.effects);
        (0..self.nodes.len()).filter(|&n| gives(&self.nodes[n])).collect()
    }

    /// True if packets leave the chain at this element: it sends packets out of the graph, or it has
    /// inputs, no outputs, and no declared cases.
    pub fn is_exit(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        is_exit(&node.effects) || node.inputs > 0 && node.forward.is_empty() && node.effects.cases.is_empty()
    }

    /// Pairs the elements `mine` of this chain with the elements `theirs` of another chain: by a name that
    /// the configuration gives, else by class and arguments. Returns the pairs, then the unpaired elements
    /// of this chain and of the other chain.
    pub fn pair(
        &self,
        mine: &[usize],
        other: &Chain,
        theirs: &[usize],
    ) -> (Vec<(usize, usize)>, Vec<usize>, Vec<usize>) {
        let mut theirs: Vec<usize> = theirs.to_vec();
        let mut pairs = Vec::new();
        let mut left = Vec::new();
        let by_name: BTreeMap<&str, usize> =
            theirs.iter().map(|&n| (other.nodes[n].name.as_str(), n)).collect();
        // A name with `@` was generated by the parser, so equal names do not mean equal elements.
        let is_given = |name: &str| !name.contains('@');
        for &node in mine {
            match by_name.get(self.nodes[node].name.as_str()) {
                Some(&with) if is_given(&self.nodes[node].name) => {
                    pairs.push((node, with));
                    theirs.retain(|&n| n != with);
                }
                _ => left.push(node),
            }
        }
        left.retain(|&node| {
            let same = theirs.iter().position(|&n| other.nodes[n].key == self.nodes[node].key);
            if let Some(place) = same {
                pairs.push((node, theirs.remove(place)));
            }
            same.is_none()
        });
        (pairs, left, theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(text: &str) -> Chain {
        let mut sources = lang::Sources::new();
        let source = sources.add("test", text);
        let (graph, problems) = lang::parse(&mut sources, source, &lang::Options::default());
        assert!(problems.is_empty(), "{problems:?}");
        let none = vec![None; graph.elements.len()];
        Chain::new(&graph, &none)
    }

    fn numbers(chain: &Chain, names: &[&str]) -> Vec<usize> {
        let place = |name: &&str| chain.nodes.iter().position(|node| node.name == *name);
        names.iter().filter_map(place).collect()
    }

    #[test]
    fn packets_pass_in_order() {
        let chain = chain("s :: A; a :: B; b :: C; t :: D; s -> a; s [1] -> b; b -> a; a -> t;");
        let ranks: Vec<usize> =
            numbers(&chain, &["s", "b", "a", "t"]).into_iter().map(|n| chain.rank(n)).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(chain.entries(), numbers(&chain, &["s"]));
        assert!(chain.nodes.iter().all(|node| node.loop_id.is_none()));
    }

    #[test]
    fn circles_and_islands_are_found() {
        let chain = chain("s :: A -> a :: B -> b :: C -> t :: D; b [1] -> [1] a; x :: X -> y :: Y -> x;");
        let loop_id: Vec<&str> =
            chain.nodes.iter().filter(|n| n.loop_id.is_some()).map(|n| n.name.as_str()).collect();
        assert_eq!(loop_id, ["a", "b", "x", "y"]);
    }

    #[test]
    fn arguments_have_one_form() {
        assert_eq!(key("A", " 1,  b   c /* no */, D 2"), key("A", "1,b c,D 2"));
        assert_ne!(key("A", "1, 2"), key("A", "2, 1"));
    }

    #[test]
    fn ends_correspond_by_name_and_then_by_arguments() {
        let a = chain("in :: A(1) -> Q -> D; B(2) -> Q; C(3) -> Q;");
        let b = chain("C(3) -> Q -> D; in :: A(9) -> Q; E -> Q;");
        let (pairs, mine, theirs) = a.pair(&a.entries(), &b, &b.entries());
        let names = |pairs: &[(usize, usize)]| -> Vec<(String, String)> {
            pairs.iter().map(|&(x, y)| (a.nodes[x].key.clone(), b.nodes[y].key.clone())).collect()
        };
        let expected = [("A(1)", "A(9)"), ("C(3)", "C(3)")].map(|(x, y)| (x.to_string(), y.to_string()));
        assert_eq!(names(&pairs), expected);
        assert_eq!((mine.len(), theirs.len()), (1, 1));
    }
}
