define($a 1, $a 2);
define(b 1, $ 2, $c=3);
define($d $e, $e $d);
define;
define($f 1
