package node

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/keyindex"
	"github.com/sebbroker/seb/record"
)

// keyLog is the broker's log as the view of keys follows it.
type keyLog struct {
	*broker.Broker // set before the view is opened
	waker

	mu     sync.Mutex // guards topics
	topics []record.ID
	known  bool

	buf []byte // of Read
}

func newKeyLog() *keyLog {
	l := &keyLog{waker: newWaker()}
	l.stale.Store(true)
	return l
}

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

func (l *keyLog) Partitions() ([]keyindex.Partition, bool) {
	topics, known := l.indexed()
	return partitions(l.Indexed(topics...)), known
}

func (l *keyLog) Topic(id record.ID) []keyindex.Partition { return partitions(l.Indexed(id)) }

func partitions(list []broker.IndexedPartition) []keyindex.Partition {
	out := make([]keyindex.Partition, len(list))
	for i, p := range list {
		out[i] = keyindex.Partition(p)
	}
	return out
}

func (l *keyLog) Records() int64 {
	topics, _ := l.indexed()
	return l.RecordCount(topics...)
}

func (l *keyLog) Read(ctx context.Context, topic record.ID, partition uint32, offset int64, bytesMax int) (keyindex.Batches, error) {
	f, err := l.ReadIndexed(ctx, topic, broker.Want{Partition: int32(partition), Offset: offset, MaxBytes: bytesMax})
	if err != nil {
		return keyindex.Batches{}, err
	}
	parts, buf, err := batchesOf(f, l.buf)
	if l.buf = buf; err != nil {
		return keyindex.Batches{}, err
	}
	return keyindex.Batches{Parts: parts, Release: f.Release}, nil
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
	n.keys, err = keyindex.Open(ctx, keyindex.Options{
		Path: path, Log: l, CacheBytes: min(viewCache, o.MemoryLimit/32), Logger: o.Logger, Metrics: o.Metrics,
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
func (n *Node) Keys() *keyindex.View { return n.keys }
