// Package query parses and evaluates the query language of Riemann:
//
//	predicate  = disjunct { "or" disjunct }
//	disjunct   = conjunct { "and" conjunct }
//	conjunct   = "not" conjunct | "(" predicate ")" | comparison
//	comparison = "tagged" string
//	           | value ( "=" | "!=" ) value
//	           | value ( "<" | "<=" | ">" | ">=" ) number
//	           | value "=~" string      whole text; % stands for any characters
//	           | value "~=" string      regular expression (RE2), found anywhere
//	           | value                  true unless it is nil or false
//	value      = "true" | "false" | "nil" | "null" | number | string | field
//	number     = digits [ "l" | "L" | "n" | "N" ] | digits [ "." digits ] [ exponent ]
//	           | [ "-" ] "Infinity" | [ "-" ] "NaN"
//
// Keywords are in lower case. Spaces, line breaks and commas separate. A field is the name of a
// member of an event, such as host, metric, or an attribute; metric_f is another name of metric. A
// field that an event does not have is nil.
//
// Values of different types are not equal. Two numbers are equal if they have the same value, so 1 =
// 1.0, other than in Riemann. NaN is equal to nothing. The other comparisons of numbers are false
// unless both sides are numbers; those of texts are false unless the left side is a text.
package query
