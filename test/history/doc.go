// Package history records the requests and answers of a broker's clients and checks them, for tests
// of real processes. It does not know brokers. A history is a file of JSON lines, one Event each,
// ordered by time. An operation is two lines, its invocation and its return, so that an interrupted
// file still shows the operations in progress.
//
// Two checkers exist. Checker reads a history once, in linear time and memory (16 bytes per
// record), while it is written or later from the file. The Rule constants list its checks. Linear
// searches for an order of the operations that explains every answer, which is exact, but only
// possible for short histories.
//
// Records are identified by their content: Value makes one of its sender and number, and ParseValue
// recognizes it and detects every changed byte. So the clients need not remember what they sent.
package history
