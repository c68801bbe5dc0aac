package index

import (
	"cmp"
	"errors"
	"time"
)

// Status is the size of an index, and its lag behind the log.
type Status struct {
	Entries, Bytes, Subscribers int64
	// LagRecords is the number of records of the topic that the index has not read. LagTime is an upper
	// bound on the age of the oldest of them.
	LagRecords int64
	LagTime    time.Duration
	// Err: queries fail with ErrUnavailable, for this reason.
	Err error
}

// Status returns the state of the index. It does no I/O.
func (x *Index) Status() Status {
	p, _, err := x.peek()
	s := Status{Entries: x.met.entries.Load(), Bytes: x.met.bytes.Load(), Subscribers: x.met.subscribers.Load()}
	if errors.Is(err, ErrUnavailable) {
		s.Err = err
	}
	id, _ := x.opt.Log.Topic(x.opt.Topic)
	pos, _ := x.opt.Log.Position(id)
	if len(pos.Topics) == 0 {
		return s
	}
	for i, span := range pos.Topics[0] {
		next := span.Start
		if p.topic == id && i < len(p.next) {
			next = max(next, p.next[i])
		}
		s.LagRecords += max(0, span.Next-next)
	}
	if since := cmp.Or(p.behind, x.busy.Load()); s.LagRecords > 0 && since > 0 {
		s.LagTime = max(0, x.opt.Now().Sub(time.UnixMilli(since)))
	}
	return s
}
