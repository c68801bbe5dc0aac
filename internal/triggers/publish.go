package triggers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/triggers/rule"
	"github.com/sebbroker/seb/internal/triggers/store"
	"github.com/sebbroker/seb/record"
)

// published is what the worker lets others know after each turn.
type published struct {
	open              bool                  // there is a file
	defined, followed int64                 // next offsets of the topics of definitions and firings
	applied           map[record.ID][]int64 // next offsets of the main reader
	complete          map[record.ID]int64   // instants (ms)
	list              []Trigger
	lag               int64 // records
}

// Trigger is a trigger as it is followed.
type Trigger struct {
	rule.Definition
	// Backfilling is whether it reads what was there before it, and does not fire at what is new yet.
	Backfilling bool
	no          int64
	topic       record.ID
}

// publish tells how far the file is.
func (w *worker) publish() {
	p := published{
		open: true, defined: w.cursors[store.CursorKey{Topic: w.topics[0]}].Next, followed: w.cursors[store.CursorKey{Topic: w.topics[1]}].Next,
		applied: map[record.ID][]int64{}, complete: map[record.ID]int64{},
	}
	for i, id := range w.topics {
		for part, span := range w.pos.Topics[i] {
			next := max(w.cursors[store.CursorKey{Topic: id, Partition: uint32(part)}].Next, span.Start)
			p.lag += max(span.Next-next, 0)
			p.applied[id] = append(p.applied[id], next)
		}
		if at, ok := w.complete[id]; ok {
			p.complete[id] = at
		}
	}
	w.mu.Lock()
	p.list = w.pub.list
	if !w.listed {
		p.list, w.listed = nil, true
		for _, l := range w.live {
			p.list = append(p.list, Trigger{l.rule.Def, l.trig.Status == store.Behind, l.trig.No, l.topic})
		}
	}
	w.pub = p
	close(w.ch)
	w.ch = make(chan struct{})
	w.mu.Unlock()
}

// fault says why there is no file, or that there is one.
func (e *Engine) fault(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err, e.broken, e.new = err, nil, false
	if err != nil {
		e.pub = published{}
	}
	close(e.ch)
	e.ch = make(chan struct{})
}

// idle says that no trigger was ever made.
func (e *Engine) idle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err, e.new = nil, true
}

// found is what a reader has found wrong with the file.
func (e *Engine) found() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.broken
}

// peek returns what was published last, and a channel that is closed when there is something newer.
func (e *Engine) peek() (p published, newer <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pub, e.ch, e.err
}

// wait waits until what was published is as ok wants it.
func (e *Engine) wait(ctx context.Context, ok func(p *published) bool) error {
	for {
		p, newer, err := e.peek()
		if errors.Is(err, ErrClosed) {
			return err
		}
		if err == nil && ok(&p) {
			return nil
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.done:
			return ErrClosed
		}
	}
}

// query calls f with the file. While no trigger was ever made there is none, and nothing in it: f is not called then.
func (e *Engine) query(f func(q store.Queries) error) error {
	e.reading.RLock()
	defer e.reading.RUnlock()
	if e.file == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case e.err != nil:
			return e.err
		case e.new:
			return nil
		}
		return ErrUnavailable
	}
	err := f(e.file.Queries)
	if errors.Is(err, store.ErrDamaged) {
		e.mu.Lock()
		e.broken = err
		e.mu.Unlock()
		e.rouse()
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// rouse has the worker have a look.
func (e *Engine) rouse() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Lag is how many records of its topics the engine has not read yet.
func (e *Engine) Lag() int64 {
	p, _, _ := e.peek()
	return p.lag
}

// Changed returns a channel that is closed when the engine has gone on: there may be something to deliver.
func (e *Engine) Changed() <-chan struct{} {
	_, ch, _ := e.peek()
	return ch
}

// Triggers are all triggers, by id. The caller owns the slice, and must not change what is in it.
func (e *Engine) Triggers() ([]Trigger, error) {
	p, _, err := e.peek()
	return slices.Clone(p.list), err
}

// Trigger is a trigger by its id, or ErrUnknownTrigger.
func (e *Engine) Trigger(id string) (Trigger, error) {
	p, _, err := e.peek()
	if err != nil {
		return Trigger{}, err
	}
	for i := range p.list {
		if p.list[i].ID == id {
			return p.list[i], nil
		}
	}
	return Trigger{}, fmt.Errorf("%w: %q", ErrUnknownTrigger, id)
}
