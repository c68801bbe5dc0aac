package log_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

func parts(t testing.TB, released *atomic.Int64, ids ...record.ID) (list []log.Part) {
	for _, id := range ids {
		a := batch(t, id, 0, "a", "b")
		a.Release = func() { released.Add(1) }
		list = append(list, log.Part{Append: a})
	}
	return list
}

func TestAtomicIsAnsweredAsAWhole(t *testing.T) {
	l := open(t, options(objstore.NewMemory()))
	one, two := topic(t, l, "one", 1), topic(t, l, "two", 1)
	var released atomic.Int64
	for _, r := range wait(t, l.SubmitAtomic(parts(t, &released, one, two))) {
		must.NoError(t, r.Err())
		must.Equalf(t, r.Span, 2, "span")
	}
	refused := wait(t, l.SubmitAtomic(parts(t, &released, one, record.ID{9}, two)))
	must.ErrorIs(t, refused[0].Err(), state.ErrAtomic)
	must.ErrorIs(t, refused[1].Err(), state.ErrUnknownTopic)
	must.ErrorIs(t, refused[2].Err(), state.ErrAtomic)

	// beside others in one slot, which it does not affect
	beside := l.Submit([]log.Append{batch(t, one, 0, "c")})
	none := l.SubmitAtomic(parts(t, &released, two, record.ID{9}))
	all := l.SubmitAtomic(parts(t, &released, two, one))
	must.NoError(t, wait(t, beside)[0].Err())
	must.ErrorIs(t, wait(t, none)[0].Err(), state.ErrAtomic)
	must.Equalf(t, wait(t, all)[0].Base, 2, "offset of the second request")
	must.NoError(t, l.Close(t.Context()))
	must.Equalf(t, released.Load(), 9, "released buffers")
}

func TestAtomicThatIsWithdrawn(t *testing.T) {
	s := newHooked(objstore.NewMemory())
	o := options(s)
	l := open(t, o)
	one, two := topic(t, l, "one", 1), topic(t, l, "two", 1)
	hold := make(chan struct{})
	s.set(func(ctx context.Context, _ string, _ objstore.Body, pass func() error) error {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return pass()
	})
	var released atomic.Int64
	var sent []*log.Ticket
	for range 8 { // more than the window
		sent = append(sent, l.SubmitAtomic(parts(t, &released, one, two)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	withdrawn, unknown := 0, 0
	for _, k := range sent {
		results := k.Wait(ctx)
		must.Equalf(t, errors.Is(results[0].Err(), log.ErrNotSent), errors.Is(results[1].Err(), log.ErrNotSent), "both withdrawn")
		switch {
		case errors.Is(results[0].Err(), log.ErrNotSent):
			withdrawn++
		case errors.Is(results[0].Err(), state.ErrOutcomeUnknown) && errors.Is(results[1].Err(), state.ErrOutcomeUnknown):
			unknown++
		}
	}
	must.Equalf(t, withdrawn+unknown, len(sent), "requests with an answer")
	close(hold)
	must.NoError(t, l.Close(t.Context()))
	must.Equalf(t, released.Load(), int64(2*len(sent)), "released buffers")
	o.Store = s.Store
	again := open(t, o)
	must.EqualSlicesf(t, contents(t, again, s.Store, one, 0), contents(t, again, s.Store, two, 0), "topics")
}

// TestAtomicReleasesDelayedMessages checks that the buffer of a part with an op is released once, whether the
// request is stored, repeated, refused, or comes too late.
func TestAtomicReleasesDelayedMessages(t *testing.T) {
	l := open(t, options(objstore.NewMemory()))
	one, two := topic(t, l, "one", 1), topic(t, l, "two", 1)
	var released atomic.Int64
	request := func(producer int64, ids ...record.ID) *log.Ticket {
		list := parts(t, &released, ids...)
		for i := range list {
			a := &list[i].Append
			a.Head.Idempotent, a.Head.Producer = true, state.ProducerBatch{ID: producer, Span: a.Head.Span}
		}
		list[0].Op = &core.Op{Own: true, Placed: true, Record: state.Record{Kind: state.QueueUpdate, Topic: ids[0], Queue: &state.QueueChange{
			Runs: []state.QueueRun{{Span: 1, State: state.QueueWaiting, Until: 1 << 60}},
		}}}
		return l.SubmitAtomic(list)
	}
	for i, c := range []struct {
		what string
		k    func() *log.Ticket
		want error
		dup  bool
	}{
		{"stored", func() *log.Ticket { return request(1, one, two) }, nil, false},
		{"repeated", func() *log.Ticket { return request(1, one, two) }, nil, true},
		{"refused", func() *log.Ticket { return request(2, one, record.ID{9}) }, state.ErrAtomic, false},
		{"of an unknown queue", func() *log.Ticket { return request(2, record.ID{9}, two) }, state.ErrUnknownTopic, false},
		{"closed", func() *log.Ticket {
			must.NoError(t, l.Close(t.Context()))
			return request(3, one, two)
		}, log.ErrClosed, false},
	} {
		r := wait(t, c.k())
		must.ErrorIs(t, r[0].Err(), c.want)
		must.Equalf(t, r[0].Duplicate, c.dup, "%s: duplicate", c.what)
		must.Equalf(t, released.Load(), int64(2*i+2), "released buffers after a request that is %s", c.what)
	}
}
