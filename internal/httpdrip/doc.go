// Package httpdrip answers requests about expressions, such as POST /evaluate. It knows no broker, and leaves the writing of
// answers and problems to its caller.
package httpdrip
