package broker

import (
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/pack"
	"github.com/sebbroker/seb/internal/log/state"
)

// View returns the committed state, immutable, or nil unless this broker leads: for whoever makes packs.
func (b *Broker) View() *state.State { return b.log.View() }

// NextPack numbers the packs of this broker's epoch: a broker leads in one epoch only, so no name is used twice (rule R1).
func (b *Broker) NextPack() uint64 { return b.packs.Add(1) }

// Install has a stored pack installed by a committed record (rule R8), and says what came of it.
func (b *Broker) Install(ctx context.Context, c *state.PackContent) pack.Result {
	err := b.log.ProposeAll([]core.Op{{Record: state.Record{Kind: state.PackInstall, Pack: c}, Own: true}}).Wait(ctx)[0].Err()
	switch {
	case err == nil:
		return pack.Acked
	case errors.Is(err, ErrOutcomeUnknown):
		return pack.Unknown
	}
	return pack.Rejected
}

// Compacted has the records of finished compactions committed.
func (b *Broker) Compacted(ctx context.Context, recs []state.Record) error {
	ops := make([]core.Op, len(recs))
	for i := range recs {
		ops[i] = core.Op{Record: recs[i], Own: true}
	}
	results := b.log.ProposeDeferred(ops).Wait(ctx)
	for i := range results {
		if err := results[i].Err(); err != nil {
			return err
		}
	}
	return nil
}
