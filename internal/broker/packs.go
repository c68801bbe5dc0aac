package broker

import (
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/pack"
	"github.com/sebbroker/seb/internal/log/state"
)

// View returns the committed state, immutable, or nil unless this broker leads. Package compactor
// uses it.
func (b *Broker) View() *state.State { return b.log.View() }

// NextPack numbers the packs of this process. The name of a pack has the nonce of its epoch, so no
// name is used twice (rule R1).
func (b *Broker) NextPack() uint64 { return b.packs.Add(1) }

// Install commits the record that installs a stored pack of an epoch (rule R8), and returns the
// outcome. In another epoch it is rejected.
func (b *Broker) Install(ctx context.Context, epoch uint32, c *state.PackContent) pack.Result {
	op := core.Op{Record: state.Record{Kind: state.PackInstall, Pack: c}, Own: true, Epoch: epoch}
	err := b.log.ProposeAll([]core.Op{op}).Wait(ctx)[0].Err()
	switch {
	case err == nil:
		return pack.Acked
	case errors.Is(err, ErrOutcomeUnknown):
		return pack.Unknown
	}
	return pack.Rejected
}

// Compacted commits the records of finished compactions in an epoch. It returns the first error.
func (b *Broker) Compacted(ctx context.Context, epoch uint32, recs []state.Record) error {
	ops := make([]core.Op, len(recs))
	for i := range recs {
		ops[i] = core.Op{Record: recs[i], Own: true, Epoch: epoch}
	}
	results := b.log.ProposeDeferred(ops).Wait(ctx)
	for i := range results {
		if err := results[i].Err(); err != nil {
			return err
		}
	}
	return nil
}

// StateMemory returns about how many bytes of memory the state takes, and the limit.
func (b *Broker) StateMemory() (held state.Memory, most int64) {
	b.log.Read(func(s *state.State) { held = s.Memory() })
	return held, b.opt.Core.StateMax
}

// StateFull returns a *StateFullError if the state has reached its limit, so that nothing may be
// created; else nil. It makes no request.
func (b *Broker) StateFull() error {
	if held, most := b.StateMemory(); most > 0 && held.Sum() > most {
		return &StateFullError{Held: held, Max: most}
	}
	return nil
}
