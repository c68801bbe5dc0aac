// Package driplang is a small language for conditions on one entity's events over time, such as "a
// user who was created and has not used feature X within seven days":
//
//	user_created THEN (NOT use_feature_x WITHIN 7 days)
//
// [Parse], [ParseJSON] and [ParseOriginal] parse an expression. [Expr.String] and
// [Expr.MarshalJSON] return its canonical form. Package monitor evaluates it. [ParseFilter] parses a
// condition on one event, which [Filter.Match] evaluates. Both packages do no I/O, read no clock and
// import only the standard library. docs/reference/driplang.md defines the language.
package driplang
