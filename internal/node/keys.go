package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/view"
	"github.com/sebbroker/seb/record"
)

// keyLog is the broker's log as the view of keys follows it.
type keyLog struct {
	*broker.Broker // set before the view is opened
	changed        chan struct{}
	stale          atomic.Bool // topics have changed
	any            atomic.Bool // there are topics with a key index

	mu     sync.Mutex // guards topics
	topics []record.ID
	known  bool

	buf []byte // of Read
}

func newKeyLog() *keyLog {
	l := &keyLog{changed: make(chan struct{}, 1)}
	l.stale.Store(true)
	return l
}

// tell is the broker's hook. Where no topic has a key index, records wake nobody.
func (l *keyLog) tell(topics bool) {
	if topics {
		l.stale.Store(true)
	}
	if !topics && !l.any.Load() {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *keyLog) Changed() <-chan struct{} { return l.changed }

// indexed lists the topics with a key index.
func (l *keyLog) indexed() ([]record.ID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale.Swap(false) || !l.known {
		l.topics, l.known = l.IndexedTopics()
		l.any.Store(len(l.topics) > 0)
	}
	return l.topics, l.known
}

func (l *keyLog) Partitions() ([]view.Partition, bool) {
	topics, known := l.indexed()
	return partitions(l.Indexed(topics...)), known
}

func (l *keyLog) Topic(id record.ID) []view.Partition { return partitions(l.Indexed(id)) }

func partitions(list []broker.IndexedPartition) []view.Partition {
	out := make([]view.Partition, len(list))
	for i, p := range list {
		out[i] = view.Partition(p)
	}
	return out
}

func (l *keyLog) Records() int64 {
	topics, _ := l.indexed()
	return l.RecordCount(topics...)
}

func (l *keyLog) Read(ctx context.Context, topic record.ID, partition uint32, offset int64, bytesMax int) (view.Batches, error) {
	f, err := l.ReadIndexed(ctx, topic, broker.Want{Partition: int32(partition), Offset: offset, MaxBytes: bytesMax})
	if err != nil {
		return view.Batches{}, err
	}
	p := &f.Parts[0]
	if p.Err != nil {
		f.Release()
		return view.Batches{}, p.Err
	}
	out := view.Batches{Release: f.Release}
	for i := range p.Chunks {
		c := &p.Chunks[i]
		if c.Section == nil {
			out.Parts = append(out.Parts, c.Parts...)
			continue
		}
		if i > 0 {
			break // there is one buffer; the rest is for the next read
		}
		if int64(cap(l.buf)) < c.Size {
			l.buf = make([]byte, c.Size)
		}
		b := l.buf[:c.Size]
		if _, err := c.Section.File.ReadAt(b, c.Section.Off); err != nil {
			f.Release()
			return view.Batches{}, fmt.Errorf("%w: read: %w", broker.ErrStoreUnavailable, err)
		}
		out.Parts = append(out.Parts, b)
		break
	}
	return out, nil
}

// viewFile is where the index of keys is kept, and the folder to be removed with it at the end, if any.
func (o *Options) viewFile() (path, remove string) {
	if o.DataDir != "" {
		return filepath.Join(o.DataDir, "view", "keys.db"), ""
	}
	remove = filepath.Join(os.TempDir(), "seb-view-"+record.NewID().String())
	return filepath.Join(remove, "keys.db"), remove
}

// viewCache is the most of its file that the view keeps in memory; less where memory is short.
const viewCache = 16 << 20

// openKeys opens the view of keys, which opens its file when a topic wants it.
func (n *Node) openKeys(ctx context.Context, l *keyLog, o *Options) (err error) {
	l.Broker = n.Broker
	path, remove := o.viewFile()
	n.keys, err = view.Open(ctx, view.Options{
		Path: path, Log: l, CacheBytes: min(viewCache, o.MemoryLimit/16), Logger: o.Logger, Metrics: o.Metrics,
	})
	n.keysDir = remove
	return err
}

// closeKeys closes it.
func (n *Node) closeKeys() error {
	if n.keys == nil {
		return nil
	}
	err := n.keys.Close()
	if n.keysDir != "" {
		if e := os.RemoveAll(n.keysDir); err == nil {
			err = e
		}
	}
	return err
}

// Keys is the index of record keys, of the topics whose key-index is on. It follows the broker, and ends with it.
func (n *Node) Keys() *view.View { return n.keys }
