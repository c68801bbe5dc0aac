// Package monitor evaluates driplang expressions as events come in and time goes by.
//
// [Compile] turns an expression into a [Program], which is read-only and shared. A [Monitor] follows one entity at a
// time: it takes the entity's events in the order of the log and says after each whether the expression is true
// ([Monitor.Step]), and the exact instant at which that will change if nothing more happens ([Monitor.Next]). Between two
// events a monitor's state is a few bytes ([Monitor.AppendState], [Monitor.Load]), so that a single monitor serves
// millions of entities.
//
// How it works: an expression is cut into regions, each with an anchor, the instant that its windows are measured from.
// Every completion of the left side of a THEN makes a frame of the region to its right, with that instant as its anchor.
// A frame holds a few counters; values are worked out from them and the time. Frames that can no longer matter, or do no
// more than another one, are dropped at once, so that most expressions need one or two. The rules of evaluation are in
// docs/reference/driplang.md; the tests hold an evaluator that follows them to the letter, and compare.
package monitor
