// Package stats keeps a day of a broker's figures in memory: rates of counters, quantiles of
// histograms and values of gauges. One goroutine reads the broker's metrics at an interval. It adds
// no counter to the hot path and makes no store request. Besides, histograms have the times of
// acknowledgements and PUTs, one value of each for a commit object. The memory is fixed and taken from
// the budget once.
package stats
