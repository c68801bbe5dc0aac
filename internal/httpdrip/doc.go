// Package httpdrip answers requests about expressions, such as POST /evaluate, and about triggers and firings. It knows the engine of
// triggers and no broker, and leaves the writing of answers and problems to its caller.
package httpdrip
