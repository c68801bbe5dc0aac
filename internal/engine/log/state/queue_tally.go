package state

import "iter"

// QueueTally has numbers of messages by their state.
type QueueTally struct {
	Done            int64
	Leased          int64
	Delayed, Trying int64 // before the first lease, and after a failed try
	Uncommitted     int64
}

func (t *QueueTally) add(r *QueueRun) {
	switch {
	case r.State == QueueDone:
		t.Done += r.Span
	case r.State == QueueLeased:
		t.Leased += r.Span
	case r.State == QueueUncommitted:
		t.Uncommitted += r.Span
	case r.Deliveries == 0:
		t.Delayed += r.Span
	default:
		t.Trying += r.Span
	}
}

func (t *QueueTally) sum() int64 { return t.Done + t.Leased + t.Delayed + t.Trying + t.Uncommitted }

// Tally counts the messages in [from, to) that a worker may not get at a time (µs). Chunks whose messages all
// wait longer are not unpacked.
func (q *Queue) Tally(from, to, now int64) (t QueueTally) {
	from = max(from, q.Done)
	var runs []QueueRun
	for i := q.Runs.from(from); i < len(q.Runs.chunks); i++ {
		k := &q.Runs.chunks[i]
		if k.base >= from && k.end <= to && k.first > now {
			t.Done, t.Leased, t.Delayed, t.Trying = t.Done+k.spans.Done, t.Leased+k.spans.Leased, t.Delayed+k.spans.Delayed, t.Trying+k.spans.Trying
			t.Uncommitted += k.spans.Uncommitted
			continue
		}
		runs = k.unpack(runs[:0])
		for j := range runs {
			if r := runs[j].part(from, to); r.Span > 0 && (r.State == QueueDone || r.Until > now) {
				t.add(&r)
			}
		}
	}
	return t
}

// Ready yields the messages in [from, to) that a worker may get at a time (µs), in order: untouched ones with
// State 0, and those whose time has come.
func (q *Queue) Ready(from, to, now int64) iter.Seq[QueueRun] {
	return func(yield func(QueueRun) bool) {
		at := max(from, q.Done)
		untouched := func(end int64) bool { return at >= end || yield(QueueRun{Base: at, Span: end - at}) }
		var runs []QueueRun
		for i := q.Runs.from(at); i < len(q.Runs.chunks) && at < to; i++ {
			k := &q.Runs.chunks[i]
			if k.first > now && k.spans.sum() == k.end-k.base { // none of it is ready
				if !untouched(min(k.base, to)) {
					return
				}
				at = k.end
				continue
			}
			runs = k.unpack(runs[:0])
			for _, r := range runs {
				if r.End() <= at || r.Base >= to {
					continue
				}
				if !untouched(r.Base) {
					return
				}
				if r.State != QueueDone && r.Until <= now && !yield(r.part(at, to)) {
					return
				}
				at = r.End()
			}
		}
		untouched(to)
	}
}
