package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/trigger/rule"
)

// The errors that callers may test for with errors.Is.
var (
	// ErrNotLeader: only the leader takes changes.
	ErrNotLeader = errors.New("this broker does not lead")
	// ErrUnknownTrigger: there is no trigger of that id.
	ErrUnknownTrigger = errors.New("unknown trigger")
	// ErrUnknownFiring: there is no firing of that id, or it was never recorded.
	ErrUnknownFiring = errors.New("unknown firing")
)

// Engine follows the log's events and finds out what fires. Its methods may be called concurrently.
type Engine struct {
	opt  Options
	fold *Follower

	change sync.Mutex // held by whoever changes a definition
}

// Open returns an engine that follows o.Log from where its file says, until Close. A file that can not be used is deleted
// and made anew from the log. ctx gives values to the requests of the log; its end after Open does not matter. Error:
// options that are missing.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o = o.WithDefaults()
	f, err := newFollower(o, false)
	if err != nil {
		return nil, err
	}
	f.loop.Start(ctx)
	return &Engine{opt: o, fold: f}, nil
}

// Close stops following, waits for running queries, and closes the file. It may be called twice.
func (e *Engine) Close() error {
	e.fold.loop.Close()
	return nil
}

// Lag is how many records of its topics the engine has not read yet.
func (e *Engine) Lag() int64 { return e.fold.Lag() }

// LagTime is how far the triggers that do not read the history are behind the log; 0: not at all.
func (e *Engine) LagTime() time.Duration { return e.fold.LagTime() }

// Changed returns a channel that is closed when the engine has gone on: there may be something to deliver.
func (e *Engine) Changed() <-chan struct{} {
	_, ch, _ := e.fold.Peek()
	return ch
}

// Triggers are all triggers, by id. The caller must not change them.
func (e *Engine) Triggers() ([]*Head, error) {
	p, _, err := e.fold.Peek()
	return p.Triggers, err
}

// Next is the first trigger with an id behind one, or nil.
func (e *Engine) Next(after string) (*Head, error) {
	p, _, err := e.fold.Peek()
	i, there := slices.BinarySearchFunc(p.Triggers, after, func(h *Head, id string) int { return cmp.Compare(h.ID, id) })
	if there {
		i++
	}
	if err != nil || i == len(p.Triggers) {
		return nil, err
	}
	return p.Triggers[i], nil
}

// Head is a trigger by its id, or ErrUnknownTrigger.
func (e *Engine) Head(id string) (*Head, error) {
	p, _, err := e.fold.Peek()
	if err != nil {
		return nil, err
	}
	h := p.Find(id)
	if h == nil {
		return nil, unknown(id)
	}
	return h, nil
}

func unknown(id string) error { return fmt.Errorf("%w: %q", ErrUnknownTrigger, id) }

// Users are the ids of the triggers that a topic must not be taken from: those that follow its events, and of the topics of
// definitions and firings all. It waits until the engine knows all definitions that are in the log. Errors: ErrUnavailable,
// ErrClosed, ctx's.
func (e *Engine) Users(ctx context.Context, topic string) (ids []string, err error) {
	if err := e.caughtUp(ctx); err != nil {
		return nil, err
	}
	list, err := e.Triggers()
	for _, t := range list {
		if t.Topic == topic || topic == e.opt.Triggers || topic == e.opt.Firings {
			ids = append(ids, t.ID)
		}
	}
	return ids, err
}

// Stored is a trigger and its definition by its id, or ErrUnknownTrigger, for those who only show it.
func (e *Engine) Stored(ctx context.Context, id string) (*Head, *rule.Stored, error) {
	h, value, err := e.fold.Definition(ctx, id)
	if h == nil && err == nil {
		err = unknown(id)
	}
	if err != nil {
		return nil, nil, err
	}
	d, err := rule.ParseStored(value)
	return h, d, err
}

// Trigger is a trigger by its id, or ErrUnknownTrigger. It is read from the file.
func (e *Engine) Trigger(ctx context.Context, id string) (*Trigger, error) {
	t, err := e.fold.Trigger(ctx, id)
	if t == nil && err == nil {
		err = unknown(id)
	}
	return t, err
}
