// Command kafkaperf measures Kafka's own perf tools against Kafka and Seb, in turns, and prints a Markdown table: records a second,
// the broker's CPU time for each record, and its memory. One broker runs at a time, each turn on a new one with empty folders.
// Kafka comes from seb-bench, which says how it is set up.
package main
