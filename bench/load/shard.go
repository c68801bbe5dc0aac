package load

import (
	"sync"

	"github.com/sebbroker/seb/bench/result"
)

// sendShard holds the samples of some publishers.
type sendShard struct {
	mu     sync.Mutex // guards all fields below
	sealed bool       // accepts no more samples
	// Samples of measured messages.
	ackIntended, ackSent, lag, own, inside *result.Histogram
	// Samples of all messages, from the intended time, since the last call of collect; spare is
	// empty.
	second, spare *result.Histogram
}

func newSendShard() *sendShard {
	return &sendShard{
		ackIntended: result.NewHistogram(), ackSent: result.NewHistogram(), lag: result.NewHistogram(), own: result.NewHistogram(), inside: result.NewHistogram(),
		second: result.NewHistogram(), spare: result.NewHistogram(),
	}
}

// sent records how late a measured message was handed to the driver, how much of that the generator
// caused, and how long the driver took.
func (s *sendShard) sent(lag, own, inside int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.lag.Record(lag)
	s.own.Record(own)
	s.inside.Record(inside)
}

// answered records how long an acknowledgement took.
func (s *sendShard) answered(intended, sent int64, measured bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.second.Record(intended)
	if measured {
		s.ackIntended.Record(intended)
		s.ackSent.Record(sent)
	}
}

// collect adds the samples since the last call to into. It is called by one goroutine.
func (s *sendShard) collect(into *result.Histogram) {
	s.mu.Lock()
	s.second, s.spare = s.spare, s.second
	taken := s.spare
	s.mu.Unlock()
	into.Merge(taken)
	taken.Reset()
}

// receiveShard holds the samples of some subscribers.
type receiveShard struct {
	mu            sync.Mutex // guards all fields below
	sealed        bool
	e2eIntended   *result.Histogram // of measured messages
	e2eSent       *result.Histogram
	second, spare *result.Histogram // as in sendShard
}

func newReceiveShard() *receiveShard {
	return &receiveShard{e2eIntended: result.NewHistogram(), e2eSent: result.NewHistogram(), second: result.NewHistogram(), spare: result.NewHistogram()}
}

// received records how long a message took.
func (s *receiveShard) received(intended, sent int64, measured bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.second.Record(intended)
	if measured {
		s.e2eIntended.Record(intended)
		s.e2eSent.Record(sent)
	}
}

// missing records a measured message that has not arrived after this time.
func (s *receiveShard) missing(ns int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.e2eIntended.Record(ns)
	s.e2eSent.Record(ns)
}

// collect adds the samples since the last call to into. It is called by one goroutine.
func (s *receiveShard) collect(into *result.Histogram) {
	s.mu.Lock()
	s.second, s.spare = s.spare, s.second
	taken := s.spare
	s.mu.Unlock()
	into.Merge(taken)
	taken.Reset()
}
