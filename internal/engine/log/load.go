package log

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// getMeta reads the cluster ID. Without a checksum, as in older buckets, two reads must agree.
func (l *Log) getMeta(ctx context.Context, e *core.Effect) *core.Event {
	ev := &core.Event{Kind: core.EvMeta, Op: e.Op}
	id, checked, err := l.readMeta(ctx, e.Key)
	if errors.Is(err, state.ErrNewer) { // no checksum covers the layout number, so it is read twice
		objstore.Forget(l.opt.Store, e.Key)
		id, checked, err = l.readMeta(ctx, e.Key)
	}
	if err == nil && !checked {
		var again record.ID
		objstore.Forget(l.opt.Store, e.Key)
		if again, _, err = l.readMeta(ctx, e.Key); err == nil && again != id {
			err = fmt.Errorf("%w: %s names cluster %s, and %s when read again", record.ErrCorrupt, e.Key, id, again)
		}
	}
	ev.Cluster, ev.Outcome, ev.Err = id, readOutcome(err), err
	if ev.Outcome == core.OutcomeCorrupt {
		objstore.Forget(l.opt.Store, e.Key) // the core reads again before it believes the error
	}
	return ev
}

func (l *Log) readMeta(ctx context.Context, key string) (id record.ID, checked bool, err error) {
	b, _, err := l.read(ctx, key, clusterMax)
	if err != nil {
		return id, false, err
	}
	if id, checked, err = core.DecodeMeta(b); err != nil && !errors.Is(err, state.ErrNewer) {
		err = fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	return id, checked, err
}

// list pages through the requested names.
func (l *Log) list(ctx context.Context, e *core.Effect) *core.Event {
	ev := &core.Event{Kind: core.EvList, Op: e.Op}
	o := objstore.ListOptions{Prefix: e.Prefix, After: e.After, Max: e.Max}
	for {
		entries, more, err := l.page(ctx, o)
		if err != nil {
			ev.Outcome, ev.Err, ev.Names, ev.Sizes = readOutcome(err), err, nil, nil
			if ev.Outcome == core.OutcomeNotFound {
				ev.Outcome = core.OutcomeNoVerdict // meaningless for a LIST
			}
			return ev
		}
		for i := range entries {
			ev.Names, ev.Sizes = append(ev.Names, entries[i].Key), append(ev.Sizes, entries[i].Size)
		}
		if !more || len(entries) == 0 || e.Max > 0 && len(ev.Names) >= e.Max {
			ev.Outcome = core.OutcomeOK
			return ev
		}
		o.After = entries[len(entries)-1].Key
		if e.Max > 0 {
			o.Max = e.Max - len(ev.Names)
		}
	}
}

func (l *Log) page(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeouts.Read)
	defer cancel()
	begin := time.Now()
	failpoint.Hit("list.before")
	entries, more, err := l.opt.Store.List(ctx, o)
	failpoint.Hit("list.after")
	l.met.list(time.Since(begin), err)
	l.recordHealth(ctx, "list", o.Prefix, err)
	return entries, more, err
}

// getSlot reads a slot's head and, unless the head is enough, its state records and index: one GET
// in nearly all cases. size is the size of our object of that name, or -1. An object of another
// length is not the one that was sent, whatever its head says.
func (l *Log) getSlot(ctx context.Context, e *core.Effect, size int64) *core.Event {
	ev := &core.Event{Kind: core.EvSlot, Op: e.Op}
	slot, err := l.readSlot(ctx, e, size)
	ev.Outcome, ev.Err = readOutcome(err), err
	if err == nil {
		ev.Slot = slot
	}
	if ev.Outcome == core.OutcomeCorrupt {
		objstore.Forget(l.opt.Store, e.Key) // the core reads again before it believes the error
	}
	return ev
}

func (l *Log) readSlot(ctx context.Context, e *core.Effect, ownSize int64) (*core.Slot, error) {
	n, store := int64(slotRead), l.opt.Store
	if e.HeadOnly {
		n = headRead
	}
	if e.Direct {
		store = objstore.Direct(store)
	}
	for {
		b, size, err := l.readFrom(ctx, store, e.Key, n)
		if err != nil {
			return nil, err
		}
		h, recs, index, need, err := decodeSlot(b, e.HeadOnly)
		switch {
		case err != nil:
			return nil, err
		case need == 0:
			if ownSize >= 0 && size >= 0 && size != ownSize && h.Kind != record.KindSeal {
				return nil, &record.CorruptError{What: "size of " + e.Key, Want: ownSize, Got: size}
			}
			return &core.Slot{Head: h, Records: recs, Index: index}, nil
		case int64(len(b)) < n || need > metaMax || int64(need) <= n:
			return nil, &record.CorruptError{What: e.Key + " is cut off", Want: int64(need), Got: int64(len(b))}
		}
		n = int64(need)
	}
}

// decodeSlot decodes the beginning of a slot. need is the number of bytes that it takes if b is too
// short. With headOnly a DATA's records and index are omitted.
func decodeSlot(b []byte, headOnly bool) (h record.Head, recs []state.Record, index []record.IndexEntry, need int, err error) {
	if headOnly {
		if len(b) < record.HeadSize {
			return h, nil, nil, record.HeadSize, nil
		}
		if h, err = record.DecodeHead(b); err != nil || h.Kind != record.KindSeal {
			return h, nil, nil, 0, err
		}
	}
	h, encoded, index, need, err := record.DecodeMeta(b)
	if err != nil || need > 0 {
		return h, nil, nil, need, err
	}
	if recs, err = state.DecodeRecords(encoded); err != nil && !errors.Is(err, state.ErrNewer) {
		err = &record.CorruptError{What: "state records", Err: err}
	}
	return h, recs, index, 0, err
}

func (l *Log) getSnapshot(ctx context.Context, e *core.Effect) *core.Event {
	ev := &core.Event{Kind: core.EvSnapshot, Op: e.Op}
	// The first read gives the size, which sets the timeout of the second.
	b, size, err := l.read(ctx, e.Key, slotRead)
	if err == nil && size != int64(len(b)) {
		if size < 0 {
			size = state.SnapshotMax
		}
		b, _, err = l.read(ctx, e.Key, min(size, state.SnapshotMax))
	}
	if err == nil {
		if ev.State, err = state.DecodeSnapshot(b); err != nil && !errors.Is(err, state.ErrNewer) {
			ev.Outcome, ev.Err = core.OutcomeCorrupt, fmt.Errorf("decode %s: %w", e.Key, err)
			return ev
		}
	}
	ev.Outcome, ev.Err = readOutcome(err), err
	return ev
}
