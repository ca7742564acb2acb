// line
/* block
   over lines */ gate /**/ :: /* x */ Gate(/* y */ 10, // z )
  20) // end
-> tail//x
:: Tail; rack/unit/slot//the comment starts here
:: Slot
Plain(>plain<)
Nested(>f(g(h), i)<)
Quoted(>")" and ')' count for nothing<)
Line(>// so does this )
   one<)
Block(>/* and ) this */ one, as does \ alone<)
