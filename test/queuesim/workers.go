package queuesim

import (
	"errors"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
)

func (w *world) lease() {
	if w.look(); w.r.IntN(2) == 0 {
		w.saw()
	}
	lease := w.core.Lease
	if w.set.KeyMode == state.KeyOrder && w.r.IntN(3) == 0 {
		lease = w.core.LeaseGroups
	}
	given, wait, err := lease(w.now, 1+w.r.IntN(6), 30e6, "worker")
	if err != nil {
		w.fail("%v", err)
	}
	for i, g := range given {
		w.check(g, given[:i])
	}
	epoch := w.epoch
	give := func() {
		if w.r.IntN(10) == 0 { // they do not reach the worker
			for _, g := range given {
				m := w.messages[g.Partition][g.Offset]
				m.back, m.until = g.Deliveries, 0
			}
			w.core.Return(given, 0)
			return
		}
		for _, g := range given {
			m := w.messages[g.Partition][g.Offset]
			m.leases++
			w.given = append(w.given, worker{g, queue.Receipt{ID: g.ID, Delivery: g.Deliveries, Epoch: epoch}})
		}
	}
	if len(wait) == 0 {
		give()
		return
	}
	if w.r.IntN(10) == 0 {
		w.refuse()
		w.core.Return(given, 0)
		return
	}
	s := w.freeze()
	then := s.then
	s.then = func(ok bool) { then(ok); give() }
}

// check checks that a message may be given, together with others before it.
func (w *world) check(g queue.Given, before []queue.Given) {
	w.uncommitted(g.ID)
	m := w.messages[g.Partition][g.Offset]
	run := w.partition(int(g.Partition)).QueueOf().Of(g.Offset)
	switch {
	case m.stored || m.over || run.State == state.QueueDone:
		w.fail("message %v is given, but it is done", g.ID)
	case m.until > w.now:
		w.fail("message %v is given before its time %d", g.ID, m.until)
	case m.leases >= w.set.MaxDeliveries+w.lost:
		w.fail("message %v is given %d times, and %d leaders have ended", g.ID, m.leases+1, w.lost)
	case w.set.KeyMode == state.KeyOrder && m.key != 0:
		for at := range g.Offset {
			with := slices.ContainsFunc(before, func(x queue.Given) bool { return x.ID == queue.ID{Partition: g.Partition, Offset: at} })
			if older := w.messages[g.Partition][at]; older.key == m.key && w.partition(int(g.Partition)).QueueOf().Of(at).State != state.QueueDone && !with {
				w.fail("message %v is given before %d, which has its key", g.ID, at)
			}
		}
	}
}

func (w *world) settle() {
	if len(w.given) == 0 {
		return
	}
	i := w.r.IntN(len(w.given))
	g := w.given[i]
	v := queue.Verdict{Do: queue.Finish, Delay: -1, Reason: "because"}
	switch w.r.IntN(6) {
	case 0:
		v.Do = queue.Retry
	case 1:
		v.Do, v.Delay = queue.Retry, w.r.Int64N(3_000_000)
	case 2:
		v.Do = queue.Kill
	case 3:
		v.Do, v.Delay = queue.Extend, max(0, g.Until-w.now)+w.r.Int64N(60_000_000) // longer, as the check of until needs
		w.given[i].Until = w.now + v.Delay
	}
	part := w.partition(int(g.Partition))
	w.core.Extended(g.Partition, part.Next)
	m := w.messages[g.Partition][g.Offset]
	ch, err := w.core.Settle(w.now, &g.r, v, "worker", part.QueueOf())
	if err == queue.ErrUnread {
		w.core.Know(w.now, g.ID, m.key, part.QueueOf())
		ch, err = w.core.Settle(w.now, &g.r, v, "worker", part.QueueOf())
	}
	if v.Do != queue.Extend {
		w.given = slices.Delete(w.given, i, i+1)
	}
	if err != nil {
		if !errors.Is(err, queue.ErrStale) {
			w.fail("settle: %v", err)
		}
		return
	}
	m.finished = m.finished || v.Do == queue.Finish
	if ch == nil {
		m.stored = m.stored || v.Do == queue.Finish
		return
	}
	if ch == w.core.Open(g.Partition) {
		if w.r.IntN(10) == 0 {
			w.refuse()
			if v.Do != queue.Extend {
				w.given = append(w.given, g)
			}
			return
		}
		s := w.freeze()
		then := s.then
		s.then = func(ok bool) { then(ok); m.stored = m.stored || v.Do == queue.Finish }
	}
}

// bury moves dying messages of a partition.
func (w *world) bury() {
	for p := range w.messages {
		list := w.core.Dying(uint32(p), 3)
		if len(list) == 0 || w.burying[p] {
			continue
		}
		q := &state.QueueChange{}
		slices.SortFunc(list, func(a, b queue.Dead) int { return int(a.Offset - b.Offset) })
		for _, d := range list {
			q.Runs = append(q.Runs, state.QueueRun{Base: d.Offset, Span: 1, State: state.QueueDone})
		}
		c := w.core
		var ids []queue.ID
		for _, d := range list {
			ids = append(ids, d.ID)
		}
		w.burying[p] = true
		w.slot(&slot{
			records: []state.Record{w.update(p, q)},
			then: func(bool) {
				c.Buried(uint32(p), ids, nil)
				w.burying[p] = false
			},
			always: func() {
				for _, d := range list {
					if w.dead[d.ID]++; w.dead[d.ID] > 1 {
						w.fail("message %v is dead twice", d.ID)
					}
				}
			},
		})
	}
}

func (w *world) cancel() {
	p := w.r.IntN(len(w.messages))
	if w.partition(p).Next == 0 {
		return
	}
	at := w.r.Int64N(w.partition(p).Next)
	w.core.Extended(uint32(p), w.partition(p).Next)
	m := w.messages[p][at]
	id, ch := queue.ID{Partition: uint32(p), Offset: at}, queue.NewChange(uint32(p))
	err := w.core.Claim(w.now, id, w.partition(p).QueueOf(), ch)
	if err == queue.ErrUnread {
		w.core.Know(w.now, id, m.key, w.partition(p).QueueOf())
		err = w.core.Claim(w.now, id, w.partition(p).QueueOf(), ch)
	}
	if err != nil {
		return
	}
	w.uncommitted(id)
	c := w.core
	s := w.freeze(w.update(p, c.Take(ch)))
	then := s.then
	s.then = func(ok bool) {
		then(ok)
		c.Done(ch, w.now, nil)
	}
	s.always = func() { m.over = true }
}
