// Package history records what clients of a broker asked and heard, and checks it: for tests of real processes. It knows
// nothing of brokers. A history is a file of JSON lines, one Event each, in the order of time: an operation is two lines,
// its invocation and its return, so that a file that ends early still shows what was under way.
//
// Two checkers judge it. Checker reads it once, in time and memory linear in its length (16 bytes a record), while it is
// being written or later from the file; what it looks for is listed with the Rule constants. Linear looks for an order of
// the operations that explains every answer, which is exact, and for short histories only.
//
// Records are told apart by what is in them: Value makes one of its sender and its number, ParseValue knows it again and
// finds every changed byte. So nobody has to remember what was sent.
package history
