// Package perf measures Seb beside a bare HTTP server, in turns: the table and the pictures of docs/performance.md.
package perf
