package core_test

import (
	"maps"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// txModel is what the log should say of transactions, told from the point of view of clients.
type txModel struct {
	ends    map[place]int64
	starts  map[place]int64
	ids     map[string]*txID
	known   map[place]map[int64]txBatches
	aborted map[place][]state.AbortedTransaction
	offsets map[string]map[place]int64 // by group
}

type txID struct {
	now, was state.ProducerEpoch
	last     string // how the newest transaction ended: "", "commit", "abort", "broker"
	open     bool
	first    map[place]int64
	staged   map[string]map[place]int64
}

// txBatches are the newest batches of a producer in a partition: their offsets by sequence.
type txBatches struct {
	epoch int16
	next  int32
	at    map[int32]int64
}

var noProducer = state.ProducerEpoch{ID: -1}

func (m *txModel) clone() *txModel {
	n := &txModel{maps.Clone(m.ends), maps.Clone(m.starts), map[string]*txID{}, map[place]map[int64]txBatches{}, map[place][]state.AbortedTransaction{}, map[string]map[place]int64{}}
	for id, t := range m.ids {
		c := *t
		c.first, c.staged = maps.Clone(t.first), map[string]map[place]int64{}
		for g, of := range t.staged {
			c.staged[g] = maps.Clone(of)
		}
		n.ids[id] = &c
	}
	for at, of := range m.known {
		n.known[at] = map[int64]txBatches{}
		for id, b := range of {
			b.at = maps.Clone(b.at)
			n.known[at][id] = b
		}
	}
	for at, list := range m.aborted {
		n.aborted[at] = slices.Clone(list)
	}
	for g, of := range m.offsets {
		n.offsets[g] = maps.Clone(of)
	}
	return n
}

// of returns the transactional ID that has a producer, or nil.
func (m *txModel) of(producer int64) *txID {
	for _, t := range m.ids {
		if t.now.ID == producer {
			return t
		}
	}
	return nil
}

// add returns the result of an append, and appends.
func (m *txModel) add(a *core.Append) result {
	at := place{a.Topic, a.Partition}
	if a.Idempotent {
		b, known := m.known[at][a.Producer.ID]
		p := state.ProducerEpoch{ID: a.Producer.ID, Epoch: a.Producer.Epoch}
		base, again := b.at[a.Producer.Sequence]
		t := m.of(p.ID)
		switch {
		case known && p.Epoch < b.epoch:
			return result{err: state.ErrProducerFenced}
		case known && p.Epoch == b.epoch && again:
			return result{core.ErrDuplicate, base}
		case known && p.Epoch == b.epoch && a.Producer.Sequence != b.next, known && p.Epoch > b.epoch && a.Producer.Sequence != 0:
			return result{err: state.ErrSequenceGap}
		case t == nil:
			return result{err: state.ErrUnknownTransaction}
		case p == t.was && p != t.now && t.last == "broker":
			return result{err: state.ErrTransactionEnded}
		case p != t.now:
			return result{err: state.ErrProducerFenced}
		}
	}
	base, exists := m.ends[at]
	if !exists {
		return result{err: state.ErrUnknownTopic}
	}
	m.ends[at]++
	if a.Idempotent {
		b := m.known[at][a.Producer.ID]
		if b.at == nil || b.epoch != a.Producer.Epoch {
			b = txBatches{epoch: a.Producer.Epoch, at: map[int32]int64{}}
		}
		b.next = a.Producer.Sequence + 1
		b.at[a.Producer.Sequence] = base
		delete(b.at, a.Producer.Sequence-state.ProducerWindow)
		if m.known[at] == nil {
			m.known[at] = map[int64]txBatches{}
		}
		m.known[at][a.Producer.ID] = b
		t := m.of(a.Producer.ID)
		if t.open = true; t.first == nil {
			t.first = map[place]int64{}
		}
		if _, there := t.first[at]; !there {
			t.first[at] = base
		}
	}
	return result{base: base}
}

// deleted removes a topic.
func (m *txModel) deleted(topic record.ID) {
	gone := func(at place, _ int64) bool { return at.topic == topic }
	maps.DeleteFunc(m.ends, gone)
	maps.DeleteFunc(m.starts, gone)
	delete(m.known, place{topic, 0})
	delete(m.aborted, place{topic, 0})
	for _, t := range m.ids {
		maps.DeleteFunc(t.first, gone)
		for _, of := range t.staged {
			maps.DeleteFunc(of, gone)
		}
	}
	for _, of := range m.offsets {
		maps.DeleteFunc(of, gone)
	}
}

// end ends the open transaction of an ID.
func (m *txModel) end(t *txID, how string) {
	for at := range t.first {
		if how != "commit" {
			m.aborted[at] = append(m.aborted[at], state.AbortedTransaction{Producer: t.now.ID, First: t.first[at], Last: m.ends[at]})
		}
		m.ends[at]++
	}
	if how == "commit" {
		for g, of := range t.staged {
			if m.offsets[g] == nil {
				m.offsets[g] = map[place]int64{}
			}
			maps.Copy(m.offsets[g], of)
		}
	}
	t.was, t.last, t.open, t.first, t.staged = t.now, how, false, nil, nil
}

// raise gives an ID the producer of its next transaction.
func (t *txID) raise(fresh int64) {
	if t.now.Epoch++; t.now.ID < 0 || t.now.Epoch == math.MaxInt16 {
		t.now = state.ProducerEpoch{ID: fresh}
	}
}

// stage returns the error of an op that stages offsets, and stages them.
func (m *txModel) stage(t *txID, x *core.Transact) error {
	if err := t.uses(x.Producer); err != nil {
		return err
	}
	for _, o := range x.Offsets {
		if _, exists := m.ends[place{o.Topic, o.Partition}]; !exists {
			return state.ErrUnknownTopic
		}
	}
	if t.open = true; t.staged == nil {
		t.staged = map[string]map[place]int64{}
	}
	for _, o := range x.Offsets {
		if t.staged[o.Group] == nil {
			t.staged[o.Group] = map[place]int64{}
		}
		t.staged[o.Group][place{o.Topic, o.Partition}] = o.Offset
	}
	return nil
}

// uses returns why a producer may not use an ID.
func (t *txID) uses(p state.ProducerEpoch) error {
	switch {
	case t == nil || p == noProducer || p.ID != t.now.ID && p.ID != t.was.ID:
		return state.ErrUnknownTransaction
	case p == t.now:
		return nil
	case p == t.was && t.last == "broker":
		return state.ErrTransactionEnded
	}
	return state.ErrTransactionFenced
}

// transact returns the error of a request, and the producer of the answer, and does it.
func (m *txModel) transact(x *core.Transact) (state.ProducerEpoch, error) {
	t := m.ids[x.ID]
	switch {
	case x.Kind == state.TransactionOffsets:
		return x.Producer, m.stage(t, x)
	case x.Kind == state.TransactionForget:
		if t == nil || t.open {
			return noProducer, state.ErrTransactionState
		}
		delete(m.ids, x.ID)
		return noProducer, nil
	case x.Kind == state.TransactionInit:
		return m.init(t, x)
	case x.Forced && t == nil:
		return noProducer, state.ErrUnknownTransaction
	case x.Forced && !t.open:
		return noProducer, state.ErrTransactionState
	case x.Forced:
		m.end(t, "broker")
		t.raise(x.Fresh)
		return t.now, nil
	}
	how := "abort"
	if x.Kind == state.TransactionCommit {
		how = "commit"
	}
	err := t.uses(x.Producer)
	switch {
	case err == nil && (t.open || x.Next && how == "abort" && (t.last != how || t.was != t.now)):
		m.end(t, how)
		if x.Next {
			t.raise(x.Fresh)
		}
		return t.now, nil
	case err == state.ErrUnknownTransaction || t.open:
		return noProducer, err
	case x.Producer == t.was && t.last == how, err == state.ErrTransactionEnded && x.Next && how == "abort":
		return t.now, core.ErrDuplicate
	case err == nil || x.Producer == t.was && (t.last == "commit" || t.last == "abort"):
		return noProducer, state.ErrTransactionState
	}
	return noProducer, err
}

func (m *txModel) init(t *txID, x *core.Transact) (state.ProducerEpoch, error) {
	if t == nil {
		m.ids[x.ID] = &txID{now: state.ProducerEpoch{ID: x.Fresh}, was: noProducer}
		return m.ids[x.ID].now, nil
	}
	was := noProducer
	switch {
	case x.Producer == noProducer:
	case x.Producer == t.now:
		was = t.now
	case x.Producer == t.was && !t.open:
		return t.now, core.ErrDuplicate
	default:
		return noProducer, state.ErrTransactionFenced
	}
	if t.open {
		m.end(t, "broker")
	}
	t.was, t.last = was, ""
	t.raise(x.Fresh)
	return t.now, nil
}
