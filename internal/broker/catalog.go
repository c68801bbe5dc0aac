package broker

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
)

// catalog locates a plan's data by the newest state (Catalog).
type catalog struct {
	b *Broker
	plan
}

// Missing implements Catalog. Before it reports a missing object as corruption, it asks the store
// whether anything newer is committed: a trim, a compaction or another leader may have made the
// object obsolete.
func (x catalog) Missing(ctx context.Context, c *Piece) (moved bool, err error) {
	if moved, err := x.relocate(c); moved || err != nil {
		return moved, err
	}
	if err := x.b.log.ConfirmLost(ctx); err != nil {
		return false, fmt.Errorf("%w: %s does not hold the data, and the log cannot be confirmed: %w", ErrStoreUnavailable, c.Key, err)
	}
	return x.relocate(c)
}

// relocate looks a piece up in the current state.
func (x catalog) relocate(c *Piece) (moved bool, err error) {
	id := x.parts[c.Part].id
	now, at := partPlan{}, planRange{}
	x.b.log.Read(func(s *state.State) {
		now.look(s, &x.wants[c.Part])
		at = rangeOf(s, id, c.Offset)
	})
	switch {
	case now.err != nil:
		return false, now.err
	case now.id != id: // the topic was deleted, and another one has its name
		return false, ErrUnknownTopic
	case at.key != "" && (at.key != c.Key || at.Pos != c.Range.Pos):
		c.Range, c.Key = at.Range, at.key
		return true, nil
	}
	return false, nil
}

// rangeOf returns the range that holds an offset of a partition; key is empty if none does.
func rangeOf(s *state.State, id partKey, offset int64) planRange {
	t := s.Topic(id.topic)
	if t == nil || int(id.partition) >= t.Partitions.Len() {
		return planRange{}
	}
	p := t.Partitions.At(int(id.partition))
	i := p.Find(offset)
	if i < 0 {
		return planRange{}
	}
	r := p.Ranges[i]
	if r.Lost() {
		return planRange{}
	}
	return planRange{r, s.RangeKey(&r)}
}

// Damaged implements Catalog.
func (x catalog) Damaged(c *Piece, err error) error {
	return x.b.corrupt(&x.wants[c.Part], c, err)
}

// corrupt returns the named error for a damaged piece, and raises an alarm. Nothing is deleted or
// skipped (rule R9).
func (b *Broker) corrupt(w *Want, c *Piece, err error) error {
	e := &CorruptError{Topic: w.Topic, Partition: w.Partition, Offset: c.Range.Base, Key: c.Key, Err: err}
	b.met.corrupt.Inc()
	b.opt.Logger.Error("corrupt data in the bucket", "topic", e.Topic, "partition", e.Partition, "offset", e.Offset,
		"key", e.Key, "err", err)
	return e
}
