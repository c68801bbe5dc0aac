package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// place is a partition of the model.
type place struct {
	topic     record.ID
	partition uint32
}

// atomicModel is a log as a map of partitions, and of producers that send one request in each epoch.
type atomicModel struct {
	ends  map[place]int64
	known map[place]map[int64]epochOf
}

type epochOf struct {
	epoch int16
	base  int64
}

// check returns the error of an append that is proposed next.
func (m *atomicModel) check(a *core.Append) error {
	end, exists := m.ends[place{a.Topic, a.Partition}]
	switch {
	case a.Check != nil:
		return state.ErrUnauthorized
	case !exists:
		return state.ErrUnknownTopic
	case a.Idempotent:
		e, known := m.known[place{a.Topic, a.Partition}][a.Producer.ID]
		switch {
		case !known || e.epoch < a.Producer.Epoch:
		case e.epoch > a.Producer.Epoch:
			return state.ErrProducerFenced
		default:
			return core.ErrDuplicate
		}
	}
	if a.Expected >= 0 && a.Expected != end {
		return &state.OffsetMismatchError{Expected: a.Expected, Next: end}
	}
	return nil
}

// add appends, and returns the offset.
func (m *atomicModel) add(a *core.Append) int64 {
	at := place{a.Topic, a.Partition}
	base := m.ends[at]
	m.ends[at] += int64(a.Span)
	if a.Idempotent {
		m.known[at][a.Producer.ID] = epochOf{a.Producer.Epoch, base}
	}
	return base
}

// result is what a member must have.
type result struct {
	err  error
	base int64
}

// atomic returns the results of an atomic request.
func (m *atomicModel) atomic(parts []core.Append) []result {
	out := make([]result, len(parts))
	duplicates, refused := 0, -1
	for i := range parts {
		err := m.check(&parts[i])
		if err == core.ErrDuplicate {
			duplicates++
			out[i] = result{err, m.known[place{parts[i].Topic, parts[i].Partition}][parts[i].Producer.ID].base}
			err = nil
		}
		if err == nil && i+1 == len(parts) && duplicates > 0 && duplicates < len(parts) {
			err = state.ErrSequenceGap
		}
		if err != nil {
			out[i].err, refused = err, i
			break
		}
	}
	for i := range parts {
		switch {
		case refused >= 0 && i != refused:
			out[i] = result{err: state.ErrAtomic}
		case refused < 0 && duplicates == 0:
			out[i].base = m.add(&parts[i])
		}
	}
	return out
}

// atomicRounds makes random proposals.
type atomicRounds struct {
	r      *rand.Rand
	m      *atomicModel
	places []place
	sent   [][]core.Append // newest requests of producers
	epochs [2]int16        // of the next request of each
}

// request returns the parts of an atomic request. Some are of a producer, and some of these repeat one.
func (x *atomicRounds) request() []core.Append {
	r := x.r
	who := r.IntN(4)
	switch {
	case who >= len(x.epochs):
		return randomParts(r, x.places)
	case len(x.sent) > 0 && r.IntN(2) == 0:
		parts := slices.Clone(x.sent[r.IntN(len(x.sent))])
		parts[0].Idempotent = r.IntN(8) > 0
		return parts
	}
	parts := randomParts(r, x.places)
	for i := range parts {
		parts[i] = produced(parts[i], int64(who), x.epochs[who], 0)
	}
	x.epochs[who]++
	x.sent = append(x.sent, slices.Clone(parts))
	x.sent = x.sent[max(0, len(x.sent)-6):]
	return parts
}

// propose returns a proposal and the results that its appends must have.
func (x *atomicRounds) propose() (p *core.Proposal, want []result) {
	p = &core.Proposal{}
	for range x.r.IntN(4) {
		parts := x.request()
		of := core.Atomic{Ops: core.Span{From: int32(len(p.Ops))}, Appends: core.Span{From: int32(len(p.Appends))}}
		for i := range parts {
			if parts[i].Topic == queueID && x.r.IntN(2) == 0 {
				p.Ops = append(p.Ops, delayed(queueID, of.Appends.From+int32(i)))
				parts[i].Joins = true
			}
		}
		p.Appends = append(p.Appends, parts...)
		of.Ops.To, of.Appends.To = int32(len(p.Ops)), int32(len(p.Appends))
		p.Atomics = append(p.Atomics, of)
		want = append(want, x.m.atomic(parts)...)
	}
	for range x.r.IntN(3) {
		at := x.places[x.r.IntN(len(x.places))]
		a := part(at.topic, at.partition)
		if a.Atomic = false; x.r.IntN(4) == 0 {
			a.Expected = x.m.ends[at] + int64(x.r.IntN(2))
		}
		p.Appends = append(p.Appends, a)
		if err := x.m.check(&a); err != nil {
			want = append(want, result{err: err})
		} else {
			want = append(want, result{base: x.m.add(&a)})
		}
	}
	return p, want
}

// TestAtomicsAgainstAModel proposes random atomic requests, some of them repeated, beside other members, with
// slots in flight, and compares their results and the committed state with the model.
func TestAtomicsAgainstAModel(t *testing.T) {
	b := leader(t, core.Config{RaiseAfter: core.Duration(time.Nanosecond), Window: 3})
	b.freeze([]core.Op{queueQ})
	b.settle()
	m := &atomicModel{ends: map[place]int64{}, known: map[place]map[int64]epochOf{}}
	x := &atomicRounds{r: rand.New(rand.NewPCG(62, 1)), m: m, places: []place{{topicID, 0}, {topicID, 1}, {queueID, 0}}}
	for _, at := range x.places {
		m.ends[at], m.known[at] = 0, map[int64]epochOf{}
	}
	seen := map[string]int{}
	for round := range 3000 {
		p, want := x.propose()
		if !b.core.Room() {
			b.settle()
		}
		b.step(&core.Event{Kind: core.EvFreeze, Proposal: p, Wall: b.now / 1000})
		for i := range p.Appends {
			a := &p.Appends[i]
			if fmt.Sprint(a.Err) != fmt.Sprint(want[i].err) || (a.Err == nil || a.Err == core.ErrDuplicate) && a.Base != want[i].base {
				t.Fatalf("round %d, append %d of %+v: %v at %d, want %v at %d", round, i, p.Atomics, a.Err, a.Base, want[i].err, want[i].base)
			}
			seen[fmt.Sprintf("%.20v", a.Err)]++
		}
		for i := range p.Ops {
			a := &p.Appends[p.Ops[i].Audit-1]
			must.Equalf(t, p.Ops[i].Err, a.Err, "round %d: error of op %d", round, i)
			if a.Err == nil {
				must.Equalf(t, p.Ops[i].Record.Queue.Runs[0].Base, a.Base, "round %d: delayed message", round)
			}
		}
		if x.r.IntN(3) > 0 {
			continue
		}
		b.settle()
		for at, end := range m.ends {
			must.Equalf(t, b.core.State().Topic(at.topic).Partitions.At(int(at.partition)).Next, end, "round %d: end of %v", round, at)
		}
	}
	if len(seen) != 8 { // nil, a duplicate, and each refusal
		t.Errorf("results: %v", seen)
	}
}

// randomParts are appends to different partitions, rarely to one that does not exist or without a right.
func randomParts(r *rand.Rand, places []place) (parts []core.Append) {
	for _, at := range places {
		if r.IntN(3) == 0 {
			continue
		}
		a := part(at.topic, at.partition)
		switch r.IntN(24) {
		case 0:
			a.Topic = record.ID{0xcc}
		case 1:
			a.Check = &access.Check{Principal: "revoked", Secret: 7, Version: 1}
		}
		parts = append(parts, a)
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	if len(parts) == 0 {
		parts = append(parts, part(places[0].topic, places[0].partition))
	}
	return parts
}
