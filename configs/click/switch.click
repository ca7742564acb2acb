// A script changes the output of a switch ten times: each second, packets go to the other output.
//
//   cargo run --release -- run configs/click/switch.click --clock trace -H left.count -H right.count

source :: RatedSource(LENGTH 60, RATE 100)
    -> way :: Switch(0)
    -> left :: Counter
    -> Discard;
way[1] -> right :: Counter -> Discard;

Script(
    set turn 0,
    label again,
    wait 1s,
    write way.switch $(mod $(add $(way.switch) 1) 2),
    set turn $(add $turn 1),
    goto again $(lt $turn 10),
    print "left $(left.count), right $(right.count)",
    stop)
