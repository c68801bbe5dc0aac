package atomics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// stored is where a value is.
type stored struct {
	object           string
	topic, partition int
	offset           int64
	delayed          bool
	times            int
}

// judge reads the log and compares it with the answers to all requests.
func (w *world) judge(ctx context.Context, r *rand.Rand) (n Counts, err error) {
	l, err := w.open(ctx, r)
	if err != nil {
		return n, err
	}
	defer l.Kill()
	there := map[string]*stored{}
	for i := range topics {
		for p := range partitions {
			if err := w.read(ctx, l.Read, i, p, there); err != nil {
				return n, err
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.all {
		if err := q.judge(there); err != nil {
			return n, fmt.Errorf("%w of %+v", err, q.parts)
		}
		count := func(to *int, is bool) {
			if is {
				*to++
			}
		}
		count(&n.Stored, there[q.parts[0].value] != nil)
		count(&n.Acked, q.acked)
		count(&n.Refused, q.refused)
		count(&n.Repeated, q.attempts > 1)
		n.Parts += len(q.parts)
	}
	return n, nil
}

// read adds the values of a partition.
func (w *world) read(ctx context.Context, view func(func(*state.State)), topic, partition int, there map[string]*stored) error {
	type from struct {
		state.Range
		key string
	}
	var all []from
	delayed := map[int64]bool{}
	view(func(s *state.State) {
		p := s.Topic(topicID(topic)).Partitions.At(partition)
		for _, r := range p.Ranges {
			all = append(all, from{r, s.Key(r.Epoch, r.Slot)})
		}
		for at := range p.Next {
			delayed[at] = topic == topics-1 && p.QueueOf().Of(at).State == state.QueueWaiting
		}
	})
	for _, f := range all {
		o, err := w.store.Get(ctx, f.key, objstore.Range{Offset: int64(f.Pos), Length: int64(f.Len)})
		if err != nil {
			return err
		}
		b, err := io.ReadAll(o.Body)
		if err := errors.Join(err, o.Body.Close()); err != nil {
			return err
		}
		var r record.Reader
		for r.Reset(b, f.Base); r.Next(); {
			v := string(r.Record().Value)
			if there[v] == nil {
				there[v] = &stored{object: f.key, topic: topic, partition: partition, offset: r.Record().Offset, delayed: delayed[r.Record().Offset]}
			}
			there[v].times++
		}
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}

// judge compares a request with what is stored.
func (q *request) judge(there map[string]*stored) error {
	if want := q.attempts * len(q.parts); q.released != want {
		return fmt.Errorf("%d of %d buffers were released", q.released, want)
	}
	first := there[q.parts[0].value]
	for i := range q.parts {
		p := &q.parts[i]
		at := there[p.value]
		switch {
		case (at == nil) != (first == nil):
			return fmt.Errorf("one of %q and %q is stored", p.value, q.parts[0].value)
		case at == nil && q.acked:
			return fmt.Errorf("%q was acknowledged and is not stored", p.value)
		case at == nil:
			continue
		case q.refused:
			return fmt.Errorf("%q was refused and is stored", p.value)
		case at.object != first.object:
			return fmt.Errorf("%q is in %s, and %q in %s", p.value, at.object, q.parts[0].value, first.object)
		case at.times != 1:
			return fmt.Errorf("%q is stored %d times", p.value, at.times)
		case at.topic != p.topic || at.partition != p.partition || at.delayed != p.delayed:
			return fmt.Errorf("%q is stored as %+v", p.value, at)
		case p.base >= 0 && at.offset != p.base:
			return fmt.Errorf("%q was acknowledged at offset %d, and is at %d", p.value, p.base, at.offset)
		}
	}
	return nil
}
