package broker

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
)

// catalog is where a plan's data lies by the newest state (Catalog).
type catalog struct {
	b *Broker
	plan
}

// Missing implements Catalog: before a missing object is corruption the log is asked whether anything is newer.
func (x catalog) Missing(ctx context.Context, c *Piece) (moved bool, err error) {
	if moved, err := x.lookAgain(c); moved || err != nil {
		return moved, err
	}
	if err := x.b.log.ConfirmLost(ctx); err != nil {
		return false, fmt.Errorf("%w: %s does not hold the data, and the log can not be confirmed: %w", ErrStoreUnavailable, c.Key, err)
	}
	return x.lookAgain(c)
}

// lookAgain looks a piece up in the state as it is now.
func (x catalog) lookAgain(c *Piece) (moved bool, err error) {
	id := x.parts[c.Part].id
	now, at := partPlan{}, planRange{}
	x.b.log.Read(func(s *state.State) {
		now.look(s, &x.wants[c.Part])
		at = rangeOf(s, id, c.Offset)
	})
	switch {
	case now.err != nil:
		return false, now.err
	case now.id != id: // the topic was deleted, another has its name
		return false, ErrUnknownTopic
	case at.key != "" && (at.key != c.Key || at.Pos != c.Range.Pos):
		c.Range, c.Key = at.Range, at.key
		return true, nil
	}
	return false, nil
}

// rangeOf returns where an offset of a partition lies; no key if nowhere.
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

// corrupt makes a named error of what is wrong with a piece, and an alarm. Nothing is deleted or skipped (rule R9).
func (b *Broker) corrupt(w *Want, c *Piece, err error) error {
	e := &CorruptError{Topic: w.Topic, Partition: w.Partition, Offset: c.Range.Base, Key: c.Key, Err: err}
	b.met.corrupt.Inc()
	b.opt.Logger.Error("corrupt data in the bucket", "topic", e.Topic, "partition", e.Partition, "offset", e.Offset,
		"key", e.Key, "err", err)
	return e
}
