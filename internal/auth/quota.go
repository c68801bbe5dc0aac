package auth

import (
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/log/state"
)

// ErrUnknownQuota: the principal has no quota of its own.
var ErrUnknownQuota = errors.New("unknown quota")

// Meter returns the meter of the client's quota; nil if it has none. The nil Identity and the root
// key have none.
func (i *Identity) Meter() *Meter {
	if i == nil || i.Root() {
		return nil
	}
	g := i.current()
	m := g.meter.Load()
	if m != nil && m.gone.Load() {
		m = i.a.meters.meter(i.id, g.in.table.QuotaFor(i.id))
		g.meter.Store(m)
	}
	return m
}

// Changed returns a channel that is closed after the next change of principals, rules or quotas.
func (i *Identity) Changed() <-chan struct{} { return *i.a.watches.changed.Load() }

// ChangeQuota changes the quota of a principal, or of access.Any, and waits until that is committed.
// change gets the quota, without limits if there is none, and returns why it cannot be changed. A
// quota without limits is deleted. Errors: that of change, *state.InvalidError, and those of
// broker.ChangeAccess.
func (a *Authority) ChangeQuota(ctx context.Context, principal string, change func(*access.Quota) error) error {
	return a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) { return planQuota(t, principal, change) })
}

// CheckQuota returns the error with which ChangeQuota would refuse a change by the newest committed
// state. It changes nothing.
func (a *Authority) CheckQuota(principal string, change func(*access.Quota) error) error {
	t := a.b.Access()
	c, err := planQuota(t, principal, change)
	switch level := a.b.Level().Now; {
	case err != nil || c.IsEmpty():
		return err
	case level < state.LevelSecrets:
		return &state.LevelError{Needs: state.LevelSecrets, Has: level}
	case !t.Fits(&c):
		return state.ErrAccessFull
	}
	return nil
}

func planQuota(t *access.Table, principal string, change func(*access.Quota) error) (access.Change, error) {
	old, known := t.Quota(principal)
	q := old
	q.Principal = principal
	if err := change(&q); err != nil {
		return access.Change{}, err
	}
	switch {
	case known && q == old, !known && !q.Limits():
		return access.Change{}, nil
	case !q.Limits():
		return access.Change{DeleteQuotas: []string{principal}}, nil
	}
	if err := q.Check(); err != nil {
		return access.Change{}, invalid("quota", "%v", err)
	}
	return access.Change{PutQuotas: []access.Quota{q}}, nil
}
