package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/keyindex"
	"github.com/sebbroker/seb/internal/protocols/riemann/index"
	"github.com/sebbroker/seb/record"
)

// followed is the broker's log for one follower.
type followed struct {
	*broker.Broker // set before the follower is opened
	changed        wake.Signal
	stale          atomic.Bool // topics have changed
	any            atomic.Bool // there are topics whose records it follows

	buf atomic.Pointer[[]byte] // buffer of a released Read
}

// bufferMax bounds the buffer that is kept between two reads.
const bufferMax = 1 << 20

func (l *followed) init() {
	l.changed = wake.New()
	l.stale.Store(true)
}

// notify is the broker's hook. Without followed topics, records do not wake the follower.
func (l *followed) notify(topics bool) {
	if topics {
		l.stale.Store(true)
	}
	if !topics && !l.any.Load() {
		return
	}
	l.changed.Send()
}

func (l *followed) Changed() <-chan struct{} { return l.changed }

func (l *followed) Read(ctx context.Context, topic record.ID, partition uint32, offset int64, bytesMax int) (views.Batches, error) {
	f, from, err := l.ReadIndexed(ctx, topic, broker.Want{Partition: int32(partition), Offset: offset, MaxBytes: bytesMax})
	if err != nil {
		return views.Batches{}, err
	}
	b, err := l.batchesOf(f)
	if err != nil {
		f.Release()
	}
	b.From = from
	return b, err
}

// batchesOf returns the batches of a read of one partition: those in memory without a copy, or the
// first sections of a file, in a buffer. The next read returns the rest.
func (l *followed) batchesOf(f *broker.Fetched) (b views.Batches, err error) {
	p := &f.Parts[0]
	if p.Err != nil {
		return b, p.Err
	}
	b.Free = f.Release
	var sections []broker.Chunk
	var size int64
	for i := range p.Chunks {
		c := &p.Chunks[i]
		switch {
		case c.Section != nil && len(b.Parts) == 0:
			sections, size = append(sections, *c), size+c.Size
		case c.Section != nil || len(c.Parts) > 0 && size > 0:
			return l.buffered(f, b, sections, size)
		}
		b.Parts, b.End = append(b.Parts, c.Parts...), c.End
	}
	return l.buffered(f, b, sections, size)
}

// buffered adds sections of a file to the batches of a read, in the buffer.
func (l *followed) buffered(f *broker.Fetched, b views.Batches, sections []broker.Chunk, size int64) (views.Batches, error) {
	if size == 0 {
		return b, nil
	}
	buf := l.buf.Swap(nil)
	if buf == nil || int64(cap(*buf)) < size {
		fresh := make([]byte, size)
		buf = &fresh
	}
	data, at := (*buf)[:size], int64(0)
	for i := range sections {
		c := &sections[i]
		if _, err := io.ReadFull(c.Section, data[at:at+c.Size]); err != nil {
			class := state.ErrStoreUnavailable
			if errors.Is(err, objstore.ErrDamaged) {
				class = state.ErrCorrupt
			}
			return views.Batches{}, fmt.Errorf("%w: read: %w", class, err)
		}
		at += c.Size
	}
	b.Parts, b.Free = [][]byte{data}, func() {
		f.Release()
		if cap(*buf) <= bufferMax {
			l.buf.Store(buf)
		}
	}
	return b, nil
}

// localFile is a follower's file: in the data folder, or in a temporary folder that is removed at
// the end.
type localFile struct {
	path, remove string
}

func (o *Options) localFile(name, file string) localFile {
	if o.DataDir != "" {
		return localFile{path: filepath.Join(o.DataDir, "view", file)}
	}
	dir := filepath.Join(os.TempDir(), "seb-"+name+"-"+record.NewID().String())
	return localFile{filepath.Join(dir, file), dir}
}

// closed removes the temporary folder. err is the error of closing the follower.
func (f localFile) closed(err error) error {
	if f.remove == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(f.remove))
}

// keyLog is the broker's log for the key index.
type keyLog struct {
	followed

	mu     sync.Mutex // guards topics and known
	topics []record.ID
	known  bool
}

// indexed returns the topics with a key index.
func (l *keyLog) indexed() ([]record.ID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale.Swap(false) || !l.known {
		l.topics, l.known = l.IndexedTopics()
		l.any.Store(len(l.topics) > 0)
	}
	return l.topics, l.known
}

func (l *keyLog) Partitions() ([]views.Partition, bool) {
	topics, known := l.indexed()
	return l.Indexed(topics...), known
}

func (l *keyLog) Topic(id record.ID) []views.Partition { return l.Indexed(id) }

func (l *keyLog) Records() int64 {
	topics, _ := l.indexed()
	return l.RecordCount(topics...)
}

// viewCache bounds the part of the key index's file in memory; it is lower under a small memory
// limit.
const viewCache = 16 << 20

// pageCache is SQLite's page cache for one file, at most most: a 32nd of the memory from 256 MiB on, and
// half of that with 64 MiB. The garbage collector does not count it.
func (o *Options) pageCache(most int64) int64 {
	return min(most, o.MemoryLimit/32, max(o.MemoryLimit/64, (o.MemoryLimit-64<<20)/24))
}

// openKeys opens the key index, which creates its file when a topic needs it.
func (n *Node) openKeys(ctx context.Context, l *keyLog, o *Options) (err error) {
	l.Broker = n.Broker
	n.keysFile = o.localFile("view", "keys.db")
	n.keys, err = keyindex.Open(ctx, keyindex.Options{
		Path: n.keysFile.path, Log: l, CacheBytes: o.pageCache(viewCache), Logger: o.Logger, Metrics: o.Metrics,
	})
	return err
}

// closeKeys closes the key index.
func (n *Node) closeKeys() error {
	if n.keys == nil {
		return nil
	}
	return n.keysFile.closed(n.keys.Close())
}

// Keys returns the key index of the topics with key-index on. It follows the broker, and is closed
// with the node.
func (n *Node) Keys() *keyindex.View { return n.keys }

// early is a remote store that was asked for the cluster object before the log asks, so that a start
// waits for it and for the list of other brokers at the same time.
type early struct {
	objstore.Store
	taken  atomic.Bool // the log has asked
	answer chan answer // capacity 1
}

// answer is the outcome of a GET.
type answer struct {
	size int64
	body []byte
	err  error
}

// readEarly asks for the cluster object, and does not wait. ctx ends the request. It returns the store
// for the log: the same if no other brokers are looked for, or if it is local.
func readEarly(ctx context.Context, store objstore.Store, o *Options) objstore.Store {
	if o.Join == nil || o.ReadOnly || objstore.IsLocal(store) {
		return store
	}
	e := &early{Store: store, answer: make(chan answer, 1)}
	go func() {
		object, err := store.Get(ctx, core.MetaKey, objstore.Whole)
		a := answer{size: object.Size, err: err}
		if err == nil {
			a.body, a.err = io.ReadAll(io.LimitReader(object.Body, metaMax))
			_ = object.Body.Close()
		}
		e.answer <- a
	}()
	return e
}

// Get returns the cluster object as it was read early to the first caller that asks for it.
func (e *early) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if key != core.MetaKey || e.taken.Swap(true) {
		return e.Store.Get(ctx, key, r)
	}
	select {
	case a := <-e.answer:
		return objstore.Object{Size: a.size, Body: io.NopCloser(bytes.NewReader(a.body))}, a.err
	case <-ctx.Done():
		return objstore.Object{}, fmt.Errorf("get %s: %w: %w", key, objstore.ErrNoVerdict, context.Cause(ctx))
	}
}

// Unwrap returns the underlying store.
func (e *early) Unwrap() objstore.Store { return e.Store }

// riemannLog is the broker's log for the index of Riemann events.
type riemannLog struct{ followed }

func (l *riemannLog) Topic(name string) (record.ID, bool) {
	l.stale.Store(false)
	r, ok := l.TopicNamed(name)
	l.any.Store(ok)
	return r.ID, ok
}

func (l *riemannLog) Append(ctx context.Context, topic record.ID, partition uint32, recs []record.Record, expected int64) error {
	r, ok := l.TopicOf(topic)
	if !ok {
		return state.ErrUnknownTopic
	}
	data, sum, err := record.Append(nil, recs, record.EncodeOptions{})
	if err != nil {
		return err
	}
	res := l.AppendChange(ctx, broker.Append{Topic: r.Name, Partition: int32(partition), Data: data, Summary: sum, ExpectedOffset: expected}, nil)
	return res.Err
}

// Bounds on the memory of the index of Riemann events: its file, an answer, the events that wait
// for a subscriber, and the records of a transaction. They are lower under a small memory limit.
const (
	riemannCache  = 8 << 20
	riemannAnswer = 1 << 20
	riemannQueue  = 256 << 10
	riemannRead   = 2 << 20
)

// openRiemann opens the index of Riemann events, if there is a topic of them.
func (n *Node) openRiemann(ctx context.Context, l *riemannLog, o *Options) (err error) {
	if o.RiemannTopic == "" {
		return nil
	}
	l.Broker = n.Broker
	n.riemannFile = o.localFile("riemann", "riemann.db")
	n.riemann, err = index.Open(ctx, index.Options{
		Path: n.riemannFile.path, Log: l, Topic: o.RiemannTopic, CacheBytes: min(riemannCache, o.MemoryLimit/64),
		AnswerBytes: min(riemannAnswer, o.MemoryLimit/64), QueueBytes: min(riemannQueue, o.MemoryLimit/512), ReadBytes: int(min(riemannRead, o.MemoryLimit/128)),
		Logger: o.Logger, Metrics: o.Metrics,
	})
	return err
}

// closeRiemann closes the index of Riemann events.
func (n *Node) closeRiemann() error {
	if n.riemann == nil {
		return nil
	}
	return n.riemannFile.closed(n.riemann.Close())
}

// Riemann returns the index of Riemann events, which follows the broker and is closed with the node;
// nil if there is none.
func (n *Node) Riemann() *index.Index { return n.riemann }
