package broker

import (
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

const (
	// aheadMax is the largest window of a reader, in bytes. It covers 200 MB/s at a third of a second
	// per request.
	aheadMax = 64 << 20
	// aheadReaders is the number of readers that are remembered, and aheadRanges the number of ranges
	// that are fetched ahead at once.
	aheadReaders, aheadRanges = 256, 64
	// aheadIdle is how long a reader keeps its window without a read.
	aheadIdle = 10 * time.Second
)

// readAhead recognizes readers that read a partition in order from the store, and lets the store
// fetch what follows. A reader has a window, in bytes. Each time it has to wait for the store, its
// window becomes what it has read so far:
//
//	first read             remembered
//	continues, waits       window = bytes read, at most aheadMax
//	continues, is local    the window stays: the store is as fast as the reader
//
// So a random reader causes no requests. A reader that stops has caused at most twice the bytes that
// it has read, and the store's copies of them remain for the next one.
type readAhead struct {
	store objstore.Ahead // nil: no read-ahead

	mu      sync.Mutex // guards the fields below
	readers []*aheadReader
	windows int64 // sum of the readers' windows
}

// aheadReader is a reader of a partition. Fetches do not name their readers, so it is recognized by
// the offset of its next read.
type aheadReader struct {
	part         partKey
	from, end    int64 // offsets of the last read
	read, window int64 // bytes
	used         time.Time
}

// find returns the reader that continues at an offset, or nil.
func (a *readAhead) find(part partKey, offset int64) *aheadReader {
	if a.store == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var newest *aheadReader
	for _, r := range a.readers {
		switch {
		case r.part != part:
		case r.end == offset:
			return r
		case newest == nil || r.used.After(newest.used):
			newest = r
		}
	}
	if newest != nil && newest.from < offset && offset < newest.end {
		return newest // it did not use all that it got
	}
	return nil
}

// waited enlarges the window of a reader, if the store has room for it.
func (a *readAhead) waited(r *aheadReader, part partKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.part != part {
		return // replaced
	}
	most := a.store.AheadMax()
	more := min(r.read, aheadMax, most) - r.window
	if a.windows+more > most {
		for _, old := range a.readers {
			if time.Since(old.used) > aheadIdle {
				a.resizeLocked(old, 0)
			}
		}
	}
	if more > 0 && a.windows+more <= most {
		a.resizeLocked(r, r.window+more)
	}
}

func (a *readAhead) resizeLocked(r *aheadReader, window int64) {
	a.windows += window - r.window
	r.window = window
}

// done remembers a read. r is the reader that it continues, or nil.
func (a *readAhead) done(r *aheadReader, part partKey, c []Chunk) {
	if a.store == nil || len(c) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r == nil || r.part != part {
		r = a.newLocked(part)
	}
	r.from, r.end, r.used = c[0].Base, c[len(c)-1].End, time.Now()
	for i := range c {
		r.read += c[i].Size
	}
}

// newLocked adds a reader. At the limit it replaces the one that has not read for longest.
func (a *readAhead) newLocked(part partKey) *aheadReader {
	if len(a.readers) < aheadReaders {
		a.readers = append(a.readers, new(aheadReader))
		r := a.readers[len(a.readers)-1]
		r.part = part
		return r
	}
	oldest := a.readers[0]
	for _, r := range a.readers {
		if r.used.Before(oldest.used) {
			oldest = r
		}
	}
	a.resizeLocked(oldest, 0)
	*oldest = aheadReader{part: part}
	return oldest
}

// fetchAhead lets the store fetch what a part of a plan wants, and the window behind it.
func (b *Broker) fetchAhead(r *aheadReader, id partKey, offset, wanted int64) {
	b.ahead.mu.Lock()
	window := r.window
	b.ahead.mu.Unlock()
	next := b.following(id, offset, wanted+window)
	if len(next) > 0 && !b.ahead.store.FetchAhead(next, wanted, window) {
		b.ahead.waited(r, id)
	}
}

// following returns where the store has the data of a partition from an offset on, at least n bytes
// if there are so many. It ends before the tail, which is in memory.
func (b *Broker) following(id partKey, offset, n int64) (next []objstore.Extent) {
	b.log.Read(func(s *state.State) {
		t := s.Topic(id.topic)
		if t == nil || int(id.partition) >= t.Partitions.Len() {
			return
		}
		part := t.Partitions.At(int(id.partition))
		i := part.Find(offset)
		if i < 0 {
			return
		}
		for ; i < len(part.Ranges) && len(next) < aheadRanges && n > 0; i++ {
			r := &part.Ranges[i]
			if r.Lost() {
				continue
			}
			if b.tail.has(slotKey{r.Epoch, r.Slot, r.Pack}) {
				return
			}
			_, near := b.reader.index.Find(r.Source(), r.Base, r.End(), max(offset, r.Base), 1)
			at := objstore.Range{Offset: int64(r.Pos) + near.Pos, Length: int64(r.Len) - near.Pos}
			next = append(next, objstore.Extent{Key: s.RangeKey(r), Range: at})
			n -= at.Length
		}
	})
	return next
}
