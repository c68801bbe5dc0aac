// Package node assembles a broker: the bucket of a spec, the store check, the disk cache, the
// memory budget and the broker. It closes them in order. It does not depend on a network front end.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/cache"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/engine/views/keyindex"
	"github.com/sebbroker/seb/internal/protocols/riemann/index"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/record"
)

// Node is a broker on its bucket with all its components.
type Node struct {
	*broker.Broker
	queues   *queue.Queues
	folder   *folder
	id       record.ID       // of the folder; zero: not used, or noted as one that has led
	store    objstore.Store  // to close; nil if the caller owns it
	cache    *cached         // nil: no cache
	merging  compact.Options // unset if read-only
	passing  compact.Progress
	keys     *keyindex.View
	keysFile localFile

	seen *positionSaver // nil without a data folder, or if read-only

	triggers     *rules.Engine // nil if read-only
	triggersFile localFile
	eventLog     *eventLog // nil if read-only

	riemann     *index.Index // nil without a topic
	riemannFile localFile

	fragile  objstore.Fragile  // nil if the store uses no fsync
	counting objstore.Counting // nil if the store's requests have no price
	prices   cost.Prices
	limiter  *cost.Limiter // nil: no budget
	cost     costSampler

	name     string
	bucket   objstore.Store // without cache and check
	endCheck func()         // ends the check of the store, if it has not begun, and waits for it
	rest     func() error   // closes the components below the broker, once
}

// Open opens the bucket, checks the store if necessary (objstore.CheckError), and waits until the
// broker leads or, with ReadOnly, follows. If ctx ends first, Open closes everything. The node does
// not use ctx after Open has returned.
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
	if err := context.Cause(ctx); err != nil {
		// a broker on a fast store may be open before the error is noticed
		return nil, errors.Join(err, f.close())
	}
	store, err := openStore(ctx, &o)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	failpoint.Hit("start.store")
	if m, ok := store.(*objstore.Memory); ok && o.OnMemoryStore != nil {
		m.Watch(o.OnMemoryStore)
	}
	n := &Node{folder: f, name: store.String(), bucket: store}
	n.rest = sync.OnceValue(n.closeRest)
	if o.Store == nil {
		n.store = store
	}
	n.fragile, _ = objstore.As[objstore.Fragile](store)
	n.counting, _ = objstore.As[objstore.Counting](store)
	checking, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	checked := check(checking, store, &o, f, func(err error) {
		o.Logger.Error("store check failed, nothing is written", "err", err)
		cancel(err)
	})
	n.endCheck = func() { stop(broker.ErrClosed); _ = checked.wait() }
	if checked != nil {
		store = checked
	}
	forLog := readEarly(ctx, store, &o)
	err = n.join(ctx, store, &o)
	if err == nil {
		err = n.open(ctx, forLog, &o)
	}
	if err != nil {
		stop(err) // the check, unless it is the cause
		if fault := checked.wait(); fault != nil && errors.Is(context.Cause(ctx), fault) {
			err = fault
		}
		return nil, errors.Join(err, n.rest())
	}
	if checked != nil {
		checked.opened.Store(true)
	}
	failpoint.Hit("start.led")
	n.noteLed(&o)
	level := sync.OnceFunc(func() { n.logLevel(&o) })
	n.WhileLeading(func(context.Context) { level() })
	if err := n.StateFull(); err != nil {
		o.Logger.Warn("the state exceeds its part of the memory limit: reads and writes continue, new topics, partitions, groups and triggers are refused", "err", err)
	}
	return n, nil
}

// logLevel logs how long an older program can lead the bucket, if it can.
func (n *Node) logLevel(o *Options) {
	v := n.Level()
	switch {
	case v.Now >= v.Max:
	case v.RaiseAt.IsZero():
		o.Logger.Info("format level held", "level", v.Now, "highest", v.Max)
	default:
		o.Logger.Info("format level raised by the first write after a time", "level", v.Now, "highest", v.Max, "after", v.RaiseAt.UTC())
	}
}

// open opens the broker on the store, behind the cache, and the components that follow it.
func (n *Node) open(ctx context.Context, store objstore.Store, o *Options) (err error) {
	mem := budget.New(o.MemoryLimit)
	record.SetInflateMemory(o.MemoryLimit / inflateShare)
	local := objstore.IsLocal(store)
	opt := broker.Options{
		Options: log.Options{
			Store: store, Budget: mem, AcceptClock: o.AcceptClock, Clocks: o.Clocks, Checksums: !local,
			Core:    core.Config{ReadOnly: o.ReadOnly, Standby: o.Follow, Advertised: o.Advertised, Run: o.joined.Run, SnapshotSlots: o.SnapshotSlots, ProducerExpiration: core.Duration(o.ProducerExpiration)},
			Standby: o.Standby || o.Follow, RaiseMax: o.joined.RaiseMax, Hooks: log.Hooks{Fed: o.joined.Fed},
			Batch: o.batching(local, mem), NoWait: o.batchWait(local) == 0,
			Logger: o.Logger, Metrics: o.Metrics, Latency: o.Latency,
		},
		AutoCreate: !o.NoAutoCreate, DefaultPartitions: o.DefaultPartitions, Internal: InternalTopics(), AuditTopic: o.AuditTopic, Origin: o.Origin,
		InDoubt: o.joined.InDoubt, Told: o.joined.Told, RetentionEvery: o.RetentionEvery,
	}
	if err = n.openBudget(o, local, &opt.Batch, mem); err != nil {
		return err
	}
	if n.folder != nil && !o.ReadOnly && !strings.HasPrefix(n.name, objstore.MemoryName) {
		if opt.Core.Seen, err = ReadSeen(o.DataDir, n.name); err != nil {
			return err
		}
		n.seen = newPositionSaver(o.DataDir, n.name, o.Logger)
		opt.Committed = n.seen.committed
	}
	if o.HoldUpgrade {
		opt.Core.RaiseAfter = -1
	}
	if failpoint.FrequentSnapshots() {
		opt.Core.ScrubEvery = 1e9 // each second
	} else if opt.Core.Local = local; local {
		opt.Core.SnapshotBytes = min(snapshotBytesLocal, o.MemoryLimit/snapshotShare)
	}
	if !local && o.CacheBytes > 0 && o.CacheDir != "" {
		n.cache = &cached{Store: store, open: func(cluster record.ID) (*cache.Cache, error) {
			return cache.Open(o.CacheDir, store, cache.Options{
				Bytes: o.CacheBytes, Cluster: cluster.String(), Cacheable: cacheable, Admit: admit,
				Index: mem.Class(budget.CacheIndex), Ahead: mem.Class(budget.Fetch), Buffers: mem.Buffers(), Logger: o.Logger,
			})
		}}
		opt.Store, opt.Hooks.FillCache = n.cache, n.cache.keep
	}
	opt.ShareReads = !local && n.cache == nil
	keys, events, riemann := new(keyLog), new(eventLog), new(riemannLog)
	keys.init()
	events.init()
	riemann.init()
	opt.Changed = notifyAll(keys, events, riemann, n.seen)
	opt.InUse = n.topicInUse
	if n.Broker, err = broker.Open(ctx, opt); err != nil {
		return err
	}
	n.opened(o)
	if err := errors.Join(n.openKeys(ctx, keys, o), n.openTriggers(ctx, events, store, o), n.openRiemann(ctx, riemann, o)); err != nil {
		return err
	}
	n.openCost(o)
	if o.ReadOnly {
		return nil
	}
	n.merging = compact.Options{
		Log: n.Broker, Store: opt.Store, TempDir: o.DataDir, Policy: o.pack(mem), Every: o.MergeEvery, Checksums: !local,
		Ranges: n.stateRanges, Frugal: n.frugal, Purge: n.purge, Purged: n.triggers.Purged, Progress: &n.passing, Logger: o.Logger, Metrics: o.Metrics,
	}
	if !o.NoMerge {
		n.WhileLeading(n.merge)
	}
	return nil
}

// opened begins what the broker alone needs.
func (n *Node) opened(o *Options) {
	n.queues = queue.Open(queue.Options{Broker: n.Broker, Logger: o.Logger, Metrics: o.Metrics})
	n.seen.start(n.Broker)
	n.registerMetrics(o.Metrics)
}

// Queues returns the queues of the broker.
func (n *Node) Queues() *queue.Queues { return n.queues }

// notifyAll returns the hook that tells followers of a change.
func notifyAll(followers ...interface{ notify(topics bool) }) func(topics bool) {
	return func(topics bool) {
		for _, f := range followers {
			f.notify(topics)
		}
	}
}

// merge runs a merger while this broker leads.
func (n *Node) merge(ctx context.Context) {
	merger := compact.Open(n.merging)
	<-ctx.Done()
	merger.Close()
}

// Compaction returns the running compaction.
func (n *Node) Compaction() compact.Pass { return n.passing.Pass() }

// Broken is closed when an fsync of the store has failed; nil if the store uses none. BrokenBy then
// returns the reason, which wraps objstore.ErrBroken. No write succeeds until a new process opens
// the store.
func (n *Node) Broken() <-chan struct{} {
	if n.fragile == nil {
		return nil
	}
	return n.fragile.Broken()
}

// BrokenBy returns the failed operation; nil before Broken is closed.
func (n *Node) BrokenBy() error {
	if n.fragile == nil {
		return nil
	}
	return n.fragile.BrokenBy()
}

// StoreName returns the name of the bucket for people.
func (n *Node) StoreName() string { return n.name }

// Bucket returns the store, without the disk cache. It is closed with the node.
func (n *Node) Bucket() objstore.Store { return n.bucket }

// Stop is the first part of Close. Reads of what is in memory or in the disk cache still work.
func (n *Node) Stop(ctx context.Context) error {
	n.EndWhileLeading()
	return errors.Join(n.closeRiemann(), n.closeTriggers(), n.closeKeys(), n.Broker.Close(ctx))
}

// Close stores and acknowledges the queued records, and closes everything. If ctx ends first, Close
// returns its error: unsent records are rejected, and the outcome of the others is unknown. Close
// may be called twice.
func (n *Node) Close(ctx context.Context) error {
	return errors.Join(n.Stop(ctx), n.cost.close(), n.rest())
}

// closeRest closes the components below the broker: the cache, the store, the data folder.
func (n *Node) closeRest() error {
	n.endCheck()
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

// batching returns how records are collected into objects.
func (o *Options) batching(local bool, mem *budget.Budget) log.Config {
	c := log.Config{Wait: o.batchWait(local), DeferWait: o.offsetWait(local), BytesMax: o.batchBytes(mem)}
	if local && o.BatchWait == BatchAuto {
		c.InTurn = true
		c.BytesEnough = batchBytesLocal // another object costs nothing on a local store
	}
	return c
}

// batchBytes returns the soft limit of an object: at most a quarter of the memory for objects and
// bodies in flight, so that one object does not fill the window.
func (o *Options) batchBytes(mem *budget.Budget) int64 {
	return min(o.BatchBytes, max(mem.Class(budget.Produce).Limit(), mem.Class(budget.Objects).Limit())/2)
}

// inflateShare is the share of the memory limit, an eighth, for decompression in the process. It
// equals the largest request.
const inflateShare = 8

// rangesBacklog bounds the ranges of commit objects that wait for a merge. Under a small memory
// limit it is a share of the memory of the state.
const (
	rangesBacklog = 16 << 10
	rangesShare   = 8
)

// stateRanges estimates the number of ranges in the state.
func (n *Node) stateRanges() int {
	held, _ := n.StateMemory()
	return int(held.Ranges / state.RangeMemory)
}

// pack returns the configuration of packs. A memory class bounds the memory in which a
// compaction sorts keys.
func (o *Options) pack(mem *budget.Budget) compact.Policy {
	c := o.Pack
	if c.Backlog <= 0 {
		c.Backlog = int(min(rangesBacklog, mem.Class(budget.State).Limit()/rangesShare/state.RangeMemory))
	}
	if c.KeyBytes <= 0 {
		c.KeyBytes = int(mem.Class(budget.Keys).Limit())
	}
	return c
}

// registerMetrics adds the gauges of the disk cache; the broker and the log register their own.
func (n *Node) registerMetrics(set *metrics.Set) {
	if n.cache == nil {
		return
	}
	for name, value := range map[string]func(cache.Stats) float64{
		"seb_cache_hits_total":           func(s cache.Stats) float64 { return float64(s.Hits) },
		"seb_cache_misses_total":         func(s cache.Stats) float64 { return float64(s.Misses) },
		"seb_cache_requests_total":       func(s cache.Stats) float64 { return float64(s.Requests) },
		"seb_cache_ahead_requests_total": func(s cache.Stats) float64 { return float64(s.Ahead) },
		"seb_cache_evicted_total":        func(s cache.Stats) float64 { return float64(s.Evicted) },
		"seb_cache_damaged_total":        func(s cache.Stats) float64 { return float64(s.Damaged) },
		"seb_cache_write_errors_total":   func(s cache.Stats) float64 { return float64(s.WriteErrors) },
		"seb_cache_bytes":                func(s cache.Stats) float64 { return float64(s.Bytes) },
		"seb_cache_limit_bytes":          func(s cache.Stats) float64 { return float64(s.Limit) },
	} {
		set.NewGauge(name, func() float64 {
			k := n.cache.cache.Load()
			if k == nil {
				return 0
			}
			return value(k.Stats())
		})
	}
}

// identityFile has the id of the data folder. Without it, the next start has another id.
const identityFile = "node"

// identity is the content of identityFile.
type identity struct {
	ID  string `json:"id"`
	Led bool   `json:"led,omitempty"` // a broker with this folder has led a log
}

// identify returns the id of the data folder. It draws one at the first start, and if the file is
// damaged: the broker then counts as a new one. A full disk must not prevent a start.
func (f *folder) identify(log *slog.Logger) (id record.ID, led bool) {
	b, err := os.ReadFile(filepath.Join(f.dir, identityFile))
	var known identity
	if err == nil {
		err = json.Unmarshal(b, &known)
	}
	if err == nil {
		id, err = record.ParseID(known.ID)
	}
	if err == nil {
		return id, known.Led
	}
	if !errors.Is(err, fs.ErrNotExist) {
		log.Warn("id of the data folder not read: this broker has a new one", "file", filepath.Join(f.dir, identityFile), "err", err)
	}
	id = record.NewID()
	if err := f.keepIdentity(identity{ID: id.String()}); err != nil {
		log.Warn("id of the data folder not stored: the next start has another one", "err", err)
	}
	return id, false
}

func (f *folder) keepIdentity(i identity) error {
	b, err := json.Marshal(i)
	if err != nil {
		return err
	}
	file := filepath.Join(f.dir, identityFile)
	if err := os.WriteFile(file+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// join calls Options.Join, and sets what it decides.
func (n *Node) join(ctx context.Context, store objstore.Store, o *Options) error {
	if o.Join == nil || o.ReadOnly || n.folder == nil {
		return nil
	}
	id, led := n.folder.identify(o.Logger)
	joined, err := o.Join(ctx, Joining{Store: store, Bucket: n.bucket, Node: id, Led: led})
	if err != nil {
		return err
	}
	o.joined = joined
	o.Standby, o.Follow = o.Standby || joined.Standby, o.Follow || joined.Follow
	if !led {
		n.id = id
	}
	return nil
}

// noteLed notes in the data folder, once, that this broker has led.
func (n *Node) noteLed(o *Options) {
	if n.id.IsZero() {
		return
	}
	note := sync.OnceFunc(func() {
		if err := n.folder.keepIdentity(identity{ID: n.id.String(), Led: true}); err != nil {
			o.Logger.Warn("leadership not noted in the data folder", "err", err)
		}
	})
	n.WhileLeading(func(context.Context) { note() })
}
