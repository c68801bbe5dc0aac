package load

import (
	"sync"

	"github.com/sebbroker/seb/bench/result"
)

// shard holds the latencies of some publishers' acknowledgements, or of some subscribers'
// deliveries.
type shard struct {
	mu     sync.Mutex // guards all fields, and those of sendShard
	sealed bool       // accepts no more samples
	// Samples of measured messages.
	intended, sent *result.Histogram
	// Samples of all messages, from the intended time, since the last call of collect; spare is
	// empty.
	second, spare *result.Histogram
}

func newShard() *shard {
	return &shard{intended: result.NewHistogram(), sent: result.NewHistogram(), second: result.NewHistogram(), spare: result.NewHistogram()}
}

// record records how long an acknowledgement or a delivery took.
func (s *shard) record(intended, sent int64, measured bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.second.Record(intended)
	if measured {
		s.intended.Record(intended)
		s.sent.Record(sent)
	}
}

// missing records a measured message that has not arrived after this time.
func (s *shard) missing(ns int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intended.Record(ns)
	s.sent.Record(ns)
}

// collect adds the samples since the last call to into. It is called by one goroutine.
func (s *shard) collect(into *result.Histogram) {
	s.mu.Lock()
	s.second, s.spare = s.spare, s.second
	taken := s.spare
	s.mu.Unlock()
	into.Merge(taken)
	taken.Reset()
}

// seal makes the shard accept no more samples.
func (s *shard) seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
}

// sendShard is the shard of some publishers, with the timing of measured messages.
type sendShard struct {
	*shard
	lag, own, inside *result.Histogram
}

func newSendShard() *sendShard {
	return &sendShard{newShard(), result.NewHistogram(), result.NewHistogram(), result.NewHistogram()}
}

// handed records how late a measured message was handed to the driver, how much of that the
// generator caused, and how long the driver took.
func (s *sendShard) handed(lag, own, inside int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.lag.Record(lag)
	s.own.Record(own)
	s.inside.Record(inside)
}
