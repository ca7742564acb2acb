use super::*;

#[test]
fn equal_questions_are_equal_diagrams() {
    let d = Diagrams::new(1 << 16);
    let [a, b] = [0, 1].map(|place| d.symbol(Symbol::Input(place, 0)));
    assert!(d.not(&d.and(&a, &b)) == d.or(&d.not(&a), &d.not(&b)));
    assert!(d.choose(&a, &b, &b) == b);
    assert_eq!(d.known(&d.or(&a, &d.not(&a))), Some(true));
    assert!(d.symbol(Symbol::Input(0, 0)) == a);
    assert!((d.share(&d.and(&a, &b)) - 0.25).abs() < 1e-9);
}

#[test]
fn equal_functions_of_equal_values_are_equal() {
    let d = Diagrams::new(1 << 16);
    let term = |bits: &[Bit]| Term { name: "f".into(), numbers: Vec::new(), bits: bits.to_vec() };
    let [a, b] = [0, 1].map(|place| d.symbol(Symbol::Input(place, 0)));
    assert!(d.value(term(std::slice::from_ref(&a)), 3) == d.value(term(std::slice::from_ref(&a)), 3));
    assert!(d.value(term(&[a]), 3) != d.value(term(&[b]), 3));
}

#[test]
fn an_example_makes_it_true() {
    let d = Diagrams::new(1 << 16);
    let [a, b] = [3, 9].map(|place| d.symbol(Symbol::Input(place, 7)));
    let example = d.example(&d.and_not(&a, &b)).unwrap();
    assert_eq!(example.get(&Symbol::Input(3, 7)), Some(&true));
    assert_eq!(example.get(&Symbol::Input(9, 7)), Some(&false));
    assert!(d.example(&d.no()).is_none());
}

#[test]
fn within_a_condition_answers_stay() {
    let d = Diagrams::new(1 << 16);
    let [a, b, c, e, f, g] = &[0, 1, 2, 3, 4, 5].map(|place| d.symbol(Symbol::Input(place, 0)));
    let rules = d.or(&d.and(a, c), &d.xor(e, g));
    for part in [b.clone(), d.xor(b, f), d.or(f, g), rules.clone(), d.not(&rules)] {
        let (here, there) = (d.and(&rules, &part), d.and_not(&rules, &part));
        let both = d.or(&here, &there);
        let small = d.within(&here, &both);
        assert!(d.and(&small, &both) == here);
        assert!(d.size(&small) <= d.size(&here));
    }
    assert!(d.within(&d.and(&rules, b), &rules) == *b);
}

#[test]
fn running_out_of_room_is_noticed() {
    let d = Diagrams::new(64);
    let bits: Vec<Bit> = (0..40).map(|place| d.symbol(Symbol::Input(place, 0))).collect();
    bits.iter().fold(d.no(), |sum, bit| d.xor(&sum, bit));
    let pairs = (0..20).map(|i| d.and(&bits[i], &bits[i + 20]));
    pairs.fold(d.no(), |any, pair| d.or(&any, &pair));
    assert!(d.exhausted());
}
/// Makes far more nodes than there is room for, few of which stay in use. If the library's own thread
/// freed some of them, the count would be wrong, and operations would run out of room now and then.
#[test]
fn nodes_are_freed_only_when_the_room_is_full() {
    let room = 1 << 12;
    let d = Diagrams::new(room);
    let bits: Vec<Bit> = (0..24).map(|place| d.symbol(Symbol::Input(place, 0))).collect();
    let (mut random, mut made) = (fastrand::Rng::with_seed(7), 0);
    while made < 20 * room {
        let before = d.nodes();
        let pick = |random: &mut fastrand::Rng| bits[random.usize(..bits.len())].clone();
        let sum = (0..12).fold(d.no(), |sum, _| {
            let pair = d.and(&pick(&mut random), &pick(&mut random));
            d.xor(&sum, &pair)
        });
        assert!(!d.exhausted() && d.size(&sum) <= room && d.nodes() <= room + 1);
        made += d.nodes().saturating_sub(before);
    }
    assert_eq!(d.nodes(), d.manager.with_manager_shared(|manager| manager.num_inner_nodes()));
}
