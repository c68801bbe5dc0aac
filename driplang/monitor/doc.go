// Package monitor evaluates driplang expressions as events arrive and time passes.
//
// [Compile] converts an expression to a [Program], which is read-only and shared. A [Monitor]
// evaluates one entity at a time. It takes the entity's events in log order and returns after each
// whether the expression is true ([Monitor.Step]). It also returns the exact instant at which the
// value changes without further events ([Monitor.Next]). The state between two events has a few
// bytes ([Monitor.AppendState], [Monitor.Load]), so that one monitor serves millions of entities.
//
// Compile divides an expression into regions. Each region has an anchor: the instant from which its
// windows are measured. Every completion of the left side of a THEN creates a frame of the region
// to its right, with that instant as the anchor. A frame has a few counters; values are computed
// from them and the time. The monitor drops frames that are irrelevant or redundant at once, so
// that most expressions need one or two. docs/reference/driplang.md has the rules of evaluation.
// The tests compare the monitor with an evaluator that follows them literally.
package monitor
