package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// Fetch reads committed batches. It returns when all wants together have minBytes, when one want
// has its MaxBytes, or after maxWait. It returns at once if a want has an error or if minBytes or
// maxWait is 0. The result holds the data available then, possibly none. If ctx ends during the
// wait, Fetch returns ctx's error.
//
// A want returns whole batches until MaxBytes are reached, at least one. Data that exceeds the
// memory budget is left for the next call; if nothing fits, the error is ErrOverBudget. The caller
// must Release the result.
func (b *Broker) Fetch(ctx context.Context, wants []Want, minBytes int, maxWait time.Duration) (*Fetched, error) {
	return b.FetchWithin(ctx, wants, Volume{Min: minBytes}, maxWait)
}

// Volume bounds the bytes of a fetch, for all wants together.
type Volume struct {
	// Min is the number of bytes to wait for.
	Min int
	// Max, if not 0, ends the result: the wants after the one that reaches it return nothing, as if
	// there were no data. It is soft, as Want.MaxBytes is.
	Max int
}

// FetchWithin is Fetch with a limit for all wants together.
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
		p.maxBytes = int64(v.Max)
		var w *waiter
		if minBytes > 0 && maxWait > 0 {
			w = &waiter{wake: wake.New()}
		}
		if !b.plan(p, int64(minBytes), w) {
			return b.read(ctx, p)
		}
		if timer == nil {
			timer = time.NewTimer(maxWait)
			defer timer.Stop()
		}
		last, err := b.wait(ctx, w, timer)
		if err != nil {
			return nil, err
		}
		if last {
			maxWait = 0
		}
	}
}

// wait waits until an added waiter is woken. With last, the next plan is the last.
func (b *Broker) wait(ctx context.Context, w *waiter, timer *time.Timer) (last bool, err error) {
	defer b.waiters.remove(w)
	select {
	case <-w.wake:
		return false, nil
	case <-timer.C:
		return true, nil
	case <-b.log.Done():
		return true, nil // no more commits
	case <-ctx.Done():
		return false, fmt.Errorf("fetch: %w", context.Cause(ctx))
	}
}

// plan is the data that a fetch will read.
type plan struct {
	wants    []Want
	parts    []partPlan
	maxBytes int64 // limit for all parts, in bytes; 0: none
}

// partPlan is one want's part of the plan.
type partPlan struct {
	id          partKey
	err         error
	start, next int64
	stable      int64 // last stable offset
	visible     visible
	aborted     []state.AbortedTransaction // for FetchedPart.Aborted
	lost        int64                      // end of the offsets without records that hold the wanted one; 0: none do
	ranges      []planRange                // with data from the wanted offset on, no more than needed
	bytes       int64                      // estimated bytes from the wanted offset on
	full        bool                       // at a limit: more commits would add nothing

	stored bool         // a part of it is read from the store
	reader *aheadReader // that it continues, or nil
}

// planRange is a range with the key of its object.
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

// plan locates the wanted data, all in one state. If there is less than minBytes and w is not nil,
// it adds w to the waiters and returns true.
//
// It adds w under the state's read lock. A commit wakes the waiters under the write lock, so none
// falls between the look at the state and the wait.
func (b *Broker) plan(p *plan, minBytes int64, w *waiter) (waits bool) {
	known := false
	b.log.Read(func(s *state.State) {
		known = true
		var bytes int64
		ready := w == nil || len(p.wants) == 0
		for i := range p.wants {
			pp := &p.parts[i]
			pp.look(s, &p.wants[i])
			if p.maxBytes > 0 {
				pp.bound(&p.wants[i], p.maxBytes-bytes)
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
			p.parts[i].err = state.ErrNotLeader
		}
	}
	if b.log.Status().Role == core.RoleFollower {
		b.waiters.touch(followLinger)
	}
	return waits
}

// look fills in a part of the plan.
func (pp *partPlan) look(s *state.State, w *Want) {
	t := s.TopicByName(w.Topic)
	if t == nil || !w.ID.IsZero() && w.ID != t.ID {
		pp.err = state.ErrUnknownTopic
		return
	}
	if w.Partition < 0 || int(w.Partition) >= t.Partitions.Len() {
		pp.err = state.ErrUnknownPartition
		return
	}
	part := t.Partitions.At(int(w.Partition))
	pp.id = partKey{t.ID, uint32(w.Partition)}
	pp.start, pp.next, pp.stable = part.Start, part.Next, part.LastStable()
	pp.visible = visibleIn(part, w.Isolation)
	if w.Offset < part.Start {
		pp.err = &BelowStartError{Offset: w.Offset, Start: part.Start}
		return
	}
	end := pp.visible.end
	if w.Offset >= end {
		return
	}
	first := part.Find(w.Offset)
	if first < 0 {
		pp.err = &CorruptError{Topic: w.Topic, Partition: w.Partition, Offset: w.Offset, Err: errNoRange}
		return
	}
	for i := first; i < len(part.Ranges) && part.Ranges[i].Base < end && len(pp.ranges) < readsMax && pp.bytes < int64(w.MaxBytes); i++ {
		r := part.Ranges[i]
		if r.Lost() {
			if len(pp.ranges) == 0 {
				pp.lost = r.End()
			}
			continue // a reader skips the offsets that a recovery has skipped
		}
		pp.ranges = append(pp.ranges, planRange{r, s.RangeKey(&r)})
		pp.bytes += left(&r, w.Offset, end)
	}
	if n := len(pp.ranges); n > 0 && len(part.Aborted) > 0 {
		pp.lookAborted(part, w, min(end, pp.ranges[n-1].End()))
	}
	pp.full = len(pp.ranges) == readsMax || pp.bytes >= int64(w.MaxBytes) || len(pp.ranges) == 0
}

// bound limits a part to room bytes. A batch that is not the result's first is returned only if it
// fits.
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

// lookAborted looks for the aborted transactions in the planned offsets, which end before end.
func (pp *partPlan) lookAborted(part *state.Partition, w *Want, end int64) {
	switch w.Isolation {
	case Committed, NotAborted:
		pp.visible.leaveOut(part.AbortedIn(w.Offset, end))
	case RawCommitted:
		pp.aborted = part.AbortedIn(w.Offset, end)
	}
}

// left estimates the bytes of a range in offsets [offset, end), as if all batches had one size. It is
// never 0, so that a waiting fetch is satisfied: after compaction a range can hold fewer bytes than
// offsets.
func left(r *state.Range, offset, end int64) int64 {
	if offset <= r.Base && end >= r.End() {
		return int64(r.Len)
	}
	from, to := max(offset, r.Base), min(end, r.End())
	return max(1, int64(float64(r.Len)*(float64(to-from)/float64(r.Span))))
}
