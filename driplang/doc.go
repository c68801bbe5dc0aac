// Package driplang is a small language for sentences about one entity's events over time, such as "a user who was created
// and has not used feature X within seven days":
//
//	user_created THEN (NOT use_feature_x WITHIN 7 days)
//
// [Parse], [ParseJSON] and [ParseOriginal] read an expression, [Expr.String] and [Expr.MarshalJSON] write it in canonical
// form. Package monitor evaluates it. Neither does any input or output, reads a clock or imports anything outside the
// standard library. The meaning of the language is described in docs/reference/driplang.md.
package driplang
