package node

import (
	"context"
	"sync"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/keyindex"
	"github.com/sebbroker/seb/record"
)

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

func (l *keyLog) Partitions() ([]follow.Partition, bool) {
	topics, known := l.indexed()
	return l.Indexed(topics...), known
}

func (l *keyLog) Topic(id record.ID) []follow.Partition { return l.Indexed(id) }

func (l *keyLog) Records() int64 {
	topics, _ := l.indexed()
	return l.RecordCount(topics...)
}

// viewCache bounds the part of the key index's file in memory; it is lower under a small memory
// limit.
const viewCache = 16 << 20

// openKeys opens the key index, which creates its file when a topic needs it.
func (n *Node) openKeys(ctx context.Context, l *keyLog, o *Options) (err error) {
	l.Broker = n.Broker
	n.keysFile = o.localFile("view", "keys.db")
	n.keys, err = keyindex.Open(ctx, keyindex.Options{
		Path: n.keysFile.path, Log: l, CacheBytes: min(viewCache, o.MemoryLimit/32), Logger: o.Logger, Metrics: o.Metrics,
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
