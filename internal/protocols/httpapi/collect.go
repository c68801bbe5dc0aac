package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/codec"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/record"
)

const (
	// fetchMin and fetchMax bound the size of one fetch from the broker.
	fetchMin = 64 << 10
	fetchMax = 8 << 20
	// guess is the assumed size of a record before any is known.
	guess = 1 << 10
	// tailTime is a lower bound for the time of later fetches, so that records that are already
	// committed are returned.
	tailTime = 2 * time.Second
	// inflateMin is the memory reserved first to decompress a batch.
	inflateMin = 64 << 10
)

// wait fetches until the wanted offset is available, the time is up or Stop was called. Then it
// returns what is available, possibly nothing. It refuses an offset beyond the end, because no
// client can have received it.
func (g *Reading) wait(ctx context.Context, timeout time.Duration) (*broker.FetchedPart, error) {
	if err := g.s.b.Within(ctx, g.Topic, g.Partition, g.Offset); err != nil {
		return nil, err
	}
	slot := httpconn.SlotOf(ctx)
	limited, done := g.s.o.Drain.Until(ctx)
	defer done()
	if timeout > 0 && g.by != nil && g.atEnd() {
		var stop func()
		limited, stop = g.by.until(limited)
		defer stop()
		if !slot.Wait(g.connection(), done) {
			return nil, g.s.noReader()
		}
		defer slot.EndWait()
	}
	if limited.Err() == nil && !slot.Displaced() {
		part, err := g.fetch(limited, timeout)
		if !errors.Is(err, context.Canceled) || !g.s.o.Drain.Stopped() && !slot.Displaced() {
			return part, err
		}
	}
	g.displaced = slot.Displaced()
	return g.fetch(ctx, 0)
}

// connection returns the memory of the connection while the read waits.
func (g *Reading) connection() int64 {
	if g.streams {
		return httpconn.StreamBytes
	}
	return httpconn.PollBytes
}

// atEnd reports whether a fetch waits for new records.
func (g *Reading) atEnd() bool {
	p, err := g.s.b.Partition(g.Topic, g.Partition)
	return err == nil && g.Offset >= p.End(g.Isolation)
}

func (g *Reading) fetch(ctx context.Context, wait time.Duration) (*broker.FetchedPart, error) {
	f, err := g.s.b.Fetch(ctx, []broker.Want{{
		Topic: g.Topic, ID: g.topicID, Partition: g.Partition, Offset: g.Offset, MaxBytes: g.fetchBytes(), Isolation: g.Isolation,
	}}, 1, wait)
	if err != nil {
		return nil, err
	}
	g.fetched = append(g.fetched, f)
	part := &f.Parts[0]
	g.End = part.HighWatermark
	return part, part.Err
}

// fetchBytes returns the size of the next fetch, from the size of the records so far.
func (g *Reading) fetchBytes() int {
	if g.scan != nil {
		return g.scanFetchBytes()
	}
	if g.one && g.Offset == g.begun {
		return 1 // one batch has it
	}
	each := int64(guess)
	if g.Count > 0 {
		each = g.stored/g.Count + 32
	}
	n := min(g.MaxRecords-g.Count, fetchMax/each+1) * each
	// A margin for heads and partly wanted batches, because a second fetch costs more.
	n += n / 4
	if g.MaxBytes > 0 && g.ValueMax == 0 {
		n = min(n, g.MaxBytes-g.Bytes)
	}
	return int(min(max(n, fetchMin), fetchMax))
}

// Collect adds records to dst until there are enough, or no more are available. It waits for the
// first record, also across offsets whose records compaction has removed. An error means that dst
// got no record: a later error only ends the collection. A scan ends likewise with an error after
// the first records that it has looked at.
func (g *Reading) Collect(ctx context.Context, dst encoding.Sink) error {
	began := time.Now()
	if g.begun = g.Offset; g.Tagged && g.topicID.IsZero() {
		topic, _ := g.s.b.TopicNamed(g.Topic)
		g.topicID = topic.ID // zero: the topic does not exist
	}
	part, err := g.wait(ctx, g.Timeout)
	if err != nil {
		return err
	}
	for {
		before := g.Offset
		err := g.part(part, dst)
		if g.scan != nil {
			g.releaseFetch()
		}
		if err != nil {
			if g.Count > 0 || g.scan != nil && g.Offset > g.begun {
				g.short = lacksMemory(err)
				return nil
			}
			return err
		}
		if g.full || g.Count >= g.MaxRecords || g.Offset == before || g.Offset >= g.End && g.Count > 0 || g.leftOut && g.one || g.scanned(ctx) {
			return nil
		}
		if g.Count == 0 {
			g.release() // compaction left a gap, which may be long
		}
		if g.Offset >= g.End {
			left := g.Timeout - time.Since(began)
			if left <= 0 {
				return nil
			}
			g.Done() // as if there had been no records
			if part, err = g.wait(ctx, left); err != nil {
				return err
			}
		} else if part, err = g.more(ctx, began); err != nil {
			g.short = lacksMemory(err)
			return nil // the next read starts at the error and reports it
		}
	}
}

func (g *Reading) more(ctx context.Context, began time.Time) (*broker.FetchedPart, error) {
	until := began.Add(g.Timeout)
	if soon := time.Now().Add(tailTime); until.Before(soon) {
		until = soon
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return g.fetch(ctx, 0)
}

// part collects from one fetch.
func (g *Reading) part(part *broker.FetchedPart, dst encoding.Sink) error {
	for i := range part.Chunks {
		c := &part.Chunks[i]
		if c.Size == 0 {
			g.leftOut = g.leftOut || c.Base <= g.begun && g.begun < c.End
			g.Offset = max(g.Offset, c.End)
			continue
		}
		err := g.eachBatch(c, g.Offset, func(b record.Batch, volatile bool) error { return g.batch(b, dst, volatile) })
		if err == errStop {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// batch collects from one batch. The reader checks its checksum.
func (g *Reading) batch(b record.Batch, dst encoding.Sink, volatile bool) error {
	if s := g.scan; s != nil && s.records > s.before && s.ended() {
		return errStop
	}
	if b.Compression() == record.None {
		return g.records(b, dst, volatile)
	}
	most := g.s.requestMax + record.BatchTarget
	err := g.compressed(b, dst, min(most, max(inflateMin, 8*int64(len(b)), g.inflated)))
	if !errors.Is(err, record.ErrTooLarge) {
		return err
	}
	// A batch is decompressed whole, so no record was added yet: try again with the memory that it
	// takes.
	n, err := b.DecompressedSize(most)
	if err != nil {
		return err
	}
	size := min(inflateSize(n), most+1)
	if err := g.inflateRoom(size); err != nil {
		return err
	}
	putInflateBuffer(g.r.TakeBuffer())
	g.r.SetBuffer(inflateBuffer(size))
	return g.compressed(b, dst, n)
}

// inflateUnit is the unit of decompression buffers, so that most buffers fit the next reader too.
const inflateUnit = 1 << 20

// inflateSize returns the size of the buffer for a batch that decompresses to n bytes.
func inflateSize(n int64) int64 {
	if n++; n < inflateUnit { // the reader detects the end with one more byte
		return n
	}
	return (n + inflateUnit - 1) / inflateUnit * inflateUnit
}

// inflateBuffers holds unused buffers of at least inflateUnit. Without the pool each answer would
// leave garbage of many MiB, faster than the garbage collector of a busy machine frees it.
var inflateBuffers codec.Spare[[]byte]

func inflateBuffer(size int64) []byte {
	if have := inflateBuffers.Get(); have != nil && int64(cap(*have)) == size {
		return *have
	}
	return make([]byte, 0, size)
}

func putInflateBuffer(buf []byte) {
	if cap(buf) >= inflateUnit && cap(buf)%inflateUnit == 0 {
		buf = buf[:0]
		inflateBuffers.Put(&buf)
	}
}

// compressed collects from a batch that decompresses to at most n bytes.
func (g *Reading) compressed(b record.Batch, dst encoding.Sink, n int64) error {
	if err := g.inflateRoom(n); err != nil {
		return err
	}
	g.r.Limits = record.Limits{DecompressedBytes: n, Ratio: 1 << 20} // checked at produce
	return g.records(b, dst, true)
}

// inflateRoom reserves n bytes for the reader's own buffer, which it keeps.
func (g *Reading) inflateRoom(n int64) error {
	if n <= g.inflated {
		return nil
	}
	if err := g.memory.Hold(n - g.inflated); err != nil {
		return err
	}
	g.inflated = n
	return nil
}

// release releases all memory; the reading can continue with the next fetch.
func (g *Reading) release() {
	g.releaseRead()
	g.kept.Release()
	for i := range g.pins {
		g.pins[i].release()
	}
	g.pins, g.pinned = nil, false
}

// releaseFetch releases the memory of a fetch of a scan, unless the answer has a value in it.
func (g *Reading) releaseFetch() {
	if g.pinned {
		g.pins, g.pinned = append(g.pins, g.answer), false
		g.answer = g.s.newAnswer()
	}
	g.releaseRead()
}

// releaseRead releases the memory of what was read. What a scan has found remains.
func (g *Reading) releaseRead() {
	g.answer.release()
	if g.inflated > 0 {
		putInflateBuffer(g.r.TakeBuffer())
		g.r, g.inflated = record.Reader{}, 0
	}
}

func (g *Reading) records(b record.Batch, dst encoding.Sink, volatile bool) error {
	g.r.Reset(b, g.Offset)
	rec, values, memory := g.r.Record(), dst.ValuesOnly(), &g.memory
	pins := values && !volatile
	if g.scan != nil {
		values, memory = false, &g.kept
	}
	for g.Count < g.MaxRecords {
		if values {
			v, ok := g.r.NextValue()
			if !ok {
				return g.batchEnd(b)
			}
			g.value.Offset, g.value.Value = g.r.Offset(), v
			rec = &g.value
		} else if !g.r.Next() {
			return g.batchEnd(b)
		}
		if g.scan != nil {
			if skip, err := g.skips(rec); err != nil {
				return err
			} else if skip {
				continue
			}
			if volatile = !pins || len(rec.Value) < pinMin; !volatile {
				g.pinned = true
			}
		}
		size := int64(len(rec.Key) + len(rec.Value))
		whole := size
		if g.ValueMax > 0 {
			size = int64(len(rec.Key) + min(len(rec.Value), g.ValueMax))
		}
		if g.Count > 0 && g.MaxBytes > 0 && g.Bytes+size > g.MaxBytes {
			g.full = true
			return errStop
		}
		if err := dst.Take(memory, rec, volatile); err != nil {
			if g.Count == 0 || !errors.Is(err, budget.ErrOver) && !errors.Is(err, budget.ErrTooLarge) && err != encoding.ErrFull {
				return err
			}
			g.full, g.short = true, errors.Is(err, budget.ErrOver)
			return errStop
		}
		g.Count++
		g.Bytes += size
		g.stored += whole
		g.Offset = rec.Offset + 1
	}
	return errStop
}

// skips reports whether a scan passes over a record, or errStop at its end.
func (g *Reading) skips(rec *record.Record) (bool, error) {
	s := g.scan
	switch {
	case s.end > 0 && rec.Offset >= s.end:
		g.Offset, g.full = s.end, true
		return false, errStop
	case s.bytes >= s.stop && s.records > s.before:
		return false, errStop
	case s.matches(rec):
		return false, nil
	}
	g.Offset = rec.Offset + 1
	return true, nil
}

// batchEnd continues after the batch's last offset, because compaction may have removed the last
// records.
func (g *Reading) batchEnd(b record.Batch) error {
	if err := g.r.Err(); err != nil {
		return err
	}
	g.Offset = max(g.Offset, b.BaseOffset()+b.Span())
	return nil
}
