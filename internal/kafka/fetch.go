package kafka

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/kafka/conn"
)

// Fetch (1), v4 to v18: committed batches as they are stored, from memory or a file to the socket without a copy in between.
// It waits until there are the bytes that the client wants as least, or for as long as it says. A partition's and the whole
// answer's largest sizes are soft: whole batches are given, at least one (KIP-74). No sessions: one that is asked for is
// answered with session 0, so a client names its partitions each time. There are no transactions, so the last stable offset
// is the high watermark and nothing was aborted; no other replicas to prefer; nothing diverges, as what is committed stays.
// After a trim or a compaction there may be batches that begin before the offset, or hold fewer records than offsets.
var fetchAPI = api{
	key: kmsg.Fetch, min: 4, max: 18,
	shape: conn.Shape{Flexible: 12, Fields: []conn.Field{
		conn.Int32.Until(14), conn.Int32, conn.Int32, conn.Int32, conn.Int8, conn.Int32.Since(7), conn.Int32.Since(7),
		conn.Array(conn.Text.Until(12), conn.UUID.Since(13), conn.Array(
			conn.Int32, conn.Int32.Since(9), conn.Int64, conn.Int32.Since(12), conn.Int64.Since(5), conn.Int32,
		)),
		conn.Array(conn.Text.Until(12), conn.UUID.Since(13), conn.List(conn.Int32)).Since(7),
		conn.Text.Since(11),
		conn.Tagged(1, conn.Int32, conn.Int64),
	}},
	begin: func(c *call, _ context.Context) (conn.Finish, error) { return c.fetch, nil },
}

// fetchWait is the longest that a fetch waits.
const fetchWait = 5 * time.Minute

// fetched is a fetch that is being answered.
type fetched struct {
	*call
	r     *kmsg.FetchRequest
	parts []fetchedPart // in the order of the request
	wants []broker.Want // of those that can be read
	got   *broker.Fetched
}

// fetchedPart is the answer for one partition.
type fetchedPart struct {
	code       int16
	start, end int64
	chunks     []broker.Chunk
}

func (c *call) fetch(ctx context.Context) (conn.Answer, error) {
	r, err := decode[kmsg.FetchRequest](c)
	if err != nil {
		return conn.Answer{}, err
	}
	f := &fetched{call: c, r: r}
	if r.SessionEpoch > 0 {
		r.Topics = nil
		return f.encode(kerr.FetchSessionIDNotFound.Code), nil
	}
	of := f.look()
	if len(f.wants) > 0 {
		if err := f.read(ctx, of); err != nil {
			return conn.Answer{}, err
		}
	}
	return f.encode(none), nil
}

// look finds the partitions and what is wrong with what is asked of them. of are the places in parts of the wants.
func (f *fetched) look() (of []int) {
	for i := range f.r.Topics {
		t := &f.r.Topics[i]
		ref, code := f.find(t)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			part := fetchedPart{code: code, start: -1, end: -1}
			if code == none {
				part.check(f.Server, &ref, p)
			}
			if part.code == none {
				of = append(of, len(f.parts))
				f.wants = append(f.wants, broker.Want{
					Topic: ref.Name, ID: ref.ID, Partition: p.Partition, Offset: p.FetchOffset, MaxBytes: int(max(1, p.PartitionMaxBytes)),
				})
			}
			f.parts = append(f.parts, part)
		}
	}
	return of
}

func (f *fetched) find(t *kmsg.FetchRequestTopic) (broker.TopicRef, int16) {
	if f.version >= 13 {
		if ref, ok := f.b.TopicOf(t.TopicID); ok {
			return ref, none
		}
		return broker.TopicRef{}, kerr.UnknownTopicID.Code
	}
	if ref, ok := f.b.TopicNamed(t.Topic); ok {
		return ref, none
	}
	return broker.TopicRef{}, kerr.UnknownTopicOrPartition.Code
}

func (p *fetchedPart) check(s *Server, ref *broker.TopicRef, ask *kmsg.FetchRequestTopicPartition) {
	bounds, err := s.b.Bounds(ref.ID, ask.Partition)
	if err != nil {
		p.code = readCode(err)
		return
	}
	p.start, p.end = bounds.Start, bounds.Next
	p.code = s.epochCode(ask.CurrentLeaderEpoch)
	if p.code == none && (ask.FetchOffset < bounds.Start || ask.FetchOffset > bounds.Next) {
		p.code = kerr.OffsetOutOfRange.Code
	}
}

// overBudgetWait is how long a fetch waits for memory before it looks again.
const overBudgetWait = 20 * time.Millisecond

// read reads what is wanted. Without memory it tries until the client's wait is over, and then gives nothing: the client asks
// again. An error says that nobody waits for the answer any more.
func (f *fetched) read(ctx context.Context, of []int) error {
	wait := max(0, min(fetchWait, time.Duration(f.r.MaxWaitMillis)*time.Millisecond))
	if len(f.wants) < len(f.parts) {
		wait = 0 // something is wrong that the client should know
	}
	most := int64(max(1, f.r.MaxBytes))
	most = min(most, f.fetchClass.Limit()/2)
	volume := broker.Volume{Min: int(max(0, min(int64(f.r.MinBytes), most))), Max: int(most)}
	until := time.Now().Add(wait)
	for {
		got, err := f.b.FetchWithin(ctx, f.wants, volume, time.Until(until))
		switch {
		case err == nil:
			f.take(got, of)
			return nil
		case errors.Is(err, broker.ErrOverBudget) && time.Until(until) > overBudgetWait:
			select {
			case <-time.After(overBudgetWait):
				continue
			case <-ctx.Done():
			}
		case errors.Is(err, broker.ErrClosed):
			for _, i := range of {
				f.parts[i].code = kerr.NotLeaderForPartition.Code
			}
		}
		return nil // with nothing: the client asks again, or has gone
	}
}

// take takes what was read.
func (f *fetched) take(got *broker.Fetched, of []int) {
	f.got = got
	for n, i := range of {
		in, p := &got.Parts[n], &f.parts[i]
		p.code = readCode(in.Err)
		p.start, p.end, p.chunks = in.Start, max(p.end, in.HighWatermark), in.Chunks
	}
}

// encode makes the answer: what is not data in one buffer, cut where data goes in between.
func (f *fetched) encode(code int16) conn.Answer {
	e := fetchEncoder{version: f.version, flexible: f.api.shape.IsFlexible(f.version)}
	e.b = f.head(make([]byte, 0, 64+64*len(f.parts)))
	e.i32(0) // throttle
	if f.version >= 7 {
		e.i16(code)
		e.i32(0) // session
	}
	e.array(len(f.r.Topics))
	parts := f.parts
	for i := range f.r.Topics {
		t := &f.r.Topics[i]
		if f.version >= 13 {
			e.b = append(e.b, t.TopicID[:]...)
		} else {
			e.text(t.Topic)
		}
		e.array(len(t.Partitions))
		for j := range t.Partitions {
			f.met.read.AddInt64(e.partition(t.Partitions[j].Partition, &parts[j], f.r.IsolationLevel))
		}
		parts = parts[len(t.Partitions):]
		e.noTags()
	}
	e.noTags()
	a := e.answer()
	if f.got != nil {
		a.Release = f.got.Release
	}
	return a
}

// fetchEncoder writes an answer to Fetch, as kmsg does for what is not data.
type fetchEncoder struct {
	version  int16
	flexible bool
	b        []byte
	gaps     []gap
}

// gap is a place in a buffer where data goes in between.
type gap struct {
	at     int
	chunks []broker.Chunk
}

func (e *fetchEncoder) i16(v int16) { e.b = append(e.b, byte(v>>8), byte(v)) }
func (e *fetchEncoder) i32(v int32) { e.b = append(e.b, byte(v>>24), byte(v>>16), byte(v>>8), byte(v)) }
func (e *fetchEncoder) i64(v int64) { e.i32(int32(v >> 32)); e.i32(int32(v)) }

func (e *fetchEncoder) uvarint(v uint32) {
	for ; v >= 0x80; v >>= 7 {
		e.b = append(e.b, byte(v)|0x80)
	}
	e.b = append(e.b, byte(v))
}

func (e *fetchEncoder) array(n int) {
	if e.flexible {
		e.uvarint(uint32(n) + 1)
	} else {
		e.i32(int32(n))
	}
}

func (e *fetchEncoder) text(s string) {
	if e.flexible {
		e.uvarint(uint32(len(s)) + 1)
	} else {
		e.i16(int16(len(s)))
	}
	e.b = append(e.b, s...)
}

func (e *fetchEncoder) noTags() {
	if e.flexible {
		e.b = append(e.b, 0)
	}
}

// partition writes a partition's answer and returns how many bytes of data it has.
func (e *fetchEncoder) partition(number int32, p *fetchedPart, isolation int8) (size int64) {
	if p.code != none {
		p.start, p.end, p.chunks = -1, -1, nil // as Kafka has it
		isolation = 0
	}
	e.i32(number)
	e.i16(p.code)
	e.i64(p.end)
	e.i64(p.end) // last stable offset
	if e.version >= 5 {
		e.i64(p.start)
	}
	const readCommitted = 1
	switch {
	case isolation == readCommitted:
		e.array(0) // nothing was aborted
	case e.flexible:
		e.b = append(e.b, 0) // null
	default:
		e.i32(-1)
	}
	if e.version >= 11 {
		e.i32(-1) // no preferred replica
	}
	chunks := p.chunks
	for i := range chunks {
		if size+chunks[i].Size > math.MaxInt32/2 {
			chunks = chunks[:i]
			break
		}
		size += chunks[i].Size
	}
	e.array(int(size)) // bytes have the length of arrays
	if size > 0 {
		e.gaps = append(e.gaps, gap{len(e.b), chunks})
	}
	e.noTags()
	return size
}

// answer puts the data in between.
func (e *fetchEncoder) answer() conn.Answer {
	if len(e.gaps) == 0 {
		return conn.Answer{Head: e.b}
	}
	a := conn.Answer{Head: e.b[:e.gaps[0].at]}
	for i, g := range e.gaps {
		for j := range g.chunks {
			if s := g.chunks[j].Section; s != nil {
				a.Parts = append(a.Parts, conn.Part{Section: s})
				continue
			}
			for _, b := range g.chunks[j].Parts {
				a.Parts = append(a.Parts, conn.Part{Bytes: b})
			}
		}
		end := len(e.b)
		if i+1 < len(e.gaps) {
			end = e.gaps[i+1].at
		}
		a.Parts = append(a.Parts, conn.Part{Bytes: e.b[g.at:end]})
	}
	return a
}
