package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/record"
)

// deleteAtOnce is the number of objects that one request deletes.
const deleteAtOnce = 1000

// repair deletes permanent garbage by the four tests of rule R7, with the older of the two newest
// snapshots. A leader requires both snapshots to be its own, because it knows only those to be on
// the log. Here the walk has verified both.
func (c *checker) repair(ctx context.Context) error {
	switch {
	case c.report.Damages > 0:
		return ErrDamaged
	case c.report.Grew || c.stopped:
		return ErrActive
	}
	if err := c.quiet(ctx); err != nil {
		return err
	}
	judge, err := c.judge(ctx)
	if err != nil {
		return err
	}
	r := &removal{c: c, judge: judge, asked: map[string]objstore.Entry{}}
	wal := core.WALPrefix(c.o.Shard)
	if err := r.list(ctx, wal, func(string) bool { return true }); err != nil {
		return err
	}
	if judge != nil {
		for _, key := range judge.Settle() {
			if err := r.remove(ctx, r.asked[key]); err != nil {
				return err
			}
		}
	}
	if err := r.list(ctx, "", func(key string) bool { return !strings.HasPrefix(key, wal) }); err != nil {
		return err
	}
	return r.flush(ctx)
}

// quiet waits, and returns ErrActive if a broker has written since the walk.
func (c *checker) quiet(ctx context.Context) error {
	if err := pause.Wait(ctx, c.o.Quiet); err != nil {
		return err
	}
	newest := c.newest
	if err := c.listSnapshots(ctx); err != nil {
		return err
	}
	if newest != c.newest {
		return ErrActive
	}
	return c.still(ctx)
}

// still returns ErrActive unless the slot at the end of the log is empty.
func (c *checker) still(ctx context.Context) error {
	_, missing, err := c.readHead(ctx, c.st.Key(c.st.Pos.Epoch, c.st.Pos.Slot))
	switch {
	case missing:
		return nil
	case err == nil, errors.Is(err, record.ErrCorrupt):
		return ErrActive
	}
	return err
}

// judge returns the tests of rule R7, or nil without two verified snapshots.
func (c *checker) judge(ctx context.Context) (*core.Collector, error) {
	n := len(c.proven)
	if n < 2 || c.proven[n-1].key != c.newest || c.proven[n-2].pos != c.floor {
		return nil, nil
	}
	older, _, err := c.loadSnapshot(ctx, c.proven[n-2])
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, ErrActive
	}
	if err != nil {
		return nil, err
	}
	return core.NewCollector(older, nil), nil
}

// removal deletes garbage in batches.
type removal struct {
	c     *checker
	judge *core.Collector
	names []objstore.Entry
	asked map[string]objstore.Entry // names whose heads were read
	err   error
}

// list removes the garbage among the wanted names below a prefix.
func (r *removal) list(ctx context.Context, prefix string, wanted func(string) bool) error {
	err := r.c.list(ctx, prefix, "", func(e objstore.Entry) bool {
		if wanted(e.Key) && r.garbage(ctx, e) && r.err == nil {
			r.err = r.remove(ctx, e)
		}
		return r.err == nil
	})
	return cmp.Or(err, r.err)
}

// remove adds a name to the next request.
func (r *removal) remove(ctx context.Context, e objstore.Entry) error {
	r.names = append(r.names, e)
	if len(r.names) < deleteAtOnce {
		return nil
	}
	return r.flush(ctx)
}

func (r *removal) garbage(ctx context.Context, e objstore.Entry) bool {
	key := e.Key
	if r.c.probes[key] {
		return true // listed when fsck started; the probe of a live broker ends sooner
	}
	if r.judge == nil {
		return false
	}
	v := r.judge.Judge(key)
	if v == core.AskHead {
		h, missing, err := r.c.readHead(ctx, key)
		switch {
		case missing, errors.Is(err, record.ErrCorrupt):
			return false // an unreadable object is never deleted (rule R9)
		case err != nil:
			r.err = err
			return false
		}
		v = r.judge.Head(key, &h)
		r.asked[key] = e
	}
	return v == core.Delete && !r.forbidden(key)
}

// forbidden reports whether a name must never be deleted. It does not depend on the judge.
func (r *removal) forbidden(key string) bool {
	n, ok := parseSlot(r.c.o.Shard, key)
	p, pack := parsePack(r.c.o.Shard, key)
	return ok && !n.pos().Less(r.c.floor) || pack && p.epoch > r.c.st.Pos.Epoch || key == core.MetaKey
}

func (r *removal) flush(ctx context.Context) error {
	if len(r.names) == 0 {
		return nil
	}
	if err := r.c.still(ctx); err != nil {
		return err
	}
	keys := make([]string, len(r.names))
	for i, e := range r.names {
		keys[i] = e.Key
	}
	if err := objstore.Retry(ctx, retryPause, func() error { return r.c.o.Store.Delete(ctx, keys...) }); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	for _, e := range r.names {
		r.c.report.Deleted.add(e.Size)
		r.c.note("removed", e.Key, "%d bytes", e.Size)
	}
	r.names = r.names[:0]
	return nil
}

// discard deletes the objects of lost branches that a recovery has accepted. SEALs stay, because
// they fence. The names are never used again, so a late DELETE is harmless.
func (c *checker) discard(ctx context.Context) error {
	if c.report.Damages > 0 {
		return ErrDamaged
	}
	r := &removal{c: c}
	for _, e := range c.accepted {
		if err := r.remove(ctx, e); err != nil {
			return err
		}
	}
	return r.flush(ctx)
}

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
		if s.body && longer(s.err) {
			text, lost = text+"; every record can be read", nil
		}
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
