package node

import (
	"fmt"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/broker"
)

// waker wakes one who follows the broker's log.
type waker struct {
	changed chan struct{}
	stale   atomic.Bool // topics have changed
	any     atomic.Bool // there are topics whose records it follows
}

func newWaker() waker { return waker{changed: make(chan struct{}, 1)} }

// tell is the broker's hook. Where there is no topic to be followed, records wake nobody.
func (w *waker) tell(topics bool) {
	if topics {
		w.stale.Store(true)
	}
	if !topics && !w.any.Load() {
		return
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *waker) Changed() <-chan struct{} { return w.changed }

// batchesOf are the batches of a read of one partition: those in memory as they lie, or the first section of a file, read into
// buf if that is large enough. What comes behind is for the next read. On an error f is released; buf is what to use the next
// time.
func batchesOf(f *broker.Fetched, buf []byte) (parts [][]byte, _ []byte, err error) {
	p := &f.Parts[0]
	if p.Err != nil {
		f.Release()
		return nil, buf, p.Err
	}
	for i := range p.Chunks {
		c := &p.Chunks[i]
		if c.Section == nil {
			parts = append(parts, c.Parts...)
			continue
		}
		if i > 0 {
			break
		}
		if int64(cap(buf)) < c.Size {
			buf = make([]byte, c.Size)
		}
		b := buf[:c.Size]
		if _, err := c.Section.File.ReadAt(b, c.Section.Off); err != nil {
			f.Release()
			return nil, buf, fmt.Errorf("%w: read: %w", broker.ErrStoreUnavailable, err)
		}
		return append(parts, b), buf, nil
	}
	return parts, buf, nil
}
