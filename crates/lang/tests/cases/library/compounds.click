// A library.
elementclass FromLibrary { $a | -> Lib($a) -> }
