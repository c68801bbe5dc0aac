package broker

import (
	"context"
	"slices"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Chain returns the known epochs, ascending, and the committed position, which is in the last of
// them.
func (b *Broker) Chain() (epochs []state.Epoch, end state.Position) {
	b.log.Read(func(s *state.State) { epochs, end = slices.Clone(s.Epochs), s.Pos })
	return epochs, end
}

// SlotHead reads the head of a commit object. It returns nil if the object is gone, unreadable, or
// of an unknown epoch.
func (b *Broker) SlotHead(ctx context.Context, pos state.Position) (*record.Head, error) {
	return b.log.SlotHead(ctx, pos)
}

// StoredBytes returns the size of the batches in the bucket, with those that packs still hold
// after they were deleted. It visits every partition.
func (b *Broker) StoredBytes() (n int64) {
	b.log.Read(func(s *state.State) { n = s.Bytes() })
	return n
}
