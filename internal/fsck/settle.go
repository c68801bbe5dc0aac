package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/localdb/snapshot"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// settle reports which suspects are damage: objects that readers can reach, and slots that a broker
// may have to replay. The other suspects are garbage.
func (c *checker) settle() {
	at := map[ref]bool{}
	for _, s := range c.suspects {
		at[s.at] = true
	}
	places := c.places(func(p ref, _ record.ID) bool { return at[p] })
	for _, s := range c.suspects {
		lost := places[s.at]
		onWay := !s.body && !s.at.pack && !s.at.Less(c.floor)
		if len(lost) == 0 && !onWay && !c.isSeal(s.at) {
			c.note(s.kind, s.key, "not needed any more: %v", s.err)
			continue
		}
		text := s.err.Error()
		if onWay {
			text += "; no broker goes past it"
			if s.at.Less(c.st.Pos) {
				text += ", unless from a newer snapshot"
			}
		}
		c.lost(s.kind, s.key, text, lost)
	}
}

// isSeal reports whether a slot is the end of an epoch of the log.
func (c *checker) isSeal(at ref) bool {
	e, known := c.epoch(at.Epoch)
	return known && !at.pack && e.Number < c.st.Pos.Epoch && e.Seal == at.Slot
}

// checkSeals verifies that each epoch but the last has its SEAL. The SEAL fences the brokers of
// that epoch and is never deleted (rule R7).
func (c *checker) checkSeals(ctx context.Context) error {
	for i, e := range c.chain {
		key := state.SlotKey(c.o.Shard, e.Number, e.Nonce, e.Seal)
		next, known := c.next(i)
		if !known || c.sealed[e.Nonce] || c.isSuspect(key) {
			continue
		}
		// The epoch ended after the listing.
		h, missing, err := c.readHead(ctx, key)
		switch {
		case missing:
			c.damage("missing seal", key, "the seal of epoch %d is not there: it is never deleted", e.Number)
		case errors.Is(err, record.ErrCorrupt):
			c.damage("corrupt object", key, "the seal of epoch %d: %v", e.Number, err)
		case err != nil:
			return err
		case !sealOf(&h, next):
			c.damage("wrong object", key, "it does not name epoch %d", e.Number+1)
		default:
			c.sealSeen(e.Nonce)
		}
	}
	return nil
}

func sealOf(h *record.Head, next state.Epoch) bool {
	return h.Kind == record.KindSeal && h.NextEpoch == next.Number && h.NextNonce == next.Nonce
}

func (c *checker) isSuspect(key string) bool {
	return slices.ContainsFunc(c.suspects, func(s suspect) bool { return s.key == key })
}

// checkFiles reports the damaged parts of files that hold several objects. A damaged part whose loss
// a recovery has accepted is only a note.
func (c *checker) checkFiles(ctx context.Context) error {
	damages, err := c.damages(ctx, core.WALPrefix(c.o.Shard))
	for _, d := range damages {
		recovered := false
		if d.Lost {
			err := c.list(ctx, d.Folder+"/", "", func(e objstore.Entry) bool {
				recovered = recovered || strings.HasSuffix(e.Key, state.RecoverySuffix)
				return !recovered
			})
			if err != nil {
				return err
			}
		}
		f := Finding{Severity: Damage, Kind: "damaged journal", Key: d.Folder, Text: d.Err.Error()}
		switch {
		case recovered:
			f.Severity, f.Text = Note, f.Text+"; a recovery has accepted the loss"
		case !d.Lost:
			f.Text += "; every object of the journal can be read"
		}
		c.found(f)
	}
	return err
}

func (c *checker) damages(ctx context.Context, prefix string) (found []objstore.Damage, err error) {
	store, ok := objstore.As[objstore.DamageFinder](c.o.Store)
	if !ok {
		return nil, nil
	}
	err = objstore.Retry(ctx, retryPause, func() error {
		found, err = store.Damage(ctx, prefix)
		return err
	})
	return found, err
}

// checkOffsets verifies that the ranges of each partition are contiguous from its start to its end.
func (c *checker) checkOffsets() {
	for _, t := range c.st.Topics() {
		for i, p := range t.Partitions.All() {
			next := p.Start
			for j, r := range p.Ranges {
				if r.Base != next && !(j == 0 && r.Base <= p.Start && p.Start <= r.End()) {
					c.gap(t, i, next, r.Base)
				}
				next = r.End()
			}
			if next != p.Next {
				c.gap(t, i, next, p.Next)
			}
		}
	}
}

func (c *checker) gap(t *state.Topic, partition int, from, to int64) {
	lost := Records{Topic: t.Name, Partition: partition, From: from, To: to}
	f := Finding{Severity: Damage, Kind: "offsets", Lost: []Records{lost}}
	f.Text = "the state knows no object that holds these records"
	if to <= from {
		f.Text, f.Lost = fmt.Sprintf("%s/%d: two ranges hold the offsets %d to %d", t.Name, partition, to, from-1), nil
	}
	c.found(f)
}

// views verifies the copies of views in the listing. Records are readable without them, so a
// corrupt copy is not damage.
func (l *listing) views(ctx context.Context) error {
	c := l.c
	for i := range l.copies.List {
		f := &l.copies.List[i]
		if !f.Complete {
			for range f.Keys[1:] {
				c.report.Orphans.Objects++
			}
			c.orphan("copy of a view", f.Keys[0], f.Bytes, "not whole: it is being made, or was given up; the next one takes its %d objects away", len(f.Keys))
			continue
		}
		manifest := f.Keys[len(f.Keys)-1]
		err := snapshot.Check(ctx, c.o.Store, c.o.Shard, c.cluster, f)
		switch {
		case errors.Is(err, snapshot.ErrGone):
		case errors.Is(err, snapshot.ErrDamaged):
			c.note("corrupt copy of a view", manifest, "it is left alone, and no record is lost: %v", err)
		case err != nil:
			return err
		default:
			c.verified(f.Bytes, true)
			c.mu.Lock()
			c.report.Verified.Objects += int64(len(f.Keys) - 1)
			c.report.Views++
			c.mu.Unlock()
		}
	}
	return nil
}

func isView(shard uint32, key string) bool {
	_, ok := snapshot.ParseName(shard, key)
	return ok
}
