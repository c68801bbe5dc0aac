package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

// Fetch reads committed batches. It answers when at least minBytes are there for all wants together or a want has all
// that it may get, when maxWait is over, or at once if a want is in error or minBytes or maxWait is 0; with what is there
// then, which may be nothing. If ctx ends while it waits it returns ctx's error.
//
// A want gives whole batches until MaxBytes are reached, at least one. What does not fit into the memory budget is left
// out, and is for the next call; if nothing fits, the error is ErrOverBudget. The caller must Release the answer.
func (b *Broker) Fetch(ctx context.Context, wants []Want, minBytes int, maxWait time.Duration) (*Fetched, error) {
	return b.FetchWithin(ctx, wants, Volume{Min: minBytes}, maxWait)
}

// Volume is how much a fetch is to give for all wants together, in bytes.
type Volume struct {
	// Min is what it waits for.
	Min int
	// Max, if not 0, ends the answer: the wants behind the one that reaches it get nothing, as if nothing were there. It is
	// soft as Want.MaxBytes is.
	Max int
}

// FetchWithin is Fetch with a bound for all wants together.
func (b *Broker) FetchWithin(ctx context.Context, wants []Want, v Volume, maxWait time.Duration) (*Fetched, error) {
	minBytes := v.Min
	select {
	case <-b.closing:
		return nil, ErrClosed
	default:
	}
	var timer *time.Timer
	for {
		p := newPlan(wants)
		p.most = int64(v.Max)
		var w *waiter
		if minBytes > 0 && maxWait > 0 {
			w = &waiter{wake: make(chan struct{}, 1)}
		}
		if !b.plan(p, int64(minBytes), w) {
			return b.read(ctx, p)
		}
		if timer == nil {
			timer = time.NewTimer(maxWait)
			defer timer.Stop()
		}
		over, err := b.wait(ctx, w, timer)
		if err != nil {
			return nil, err
		}
		if over {
			maxWait = 0
		}
	}
}

// wait waits until a listed waiter is woken; over says that the next look is the last.
func (b *Broker) wait(ctx context.Context, w *waiter, timer *time.Timer) (over bool, err error) {
	defer b.waiters.remove(w)
	select {
	case <-w.wake:
		return false, nil
	case <-timer.C:
		return true, nil
	case <-b.log.Done():
		return true, nil // nothing more will come
	case <-ctx.Done():
		return false, fmt.Errorf("fetch: %w", context.Cause(ctx))
	}
}

// plan is what a fetch is about to read.
type plan struct {
	wants []Want
	parts []partPlan
	most  int64 // bytes of all parts; 0: no bound
}

// partPlan is one want's part of the plan.
type partPlan struct {
	id          partKey
	err         error
	start, next int64
	ranges      []planRange // that hold data from the wanted offset on, no more than are needed
	bytes       int64       // of them, from the wanted offset on, about
	full        bool        // more would not be given
}

// planRange is a range with the name of its object.
type planRange struct {
	state.Range
	key string
}

func newPlan(wants []Want) *plan {
	p := &plan{wants: slices.Clone(wants), parts: make([]partPlan, len(wants))}
	for i := range p.wants {
		if p.wants[i].MaxBytes <= 0 {
			p.wants[i].MaxBytes = maxBytesDefault
		}
	}
	return p
}

// plan looks up where the wanted data lies, all in one state. If that is less than minBytes and w is not nil it lists
// w as a waiter before anything can be committed, and returns true.
func (b *Broker) plan(p *plan, minBytes int64, w *waiter) (waits bool) {
	known := false
	b.log.Read(func(s *state.State) {
		known = true
		var bytes int64
		ready := w == nil || len(p.wants) == 0
		for i := range p.wants {
			pp := &p.parts[i]
			pp.look(s, &p.wants[i])
			if p.most > 0 {
				pp.bound(&p.wants[i], p.most-bytes)
			}
			bytes += pp.bytes
			ready = ready || pp.err != nil || pp.full
		}
		if ready || bytes >= minBytes {
			return
		}
		w.need = minBytes - bytes
		for i := range p.parts {
			w.parts = append(w.parts, p.parts[i].id)
		}
		waits = b.waiters.add(w)
	})
	if !known {
		for i := range p.parts {
			p.parts[i].err = ErrNotLeader
		}
	}
	if b.ReadOnly() && b.log.Status().Role == core.RoleFollower {
		b.waiters.touch(followLinger)
	}
	return waits
}

// look fills in a part.
func (pp *partPlan) look(s *state.State, w *Want) {
	t := s.TopicByName(w.Topic)
	if t == nil || !w.ID.IsZero() && w.ID != t.ID {
		pp.err = ErrUnknownTopic
		return
	}
	if w.Partition < 0 || int(w.Partition) >= t.Partitions.Len() {
		pp.err = ErrUnknownPartition
		return
	}
	part := t.Partitions.At(int(w.Partition))
	pp.id = partKey{t.ID, uint32(w.Partition)}
	pp.start, pp.next = part.Start, part.Next
	if w.Offset < part.Start {
		pp.err = &BelowStartError{Offset: w.Offset, Start: part.Start}
		return
	}
	if w.Offset >= part.Next {
		return
	}
	first := part.Find(w.Offset)
	if first < 0 {
		pp.err = &CorruptError{Topic: w.Topic, Partition: w.Partition, Offset: w.Offset, Err: errNoRange}
		return
	}
	for i := first; i < len(part.Ranges) && len(pp.ranges) < readsMax && pp.bytes < int64(w.MaxBytes); i++ {
		r := part.Ranges[i]
		if r.Lost() {
			continue // a reader continues behind offsets that a recovery has skipped
		}
		pp.ranges = append(pp.ranges, planRange{r, s.RangeKey(&r)})
		pp.bytes += left(&r, w.Offset)
	}
	pp.full = len(pp.ranges) == readsMax || pp.bytes >= int64(w.MaxBytes)
}

// bound leaves of a part what fits into so many bytes; a batch that is not the answer's first fits only if there is room.
func (pp *partPlan) bound(w *Want, room int64) {
	switch {
	case len(pp.ranges) == 0 || pp.bytes <= room:
		return
	case room <= 0:
		pp.ranges, pp.bytes = nil, 0
	default:
		w.MaxBytes = min(w.MaxBytes, int(room))
	}
	pp.full = true
}

// left estimates how many bytes of a range hold the offset and what follows: its batches are taken to be of one size. It is
// never 0, though what compaction has left of a range may be fewer bytes than offsets: who waits for something has it.
func left(r *state.Range, offset int64) int64 {
	if offset <= r.Base {
		return int64(r.Len)
	}
	return max(1, int64(float64(r.Len)*(float64(r.End()-offset)/float64(r.Span))))
}
