// Package perf measures Seb beside a bare HTTP server, in turns: a table and pictures.
package perf
