package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/keyindex"
	"github.com/sebbroker/seb/record"
)

// followed is the broker's log for one follower.
type followed struct {
	*broker.Broker // set before the follower is opened
	changed        chan struct{}
	stale          atomic.Bool // topics have changed
	any            atomic.Bool // there are topics whose records it follows

	buf atomic.Pointer[[]byte] // buffer of a released Read
}

// bufferMax bounds the buffer that is kept between two reads.
const bufferMax = 1 << 20

func (l *followed) init() {
	l.changed = make(chan struct{}, 1)
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
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *followed) Changed() <-chan struct{} { return l.changed }

func (l *followed) Read(ctx context.Context, topic record.ID, partition uint32, offset int64, bytesMax int) (follow.Batches, error) {
	f, from, err := l.ReadIndexed(ctx, topic, broker.Want{Partition: int32(partition), Offset: offset, MaxBytes: bytesMax})
	if err != nil {
		return follow.Batches{}, err
	}
	b, err := l.batchesOf(f)
	if err != nil {
		f.Release()
	}
	b.From = from
	return b, err
}

// batchesOf returns the batches of a read of one partition: those in memory without a copy, or the
// first section of a file, in a buffer. The next read returns the rest.
func (l *followed) batchesOf(f *broker.Fetched) (b follow.Batches, err error) {
	p := &f.Parts[0]
	if p.Err != nil {
		return b, p.Err
	}
	b.Free = f.Release
	for i := range p.Chunks {
		c := &p.Chunks[i]
		if c.Section == nil {
			b.Parts = append(b.Parts, c.Parts...)
			continue
		}
		if i > 0 {
			break
		}
		buf := l.buf.Swap(nil)
		if buf == nil || int64(cap(*buf)) < c.Size {
			fresh := make([]byte, c.Size)
			buf = &fresh
		}
		data := (*buf)[:c.Size]
		if _, err := c.Section.File.ReadAt(data, c.Section.Off); err != nil {
			return follow.Batches{}, fmt.Errorf("%w: read: %w", broker.ErrStoreUnavailable, err)
		}
		return follow.Batches{Parts: [][]byte{data}, Free: func() {
			f.Release()
			if cap(*buf) <= bufferMax {
				l.buf.Store(buf)
			}
		}}, nil
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
