src :: Src; dst :: Dst;
src -> filter :: Filter(tcp) => ( -> output; input [1] -> Mark(7) -> Log -> output ) -> dst;
src [1] -> (->) -> [1] dst;
src [2] => ( [0]->[1]; [1]->[0] ) => ( [1]->[0]; [0]->[1] ) -> [2] dst;
src [3] => [1,0] ( [0]->[0]; [1]->Half->[1] ) [0-1] -> [3] dst;
src [4] -> ( -> inside :: I -> ( -> J -> ) -> ) -> [4] dst;
inside [1] -> [5] dst;
src [5] => ( => A, B => ) => dst
