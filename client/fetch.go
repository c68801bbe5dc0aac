package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

// FetchOptions describe one Fetch.
type FetchOptions struct {
	Partition int32
	Offset    int64 // first offset to return
	// MaxRecords and MaxBytes are soft bounds on the answer: it has whole batches, and at least
	// one. 0 means the broker's limit.
	MaxRecords, MaxBytes int
	// Wait is the time to wait for the first record at the end of the partition; 0 answers at once.
	Wait time.Duration
	// Uncommitted also returns the records of open and aborted transactions. Without it a read ends at the last
	// stable offset.
	Uncommitted bool
}

// Fetched is an answer while it is read. Use it from one goroutine, and close it.
type Fetched struct {
	// NextOffset is the partition's end when the broker answered: the last stable offset, or with Uncommitted the
	// offset that the next record gets. It is -1 if the answer does not have it.
	NextOffset int64
	// Epoch is the epoch of the broker that answered.
	Epoch uint32

	body io.ReadCloser
	*fetchState
}

// fetchState has the buffers of a Fetched; it is pooled.
type fetchState struct {
	in       io.Reader
	buf      []byte // its length is its capacity for data
	pos, end int    // buf[pos:end] is read and not yet parsed
	reader   record.Reader
	from     int64 // first offset not yet returned
	base     int64 // lowest base offset of the next batch; -1 before the first
	resume   int64 // offset after the answer, with what the broker has left out; 0: unknown
}

var fetchStates = sync.Pool{New: func() any { return new(fetchState) }}

// readAhead is the size of one read where batches are small.
const readAhead = 64 << 10

// batchBytesMax is far above the broker's largest batch. A larger length means corrupt data.
const batchBytesMax = 64 << 20

// Fetch reads the records from o.Offset on with one request. Errors: ErrBelowStart if they were
// removed, ErrUnknownTopic, ErrUnknownPartition.
func (c *Client) Fetch(ctx context.Context, topic string, o FetchOptions) (*Fetched, error) {
	q := url.Values{
		"topic-name": {topic}, "partition": {strconv.Itoa(int(o.Partition))}, "offset": {strconv.FormatInt(o.Offset, 10)},
		"timeout": {o.Wait.String()}, "max-records": {strconv.Itoa(math.MaxInt32)},
	}
	if o.MaxRecords > 0 {
		q.Set("max-records", strconv.Itoa(min(o.MaxRecords, math.MaxInt32)))
	}
	if o.MaxBytes > 0 {
		q.Set("max-bytes", strconv.Itoa(min(o.MaxBytes, math.MaxInt32)))
	}
	if o.Uncommitted {
		q.Set("isolation", api.IsolationUncommitted)
	}
	var resp *http.Response
	err := c.do(ctx, &request{
		method: http.MethodGet, path: "/records", query: q, bounded: true, wait: o.Wait,
		header: map[string]string{"Accept": api.RecordBatch + ", " + api.ProblemJSON},
	}, func(r *http.Response) error {
		resp = r
		if kind := r.Header.Get("Content-Type"); kind != api.RecordBatch {
			drain(r.Body)
			return fmt.Errorf("%w: content type %q", errNotBroker, kind)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	f := &Fetched{body: resp.Body, NextOffset: -1, fetchState: fetchStates.Get().(*fetchState)}
	if n, err := strconv.ParseInt(resp.Header.Get(api.HeaderNextOffset), 10, 64); err == nil {
		f.NextOffset = n
	}
	if n, err := strconv.ParseUint(resp.Header.Get(api.HeaderEpoch), 10, 32); err == nil {
		f.Epoch = uint32(n)
	}
	f.in = resp.Body
	f.from, f.base = o.Offset, -1
	f.resume, _ = strconv.ParseInt(resp.Header.Get(api.HeaderResumeOffset), 10, 64)
	f.reader.Reset(nil, 0)
	return f, nil
}

// All returns the records in order, from the requested offset on. A record and the memory it points
// to are valid until the next iteration, because records are not copied. An error is the last
// element; the records before it are valid.
func (f *Fetched) All() iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		for {
			ok, err := f.nextBatch()
			if err != nil {
				yield(nil, err)
				return
			}
			if !ok {
				return
			}
			for f.reader.Next() {
				r := f.reader.Record()
				f.from = r.Offset + 1
				if !yield(r, nil) {
					return
				}
			}
			if err := f.reader.Err(); err != nil {
				yield(nil, fmt.Errorf("batch from the broker: %w", err))
				return
			}
			f.from = max(f.from, f.base)
		}
	}
}

// nextBatch parses one batch, which is valid until the next call. It returns false at the end of
// the answer.
func (f *fetchState) nextBatch() (bool, error) {
	err := f.fill(record.BatchHeadSize)
	if err == io.EOF && f.pos == f.end {
		f.from = max(f.from, f.resume)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read answer: %w", noEOF(err))
	}
	// The length field counts from byte 12 of the batch.
	n := int64(int32(binary.BigEndian.Uint32(f.buf[f.pos+8:]))) + 12
	if n < record.BatchHeadSize || n > batchBytesMax {
		return false, fmt.Errorf("batch from the broker: %d bytes long", n)
	}
	if err := f.fill(int(n)); err != nil {
		return false, fmt.Errorf("read answer: %w", noEOF(err))
	}
	b, _, err := record.Split(f.buf[f.pos : f.pos+int(n)])
	if err != nil {
		return false, fmt.Errorf("batch from the broker: %w", err)
	}
	if b.BaseOffset() < f.base { // between batches some may be left out
		return false, fmt.Errorf("batch from the broker: begins at offset %d, want at least %d", b.BaseOffset(), f.base)
	}
	f.base = b.BaseOffset() + b.Span()
	f.reader.Reset(b, f.from)
	f.pos += int(n)
	return true, nil
}

// fill reads until n bytes are available from pos on. After a large batch it reads only the head of
// the next one, which has its length. Large batches are therefore read into their final position,
// and only heads are moved.
func (f *fetchState) fill(n int) error {
	have := f.end - f.pos
	if have >= n {
		return nil
	}
	most := max(n+record.BatchHeadSize, readAhead)
	f.room(most)
	read, err := io.ReadAtLeast(f.in, f.buf[f.end:f.pos+most], n-have)
	f.end += read
	return err
}

// room makes room for n bytes from pos on.
func (f *fetchState) room(n int) {
	if f.pos+n <= len(f.buf) {
		return
	}
	to := f.buf
	if n > len(to) {
		to = make([]byte, n)
	}
	f.end = copy(to, f.buf[f.pos:f.end])
	f.buf, f.pos = to, 0
}

// load reads the rest of the answer into memory. The bytes before an error stay available.
func (f *fetchState) load() error {
	for {
		if have := f.end - f.pos; f.end == len(f.buf) {
			f.room(max(2*have, readAhead))
		}
		n, err := f.in.Read(f.buf[f.end:])
		f.end += n
		if err == nil {
			continue
		}
		if f.in = http.NoBody; err == io.EOF {
			return nil
		}
		f.resume = 0 // the answer has no end
		return err
	}
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ResumeOffset is the offset at which the next fetch continues.
func (f *Fetched) ResumeOffset() int64 { return f.from }

// batchKeepMax bounds the buffers that the pool keeps.
const batchKeepMax = 2 << 20

// Close ends the answer. Records from All become invalid. Close may be called twice.
func (f *Fetched) Close() error {
	if f.body == nil {
		return nil
	}
	drain(f.body)
	s := f.fetchState
	f.body, f.fetchState = nil, &fetchState{from: s.from}
	s.in, s.pos, s.end = nil, 0, 0
	s.reader.Reset(nil, 0)
	if len(s.buf) > batchKeepMax {
		s.buf = nil
	}
	fetchStates.Put(s)
	return nil
}

// prefetched is an answer in memory that a partition's reader hands to Next. Because it is
// complete, Next does not wait while it has records.
type prefetched struct {
	partition int32
	f         *Fetched
	from      int64 // requested offset
	next      int64 // after the last returned record; 0 before the first
	opened    bool  // the reader has a batch
	done      chan error
}

// take returns the next record, or nil at the end of the answer. It returns an error where the
// answer is broken.
func (p *prefetched) take() (*record.Record, error) {
	for {
		if !p.opened {
			ok, err := p.f.nextBatch()
			if err != nil || !ok {
				return nil, err
			}
			p.opened = true
		}
		if p.f.reader.Next() {
			r := p.f.reader.Record()
			p.f.from = r.Offset + 1
			p.next = p.f.from
			return r, nil
		}
		if err := p.f.reader.Err(); err != nil {
			return nil, err
		}
		p.f.from = max(p.f.from, p.f.base)
		p.opened = false
	}
}

// read hands over one partition from an offset on, until ctx ends or, without Follow, the partition
// does. It retries failed requests for Options.RetryTime.
func (k *Consumer) read(ctx context.Context, partition int32, from int64) error {
	r := reading{c: k.c, topic: k.topic, o: ReadOptions{Partition: partition, Follow: k.o.Follow}, from: from, end: -1}
	r.progress()
	done := make(chan error, 1) // with a buffer, so that Next does not wait for this goroutine
	for ctx.Err() == nil && (k.o.Follow || r.end < 0 || r.from < r.end) {
		before := r.from
		err := k.fetchNext(ctx, &r, done)
		if r.from > before {
			r.progress()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !r.canRetry(ctx, err):
			return err
		case err == nil && r.from == before && !k.o.Follow:
			return nil
		}
	}
	return nil
}

// fetchNext sends one request and waits until Next has consumed the answer.
func (k *Consumer) fetchNext(ctx context.Context, r *reading, done chan error) error {
	o := FetchOptions{Partition: r.o.Partition, Offset: r.from, MaxBytes: k.o.MaxBytes}
	if r.o.Follow {
		o.Wait = followWait
	}
	f, err := k.c.Fetch(ctx, k.topic, o)
	if err != nil {
		return err
	}
	defer f.Close()
	if r.end < 0 {
		r.end = f.NextOffset
	}
	broken := f.load()
	p := &prefetched{partition: r.o.Partition, f: f, from: r.from, done: done}
	select {
	case k.queue <- p:
	case <-ctx.Done():
		return ctx.Err()
	}
	err = <-done
	r.from = f.ResumeOffset()
	if broken != nil && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) {
		// The answer was incomplete even if its records form whole batches, or none.
		err = broken
	}
	return err
}
