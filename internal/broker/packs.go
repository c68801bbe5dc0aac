package broker

import (
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/eventlog"
	"github.com/sebbroker/seb/internal/packer"
	"github.com/sebbroker/seb/internal/state"
)

// View returns the committed state, immutable, or nil unless this broker leads: for whoever makes packs.
func (b *Broker) View() *state.State { return b.log.View() }

// NextPack numbers the packs of this broker's epoch: a broker leads in one epoch only, so no name is used twice (rule R1).
func (b *Broker) NextPack() uint64 { return b.packs.Add(1) }

// Install has a stored pack installed by a committed record (rule R8), and says what came of it.
func (b *Broker) Install(ctx context.Context, c *state.PackContent) packer.Result {
	err := b.log.Propose(state.Record{Kind: state.PackInstall, Pack: c}).Wait(ctx)[0].Err()
	switch {
	case err == nil:
		return packer.Acked
	case errors.Is(err, eventlog.ErrRejected):
		return packer.Rejected
	}
	return packer.Unknown
}
