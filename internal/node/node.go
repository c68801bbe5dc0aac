package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/sebbroker/seb/internal/keyindex"
	"github.com/sebbroker/seb/internal/log"
	"github.com/sebbroker/seb/internal/log/compactor"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/pack"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/objstore/cache"
	"github.com/sebbroker/seb/internal/trigger"
	"github.com/sebbroker/seb/record"
)

// Node is a broker on its bucket with all that it needs.
type Node struct {
	*broker.Broker
	folder   *folder
	store    objstore.Store    // ours to close; nil if the caller's
	cache    *cached           // nil without one
	merger   *compactor.Merger // nil if read-only
	keys     *keyindex.View
	keysFile localFile

	seen *positionKeeper // nil without a data folder, or if read-only

	triggers     *trigger.Engine // nil if read-only
	triggersFile localFile
	eventLog     *eventLog // nil if read-only

	fragile objstore.Fragile // nil if no fsync can end the store

	name string
	rest func() error // closes what lies below the broker, once
}

// Open opens the bucket, checks the store if need be (storecheck.Error), and waits until the broker leads or, with
// ReadOnly, follows. If ctx ends first all is closed again; its end after Open does not matter.
func Open(ctx context.Context, o Options) (*Node, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open node: %w", err)
	}
	f, err := openFolder(o.DataDir)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("start.folder")
	if o.Prepare != nil {
		if err := o.Prepare(); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, f.close()) // a broker on a fast store might be open before it is noticed
	}
	store, err := openStore(ctx, &o)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	failpoint.Hit("start.store")
	if m, ok := store.(*objstore.Memory); ok && o.OnMemoryStore != nil {
		m.Watch(o.OnMemoryStore)
	}
	n := &Node{folder: f, name: store.String()}
	n.rest = sync.OnceValue(n.closeRest)
	if o.Store == nil {
		n.store = store
	}
	n.fragile, _ = objstore.As[objstore.Fragile](store)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gate := check(ctx, store, &o, f, cancel)
	if gate != nil {
		store = gate
	}
	if err := n.open(ctx, store, &o); err != nil {
		cancel(err) // the check need not go on, unless it is what failed
		if fault := gate.wait(); fault != nil && errors.Is(context.Cause(ctx), fault) {
			err = fault
		}
		return nil, errors.Join(err, n.rest())
	}
	failpoint.Hit("start.led")
	n.logLevel(&o)
	if err := n.StateFull(); err != nil {
		o.Logger.Warn("the state is larger than its part of the memory limit: reads and writes go on, and nothing is created", "err", err)
	}
	return n, nil
}

// logLevel says until when an older program can lead the bucket, if that is so.
func (n *Node) logLevel(o *Options) {
	v := n.Level()
	switch {
	case v.Now >= v.Max || o.ReadOnly:
	case v.RaiseAt.IsZero():
		o.Logger.Info("format level held", "level", v.Now, "highest", v.Max)
	default:
		o.Logger.Info("format level raised by the first write after a time", "level", v.Now, "highest", v.Max, "after", v.RaiseAt.UTC())
	}
}

// open opens the broker on the store, behind the cache, and what runs beside it.
func (n *Node) open(ctx context.Context, store objstore.Store, o *Options) (err error) {
	mem := budget.New(o.MemoryLimit)
	record.SetInflateMemory(o.MemoryLimit / inflateShare)
	local := objstore.IsLocal(store)
	opt := broker.Options{
		Store: store, Budget: mem, AcceptClock: o.AcceptClock, Clocks: o.Clocks, AutoCreate: !o.NoAutoCreate,
		DefaultPartitions: o.DefaultPartitions, Checksums: !local,
		Core:   core.Config{ReadOnly: o.ReadOnly, Advertised: o.Advertised, SnapshotSlots: o.SnapshotSlots},
		Batch:  o.batching(local, mem),
		NoWait: o.batchWait(local) == 0, RetentionEvery: o.RetentionEvery,
		Logger: o.Logger, Metrics: o.Metrics,
	}
	if n.folder != nil && !o.ReadOnly && !strings.HasPrefix(n.name, objstore.MemoryName) {
		if opt.Core.Seen, err = ReadSeen(o.DataDir, n.name); err != nil {
			return err
		}
		n.seen = newPositionKeeper(o.DataDir, n.name, o.Logger)
	}
	if o.HoldUpgrade {
		opt.Core.RaiseAfter = -1
	}
	if local && !failpoint.Hurried() {
		opt.Core.SnapshotBytes = snapshotBytesLocal
	}
	if !local && o.CacheBytes > 0 && o.CacheDir != "" {
		n.cache = &cached{Store: store, open: func(cluster record.ID) (*cache.Cache, error) {
			return cache.Open(o.CacheDir, store, cache.Options{
				Bytes: o.CacheBytes, Cluster: cluster.String(), Cacheable: cacheable, Admit: admit,
				Index: mem.Class(budget.CacheIndex), Buffers: mem.Buffers(), Logger: o.Logger,
			})
		}}
		opt.Store, opt.Keep = n.cache, n.cache.keep
	}
	opt.ShareReads = !local && n.cache == nil
	keys, events := new(keyLog), new(eventLog)
	keys.init()
	events.init()
	opt.Changed = func(topics bool) {
		keys.tell(topics)
		events.tell(topics)
		n.seen.tell()
	}
	opt.InUse = n.topicInUse
	if n.Broker, err = broker.Open(ctx, opt); err != nil {
		return err
	}
	n.seen.start(n.Broker)
	n.registerMetrics(o.Metrics)
	if !o.ReadOnly && !o.NoMerge {
		n.merger = compactor.Open(compactor.Options{
			Log: n.Broker, Store: opt.Store, TempDir: o.DataDir, Packer: o.pack(mem), Every: o.MergeEvery, Checksums: !local,
			Ranges: n.stateRanges, Logger: o.Logger, Metrics: o.Metrics,
		})
	}
	return errors.Join(n.openKeys(ctx, keys, o), n.openTriggers(ctx, events, store, o))
}

// Broken is closed when an fsync of the store has failed; nil if that cannot be. BrokenBy then says why, and wraps
// objstore.ErrBroken: no write succeeds until a new process opens the store.
func (n *Node) Broken() <-chan struct{} {
	if n.fragile == nil {
		return nil
	}
	return n.fragile.Broken()
}

// BrokenBy says what failed; nil before Broken is closed.
func (n *Node) BrokenBy() error {
	if n.fragile == nil {
		return nil
	}
	return n.fragile.BrokenBy()
}

// StoreName names the bucket for people.
func (n *Node) StoreName() string { return n.name }

// Close stores what is queued, answers it, and closes everything. When ctx ends first, what was not sent is rejected, the
// rest is unknown, and Close returns ctx's error. Closing twice is allowed.
func (n *Node) Close(ctx context.Context) error {
	if n.merger != nil {
		n.merger.Close()
	}
	return errors.Join(n.closeTriggers(), n.closeKeys(), n.Broker.Close(ctx), n.rest())
}

// closeRest closes what lies below the broker: the cache, the store, the data folder.
func (n *Node) closeRest() error {
	n.seen.close()
	var errs []error
	if n.cache != nil {
		errs = append(errs, n.cache.close())
	}
	if n.store != nil {
		errs = append(errs, closeStore(n.store))
	}
	return errors.Join(append(errs, n.folder.close())...)
}

// batching is how records become objects.
func (o *Options) batching(local bool, mem *budget.Budget) log.Config {
	c := log.Config{Wait: o.batchWait(local), DeferWait: o.offsetWait(local), BytesMax: o.batchBytes(mem)}
	if local && o.BatchWait == BatchAuto {
		c.BytesEnough = batchBytesLocal // an object more costs nothing here
	}
	return c
}

// batchBytes is the soft limit of an object: at most a quarter of what objects and bodies in flight may take, so that
// the window of objects is not filled by one.
func (o *Options) batchBytes(mem *budget.Budget) int64 {
	return min(o.BatchBytes, max(mem.Class(budget.Produce).Limit(), mem.Class(budget.Objects).Limit())/2)
}

// inflateShare is the part of the memory limit, an eighth, that decompressing may take at once in the process: so much as
// the largest request.
const inflateShare = 8

// keyBytes is what a compaction needs for a key in memory.
const keyBytes = 64

// rangesBacklog is how many ranges of commit objects wait for a merge at most; under a small memory limit it is a part of
// what the state may take.
const (
	rangesBacklog = 16 << 10
	rangesShare   = 8
)

// stateRanges is about how many ranges the state holds.
func (n *Node) stateRanges() int {
	held, _ := n.StateMemory()
	return int(held.Ranges / state.RangeMemory)
}

// pack is how packs are made, with as many keys in memory as their class has room for.
func (o *Options) pack(mem *budget.Budget) pack.Config {
	c := o.Pack
	if c.Backlog <= 0 {
		c.Backlog = int(min(rangesBacklog, mem.Class(budget.State).Limit()/rangesShare/state.RangeMemory))
	}
	if c.KeysMax <= 0 {
		c.KeysMax = int(mem.Class(budget.Keys).Limit() / keyBytes)
	}
	return c
}
