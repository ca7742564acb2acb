// define SLOTS=9
define($PORT p4, $SLOTS 2, $BOTH "$PORT.$SLOTS");
Show($PORT, $SLOTS, $BOTH, "$BOTH");
Later($late); define($late x);
{ define($PORT inner, $SLOTS "$SLOTS+1") Show($PORT, $SLOTS, $BOTH) };
define($LIST a b  c, $EMPTY, $QUOTED 'x, y')
Show($LIST, $EMPTY, $QUOTED, [$EMPTY])
Script(set x 1, print $x)
// $SLOTS
Comment(1 /* $SLOTS */, 2 // $SLOTS
)
