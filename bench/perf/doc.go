// Package perf compares Seb with a bare HTTP server in alternating runs. It writes a table and
// charts.
package perf
