package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
	"github.com/sebbroker/seb/record"
)

// Fetch (1), v4 to v18: committed batches as stored, sent from memory or a file to the socket
// without a copy. A fetch waits for the client's minimum of bytes, up to its maximum time. The
// maximum sizes of a partition and of the answer are soft: the answer has whole batches, at least
// one (KIP-74).
//
// There are no fetch sessions: the answer to a request for one has session 0, so clients name their
// partitions each time. There are no preferred replicas, and logs do not diverge. After a trim or a
// compaction a batch may begin before the fetch offset, or hold fewer records than offsets.
//
// With isolation level 1, read_committed, an answer ends at the last stable offset, and names the aborted
// transactions with batches in it, by first offset. Clients leave those batches out.
//
// A standby serves committed records from v11 on, while its state is at most 5 s old, to clients whose
// leader epoch is current. Otherwise, and when it leaves, it answers NOT_LEADER_OR_FOLLOWER, from v16
// on with the leader and its address (KIP-951). An offset above its end waits, because the leader may
// have the record: OFFSET_OUT_OF_RANGE would make the consumer reset its offset.
var _ = register(api{
	key: kmsg.Fetch, min: 4, max: 18,
	shape: wire.Shape{Flexible: 12, Fields: []wire.Field{
		wire.Int32.Until(14), wire.Int32, wire.Int32, wire.Int32, wire.Int8, wire.Int32.Since(7), wire.Int32.Since(7),
		wire.Array(wire.Text.Until(12), wire.UUID.Since(13), wire.Array(
			wire.Int32, wire.Int32.Since(9), wire.Int64, wire.Int32.Since(12), wire.Int64.Since(5), wire.Int32,
		)),
		wire.Array(wire.Text.Until(12), wire.UUID.Since(13), wire.List(wire.Int32)).Since(7),
		wire.Text.Since(11),
		wire.Tagged(1, wire.Int32, wire.Int64),
	}},
	begin: func(c *call, _ context.Context) (framed.Finish, error) {
		c.noteExpectsLeader()
		return c.fetch, nil
	},
})

// fetchWait bounds the wait of a fetch.
const fetchWait = 5 * time.Minute

// fetchCall is a fetch in progress.
type fetchCall struct {
	*call
	r     *kmsg.FetchRequest
	parts []partitionFetch // in the order of the request
	wants []broker.Want    // of the readable partitions
	got   *broker.Fetched

	standby bool   // another broker leads
	end     *bool  // what knowsEnd has found out
	leader  *nodes // named to the client; nil: none
}

// partitionFetch is the answer for one partition.
type partitionFetch struct {
	code       int16
	start, end int64
	stable     int64 // last stable offset
	aborted    []state.AbortedTransaction
	chunks     []broker.Chunk
}

func (c *call) fetch(ctx context.Context) (framed.Answer, error) {
	r, err := decode[kmsg.FetchRequest](c)
	if err != nil {
		return framed.Answer{}, err
	}
	f := &fetchCall{call: c, r: r, standby: c.standsBy() || c.brokerLeaves()}
	if r.SessionEpoch > 0 {
		r.Topics = nil
		return f.encode(kerr.FetchSessionIDNotFound.Code), nil
	}
	readable := f.resolve(ctx)
	if len(f.wants) > 0 {
		if err := f.read(ctx, readable); err != nil {
			return framed.Answer{}, err
		}
	}
	if slices.ContainsFunc(f.parts, partitionFetch.elsewhere) {
		f.leader = f.nextLeader(ctx)
		f.noteLeaderNamed()
	}
	return f.encode(none), nil
}

// resolve finds the partitions and checks the request for each. readable holds the indexes in parts
// of the wants.
func (f *fetchCall) resolve(ctx context.Context) (readable []int) {
	isolation := broker.Raw
	if f.r.IsolationLevel == readCommitted {
		isolation = broker.RawCommitted
	}
	refused := f.standby && (f.version < followerVersion || f.brokerLeaves() || !f.current(ctx))
	for i := range f.r.Topics {
		t := &f.r.Topics[i]
		ref, code := f.find(t)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			part := partitionFetch{code: code, start: -1, end: -1, stable: -1}
			switch {
			case code == none && refused:
				part.code = kerr.NotLeaderForPartition.Code
			case code == none:
				f.check(ctx, &part, &ref, p)
			}
			if part.code == none {
				readable = append(readable, len(f.parts))
				f.wants = append(f.wants, broker.Want{
					Topic: ref.Name, ID: ref.ID, Partition: p.Partition, Offset: p.FetchOffset, MaxBytes: int(max(1, p.PartitionMaxBytes)), Isolation: isolation,
				})
			}
			f.parts = append(f.parts, part)
		}
	}
	return readable
}

func (f *fetchCall) find(t *kmsg.FetchRequestTopic) (broker.TopicRef, int16) {
	if f.version >= 13 {
		return f.topicOf(t.TopicID, access.Read)
	}
	return f.topicNamed(t.Topic, access.Read)
}

// check checks the offset and the leader epoch of a request.
func (f *fetchCall) check(ctx context.Context, p *partitionFetch, ref *broker.TopicRef, ask *kmsg.FetchRequestTopicPartition) {
	bounds, err := f.b.Bounds(ref.ID, ask.Partition)
	beyond := err == nil && ask.FetchOffset > bounds.Next && f.knowsEnd(ctx)
	if beyond && f.b.Follows() {
		bounds, err = f.b.Bounds(ref.ID, ask.Partition)
		beyond = ask.FetchOffset > bounds.Next
	}
	if err != nil {
		p.code = ReadCode(err)
		return
	}
	p.start, p.end, p.stable = bounds.Start, bounds.Next, bounds.Stable
	if p.code = f.epochCode(ask.CurrentLeaderEpoch); p.code == kerr.FencedLeaderEpoch.Code && f.standby {
		p.code = kerr.NotLeaderForPartition.Code // after which every client goes to the leader that is named
	}
	if p.code == none && (ask.FetchOffset < bounds.Start || beyond) {
		p.code = kerr.OffsetOutOfRange.Code
	}
}

// knowsEnd reports whether no leader has committed more than this broker knows. It looks for the end of
// the log after the client had the offset; a standby leaves that to the leader.
func (f *fetchCall) knowsEnd(ctx context.Context) bool {
	if f.standby {
		return false
	}
	if f.end == nil {
		known := f.endConfirmed(ctx)
		f.end = &known
	}
	return *f.end
}

// endConfirmed reports whether this broker knows the end of the log, and no other one leads.
func (c *call) endConfirmed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, standbyWait)
	defer cancel()
	return c.b.ConfirmEnd(ctx) == nil && !c.standsBy()
}

// overBudgetWait is the time between attempts of a fetch without memory.
const overBudgetWait = 20 * time.Millisecond

// read reads the wants. Without memory it retries until the client's wait is over, and then returns
// no data: the client fetches again. An error means that the client is gone.
func (f *fetchCall) read(ctx context.Context, readable []int) error {
	wait := max(0, min(fetchWait, time.Duration(f.r.MaxWaitMillis)*time.Millisecond))
	if len(f.wants) < len(f.parts) { // report the error at once
		wait = 0 // something is wrong that the client should know
	}
	limit := int64(max(1, f.r.MaxBytes))
	limit = min(limit, f.fetchClass.Limit()/2)
	if rate := f.who.Meter().Limit(auth.Fetched); rate > 0 {
		limit = min(limit, int64(rate)*fetchSeconds)
	}
	volume := broker.Volume{Min: int(max(0, min(int64(f.r.MinBytes), limit))), Max: int(limit)}
	until := time.Now().Add(wait)
	waits, end := f.untilLeave(ctx)
	defer end()
	for {
		got, err := f.b.FetchWithin(waits, f.wants, volume, time.Until(until))
		switch {
		case err == nil:
			f.store(got, readable)
			return nil
		case errors.Is(err, state.ErrOverBudget) && time.Until(until) > overBudgetWait:
			if pause.Wait(ctx, overBudgetWait) == nil {
				continue
			}
		case errors.Is(err, broker.ErrClosed), f.brokerLeaves():
			for _, i := range readable {
				f.parts[i].code = kerr.NotLeaderForPartition.Code
			}
		}
		return nil // no data: the client fetches again, or is gone
	}
}

// fetchSeconds bounds the data of an answer to a client with a quota: to that of some seconds, as in
// Kafka.
const fetchSeconds = 10

const (
	// readCommitted is the isolation level that ends at the last stable offset.
	readCommitted = 1
	// followerVersion is the first version that reads from followers (KIP-392).
	followerVersion = 11
	// endpointVersion is the first version whose answer names the leader (KIP-951).
	endpointVersion = 16
)

// store stores the data that was read. The right to read may have ended during the wait.
func (f *fetchCall) store(got *broker.Fetched, readable []int) {
	f.got = got
	for n, i := range readable {
		in, p := &got.Parts[n], &f.parts[i]
		if p.code = ReadCode(in.Err); !f.may(access.Read, access.Topic, f.wants[n].Topic) {
			p.code = kerr.TopicAuthorizationFailed.Code
		}
		p.start, p.end, p.stable, p.aborted, p.chunks = in.Start, max(p.end, in.HighWatermark), max(p.stable, in.LastStable), in.Aborted, in.Chunks
		if len(p.chunks) == 1 && p.chunks[0].Size == 0 { // a recovery has skipped the offsets
			p.chunks = []broker.Chunk{emptyBatch(p.chunks[0].End - 1)}
		}
	}
}

// emptyBatch is a batch without records at an offset. With it a client reaches the end of a partition of which a
// recovery has skipped the last offsets. Kafka Streams and Kafka Connect wait for that when they start.
func emptyBatch(offset int64) broker.Chunk {
	b, _, err := record.Append(nil, make([]record.Record, 1), record.EncodeOptions{})
	if err == nil {
		b, _, err = new(record.Compactor).Append(nil, b, func(*record.CompactEntry) bool { return false })
	}
	if err != nil {
		panic(fmt.Sprintf("kafka: an empty batch: %v", err))
	}
	record.Patch(b, offset, -1)
	return broker.Chunk{Size: int64(len(b)), Parts: [][]byte{b}}
}

// encode builds the answer: everything except data in one buffer, cut at the positions of data.
func (f *fetchCall) encode(code int16) framed.Answer {
	e := fetchEncoder{version: f.version, flexible: f.api.shape.IsFlexible(f.version)}
	if f.version >= endpointVersion {
		e.leader = f.leader
	}
	e.b = f.head(make([]byte, 0, 64+64*len(f.parts)))
	throttle := len(e.b)
	e.i32(0)
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
	e.endpoints()
	a := e.answer()
	if f.got != nil {
		a.Release = f.got.Release
	}
	f.who.Meter().Use(auth.Fetched, a.Size())
	binary.BigEndian.PutUint32(a.Head[throttle:], uint32(f.throttle()))
	return a
}

// fetchEncoder encodes an answer to Fetch like kmsg, without the data.
type fetchEncoder struct {
	version  int16
	flexible bool
	leader   *nodes // named to clients of partitions that are elsewhere; nil: none
	b        []byte
	gaps     []gap
}

// gap is the position of data in the buffer.
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

// elsewhere reports whether the client should ask the leader.
func (p partitionFetch) elsewhere() bool {
	return p.code == kerr.NotLeaderForPartition.Code || p.code == kerr.FencedLeaderEpoch.Code
}

// tag begins the only tagged field of a struct, with the size of its value.
func (e *fetchEncoder) tag(number byte, size int) {
	e.b = append(e.b, 1, number)
	e.uvarint(uint32(size))
}

// endpoints encodes the tagged fields of the answer: the address of the leader.
func (e *fetchEncoder) endpoints() {
	if e.leader == nil {
		e.noTags()
		return
	}
	at := e.leader.leader
	v := fetchEncoder{flexible: true}
	v.array(1)
	v.i32(at.id)
	v.text(at.host)
	v.i32(at.port)
	v.b = append(v.b, 0) // no rack
	v.noTags()
	e.tag(0, len(v.b))
	e.b = append(e.b, v.b...)
}

// partition encodes a partition's answer and returns the size of its data.
func (e *fetchEncoder) partition(number int32, p *partitionFetch, isolation int8) (size int64) {
	if p.code != none {
		p.start, p.end, p.stable, p.chunks = -1, -1, -1, nil // as in Kafka
		isolation = 0
	}
	e.i32(number)
	e.i16(p.code)
	e.i64(p.end)
	e.i64(p.stable)
	if e.version >= 5 {
		e.i64(p.start)
	}
	switch {
	case isolation == readCommitted:
		e.aborted(p.aborted)
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
	e.array(int(size)) // bytes are encoded like arrays
	if size > 0 {
		e.gaps = append(e.gaps, gap{len(e.b), chunks})
	}
	if e.leader == nil || !p.elsewhere() {
		e.noTags()
		return size
	}
	const currentLeader, currentLeaderSize = 1, 9
	e.tag(currentLeader, currentLeaderSize)
	e.i32(e.leader.leader.id)
	e.i32(e.leader.epoch)
	e.noTags()
	return size
}

// aborted encodes aborted transactions.
func (e *fetchEncoder) aborted(list []state.AbortedTransaction) {
	e.array(len(list))
	for _, a := range list {
		e.i64(a.Producer)
		e.i64(a.First)
		e.noTags()
	}
}

// answer joins the buffer and the data.
func (e *fetchEncoder) answer() framed.Answer {
	if len(e.gaps) == 0 {
		return framed.Answer{Head: e.b}
	}
	a := framed.Answer{Head: e.b[:e.gaps[0].at]}
	for i, g := range e.gaps {
		for j := range g.chunks {
			if s := g.chunks[j].Section; s != nil {
				a.Parts = append(a.Parts, framed.Part{Section: s})
				continue
			}
			for _, b := range g.chunks[j].Parts {
				a.Parts = append(a.Parts, framed.Part{Bytes: b})
			}
		}
		end := len(e.b)
		if i+1 < len(e.gaps) {
			end = e.gaps[i+1].at
		}
		a.Parts = append(a.Parts, framed.Part{Bytes: e.b[g.at:end]})
	}
	return a
}
