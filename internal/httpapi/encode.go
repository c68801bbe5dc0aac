package httpapi

import (
	"slices"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/record"
)

const (
	// groupRecords and groupBytes bound the records that are held decoded, of one request.
	groupRecords = 2048
	groupBytes   = 256 << 10
	// recordOverhead and headerOverhead are above what a record and a header take beside their bytes.
	recordOverhead = 48
	headerOverhead = 12
)

// encoder makes batches from the records of a source, for one partition or spread over all by key. A fault leaves
// nothing behind but buffers of the intake.
type encoder struct {
	in         *intake
	partition  int32 // -1: by key
	partitions int
	codec      record.Compression

	out   map[int32]*encoded
	group int // records in pending
	bytes int // of keys, values and headers in pending
	count int64
}

// encoded is the batches of one partition so far.
type encoded struct {
	partition int32
	buf       []byte // a whole buffer of the intake; nil at first
	n         int    // bytes of batches in it
	sum       record.Summary
	pending   []record.Record
	bound     int // of the bytes that pending becomes
}

// encode reads all of s and returns the batches by partition in ascending order.
func (e *encoder) encode(s source, recordsMax int) ([]*encoded, error) {
	e.out = map[int32]*encoded{}
	for {
		rec, p := s.next()
		if p != nil {
			return nil, atRecord(p, e.count)
		}
		if rec == nil {
			break
		}
		if e.count++; e.count > int64(recordsMax) {
			continue // counted, for the error
		}
		if err := e.add(rec); err != nil {
			return nil, err
		}
	}
	if e.count > int64(recordsMax) {
		return nil, tooLarge("records", int64(recordsMax), e.count)
	}
	if e.count == 0 {
		return nil, badField("body", "no records")
	}
	if err := e.flush(); err != nil {
		return nil, err
	}
	list := make([]*encoded, 0, len(e.out))
	for _, o := range e.out {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *encoded) int { return int(a.partition - b.partition) })
	return list, nil
}

func (e *encoder) add(rec *record.Record) error {
	to := e.partition
	if to < 0 {
		to = partitionOf(rec.Key, e.partitions)
	}
	o := e.out[to]
	if o == nil {
		o = &encoded{partition: to}
		e.out[to] = o
	}
	size := len(rec.Key) + len(rec.Value)
	bound := recordOverhead + size
	for i := range rec.Headers {
		n := len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
		size += n
		bound += headerOverhead + n
	}
	if bound > record.BatchTarget/2 {
		bound += record.BatchHeadSize // it may need a batch of its own
	}
	kept := *rec
	kept.Headers = slices.Clone(rec.Headers)
	o.pending = append(o.pending, kept)
	o.bound += bound
	e.group++
	if e.bytes += bound; e.group >= groupRecords || e.bytes >= groupBytes {
		return e.flush()
	}
	return nil
}

// flush encodes what is pending.
func (e *encoder) flush() error {
	for _, o := range e.out {
		if len(o.pending) == 0 {
			continue
		}
		if err := e.encodePending(o); err != nil {
			return err
		}
	}
	e.group, e.bytes = 0, 0
	return nil
}

func (e *encoder) encodePending(o *encoded) error {
	// No two batches in a row are under half the target together, so these heads are enough for the small records.
	need := o.n + o.bound + record.BatchHeadSize*(2+2*o.bound/record.BatchTarget)
	if e.codec != record.None { // what can not be compressed grows a little; it is encoded plain first
		need += o.bound/32 + 1<<10
		if err := e.in.need(int64(o.bound)); err != nil {
			return err
		}
	}
	if need > cap(o.buf) {
		size := max(need, min(2*cap(o.buf), need+record.BatchTarget))
		larger, err := e.in.get(size)
		if err != nil {
			return err
		}
		copy(larger, o.buf[:o.n])
		if o.buf != nil {
			e.in.put(o.buf)
		}
		o.buf = larger
	}
	out, sum, err := record.Append(o.buf[:o.n], o.pending, record.EncodeOptions{Compression: e.codec})
	if err != nil {
		return badField("body", "%v", err)
	}
	if len(out) > 0 && &out[0] != &o.buf[:1][0] {
		return newProblem(api.Internal, "batches of %d bytes where %d were expected", len(out), need)
	}
	o.n = len(out)
	o.sum = addSummary(o.sum, sum)
	clear(o.pending)
	o.pending, o.bound = o.pending[:0], 0
	return nil
}

// addSummary is the summary of a's batches followed by b's.
func addSummary(a, b record.Summary) record.Summary {
	if a.Batches == 0 {
		return b
	}
	a.Batches += b.Batches
	a.Records += b.Records
	a.Span += b.Span
	a.MinTimestamp = min(a.MinTimestamp, b.MinTimestamp)
	a.MaxTimestamp = max(a.MaxTimestamp, b.MaxTimestamp)
	return a
}
