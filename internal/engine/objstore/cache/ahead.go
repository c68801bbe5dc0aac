package cache

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

const (
	aheadRun   = 12        // blocks of a request: a commit object of the usual size is one
	aheadMax   = 16        // requests at a time
	aheadBytes = 192 << 10 // memory of a request: copyBytes, and the buffers of its connection
	// Of the class that reserves this memory, aheadShare is the inverse of the part that may be
	// taken, and aheadFree of the part that stays free for readers.
	aheadShare, aheadFree = 8, 4
	// aheadCache is the inverse of the part of the cache for bytes that were not read yet.
	aheadCache = 4
	// aheadPause is how long nothing is fetched ahead after a block could not be written, because the
	// store would have to send it again.
	aheadPause = time.Minute
)

// AheadMax implements objstore.Ahead.
func (c *Cache) AheadMax() int64 {
	if c.folder == nil {
		return 0
	}
	return c.o.Bytes / aheadCache
}

// FetchAhead implements objstore.Ahead. The blocks are written to disk as they arrive, so a request
// needs little memory. They stay in the cache if the reader leaves. Only Close cancels a request,
// because the store has it already and its price does not depend on the bytes.
//
// The last blocks of the window wait for a later call if they would make a small request, unless
// they end their extent.
func (c *Cache) FetchAhead(next []objstore.Extent, wanted, window int64) (local bool) {
	a := &aheadCall{wanted: blocksOf(wanted, c.block), local: true}
	if window > 0 {
		a.left = min(blocksOf(wanted+window, c.block), c.AheadMax()/c.block)
	}
	a.least = min(aheadRun, max(1, a.left/4))
	for _, e := range next {
		end := e.Range.Offset + e.Range.Length - 1
		if a.wanted <= 0 && a.left <= 0 || !c.cacheable(e.Key) || end/c.block > blockLast {
			break
		}
		c.fetchExtent(a, e.Key, e.Range.Offset/c.block, end/c.block)
	}
	return a.local
}

func blocksOf(bytes, block int64) int64 { return bytes/block + 1 }

// aheadCall is the state of a FetchAhead.
type aheadCall struct {
	wanted, left int64 // blocks that the reader wants, and that may be fetched, from here on
	least        int64 // blocks of a request that ends with the window
	local        bool  // the wanted blocks so far are on disk
}

// fetchExtent starts requests for the missing blocks of an extent, first to last. If one cannot
// start, no further request may.
func (c *Cache) fetchExtent(a *aheadCall, key string, first, last int64) {
	o := c.object(key)
	block := func(at int64) name { return name{o, uint32(at)} }
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := first; at <= last && a.wanted > 0; at++ {
		a.local = a.local && c.index[block(at)] != nil
		a.wanted--
	}
	cut := last-first >= a.left // by the end of the window
	last = min(last, first+a.left-1)
	a.left -= last - first + 1
	for at := first; at <= last; {
		run := int64(0)
		for run < aheadRun && at+run <= last && c.absentLocked(block(at+run)) {
			run++
		}
		switch {
		case run == 0:
			at++
			continue
		case cut && run < a.least && at+run > last, !c.startAheadLocked(key, block(at), run):
			a.left = 0
			return
		}
		at += run
	}
}

// absentLocked reports whether a block is neither on disk nor on its way.
func (c *Cache) absentLocked(n name) bool { return c.index[n] == nil && c.flights.FindLocked(n) == nil }

// startAheadLocked starts a request for a run of blocks. It returns false if there are too many, or
// no memory.
func (c *Cache) startAheadLocked(key string, n name, run int64) bool {
	if c.closed || c.ahead == aheadMax || time.Since(c.unwritten) < aheadPause {
		return false
	}
	memory, ok := c.aheadMemory()
	if !ok {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{fill: &fill{object: n.object, cancel: cancel}, key: key}
	for range run {
		l.run = append(l.run, c.flights.BeginLocked(n, nil))
		n.number++
	}
	c.filling[l.fill] = struct{}{}
	c.ahead++
	c.stats.Requests++
	c.stats.Ahead++
	c.work.Go(func() {
		defer cancel()
		c.stream(ctx, l)
		for len(l.run) > 0 {
			c.finish(l, nil, errBypass) // readers that wait ask the store
		}
		memory.Release()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.filling, l.fill)
		c.ahead--
	})
	return true
}

// aheadMemory reserves the memory of one more request.
func (c *Cache) aheadMemory() (r *budget.Reservation, ok bool) {
	class := c.o.Ahead
	if class == nil {
		return nil, true
	}
	most := class.Limit()
	if int64(c.ahead+1)*aheadBytes > most/aheadShare || class.Used()+aheadBytes > most-most/aheadFree {
		return nil, false
	}
	r = class.ReserveNow(aheadBytes)
	return r, r != nil
}

// stream reads the blocks of a run with one request, and writes each to disk as it arrives. After an
// error the rest of the flights remain in the run.
func (c *Cache) stream(ctx context.Context, l *load) {
	first := int64(l.run[0].Key.number) * c.block
	got, err := c.remote.Get(ctx, l.key, objstore.Range{Offset: first, Length: int64(len(l.run)) * c.block})
	if err != nil {
		return
	}
	defer got.Body.Close()
	buf := c.buffers.Get(copyBytes)
	defer c.buffers.Put(buf)
	cut := false
	more := func(rest int) ([]byte, error) {
		p := buf[:min(rest, len(buf))]
		if _, err := io.ReadFull(got.Body, p); err != nil {
			cut = true
			return nil, fmt.Errorf("%w: %w", errBody, err)
		}
		return p, nil
	}
	for len(l.run) > 0 {
		x := content{key: l.key, name: l.run[0].Key, size: got.Size, more: more}
		length := c.lengthOf(x.name, got.Size)
		if length <= 0 { // beyond the end, an empty object, or unknown size
			return
		}
		start, err := more(int(length))
		if err != nil || !c.admits(l.key, got.Size, start) {
			return
		}
		x.parts, x.rest = [][]byte{start}, int(length)-len(start)
		b := c.write(x, l.fill)
		if b == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !cut {
				c.unwritten = time.Now()
			}
			return
		}
		c.finish(l, b, nil)
	}
}
