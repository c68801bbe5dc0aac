package broker

import "github.com/VictoriaMetrics/metrics"

// Waiting returns the number of partitions with waiting fetches, and of those fetches.
func (b *Broker) Waiting() (lists, waiters int) {
	b.waiters.mu.Lock()
	defer b.waiters.mu.Unlock()
	return len(b.waiters.lists), b.waiters.count
}

// KeepFrom exports keepFrom.
var KeepFrom = keepFrom

// Metrics returns the broker's set.
func (b *Broker) Metrics() *metrics.Set { return b.opt.Metrics }

// For the tests of the range reader.
var OpenRanges = openRanges

// RangesOptions are the options of OpenRanges.
type RangesOptions = rangesOptions

// EndEvery exports endEvery.
const EndEvery = endEvery
