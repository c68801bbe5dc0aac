package broker

import "github.com/VictoriaMetrics/metrics"

// Waiting is the number of partitions that fetches wait for, and of those fetches.
func (b *Broker) Waiting() (lists, waiters int) {
	b.waiters.mu.Lock()
	defer b.waiters.mu.Unlock()
	return len(b.waiters.lists), b.waiters.count
}

// KeepFrom is the decision of retention.
var KeepFrom = keepFrom

// Metrics is the broker's set.
func (b *Broker) Metrics() *metrics.Set { return b.opt.Metrics }

// What the tests of the reader of ranges use.
var OpenRanges = openRanges

// RangesOptions are those of OpenRanges.
type RangesOptions = rangesOptions
