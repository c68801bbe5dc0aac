package broker

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/audit"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

// Client is the client of a change of the state. The zero value is Seb itself.
type Client struct {
	// Check is the authority of the client. If the state of the slot no longer allows a change, it
	// is refused with ErrUnauthorized. A nil Check is the authority of the root key. Appends have a
	// Check of their own.
	Check *access.Check
	// Origin describes the client in audit records.
	Origin audit.Origin
}

type clientKey struct{}

// WithClient returns a context whose changes of the state are those of a client.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientOf returns the Client of WithClient, or the zero value.
func ClientOf(ctx context.Context) Client {
	c, _ := ctx.Value(clientKey{}).(Client)
	return c
}

// Access returns the committed principals and rules. The table does not change; it is never nil.
func (b *Broker) Access() *access.Table { return b.log.Access() }

// ChangeAccess changes principals and rules and waits until that is committed. plan returns the
// change to a table, or why there is none; it is called again if another change came first. An
// empty change is not stored. From the return on, every request is judged by the new rules.
// Errors: those of plan, ErrLevel, ErrOverBudget, and those of an append.
func (b *Broker) ChangeAccess(ctx context.Context, plan func(*access.Table) (access.Change, error)) error {
	for {
		if err := b.refuses(ctx); err != nil {
			return err
		}
		now := b.Access()
		c, err := plan(now)
		if err != nil || c.IsEmpty() {
			return err
		}
		c.Base = now.Version
		r := state.Record{Kind: state.AccessChange, Access: &c}
		if err := b.propose(ctx, r, accessChange(now, &c)); !errors.Is(err, state.ErrAccessConflict) {
			return err
		}
	}
}

// RecordUse stores when secrets were last used, together with the next commit object. It does not
// wait for others and makes no object of its own until Options.Batch.DeferWait. Errors: those of an
// append.
func (b *Broker) RecordUse(ctx context.Context, uses []access.Use) error {
	if err := b.refuses(ctx); err != nil {
		return err
	}
	op := core.Op{Own: true, Record: state.Record{Kind: state.AccessChange, Access: &access.Change{Used: uses}}}
	return b.log.ProposeDeferred([]core.Op{op}).Wait(ctx)[0].Err()
}

// accessChanges calls functions after each change of principals and rules.
type accessChanges struct {
	mu    sync.Mutex // guards calls
	calls []*func()
}

// OnAccessChange calls f after each committed change of principals and rules, before the change is
// answered, until stop is called. f must be quick and must not call the broker.
func (b *Broker) OnAccessChange(f func()) (stop func()) {
	b.access.mu.Lock()
	defer b.access.mu.Unlock()
	b.access.calls = append(b.access.calls, &f)
	return func() {
		b.access.mu.Lock()
		defer b.access.mu.Unlock()
		b.access.calls = slices.DeleteFunc(b.access.calls, func(c *func()) bool { return c == &f })
	}
}

// accessChanged is called by the log while its state is locked.
func (b *Broker) accessChanged() {
	b.access.mu.Lock()
	defer b.access.mu.Unlock()
	for _, f := range b.access.calls {
		(*f)()
	}
}
