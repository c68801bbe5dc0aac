package encoding

import (
	"cmp"
	"slices"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

const (
	// groupRecords and groupBytes bound the decoded records of one request.
	groupRecords = 2048
	groupBytes   = 256 << 10
	// recordOverhead and headerOverhead bound the memory of a record and of a header in addition to
	// their bytes.
	recordOverhead = 48
	headerOverhead = 12
)

// Encoder makes batches from the records of a source, for one partition or distributed by key.
// After a fault only buffers of the memory remain.
type Encoder struct {
	Memory     *budget.Arena
	Partition  int32 // -1: by key
	Partitions int
	Codec      record.Compression
	BatchBytes int // record.EncodeOptions.BatchBytes
	RecordsMax int // largest number of records

	out   map[int32]*Encoded
	group int // records in pending
	bytes int // of keys, values and headers in pending
	count int64

	headers []record.Header // of the records in pending
}

// Encoded holds the batches of one partition.
type Encoded struct {
	Partition int32
	Data      []byte // the start of a buffer of the memory
	Summary   record.Summary

	pending []record.Record
	bound   int // of the encoded size of pending
}

// Encode reads all of s and returns the batches in ascending order of partition.
func (e *Encoder) Encode(s Source) ([]*Encoded, error) {
	e.out = map[int32]*Encoded{}
	for {
		rec, p := s.Next()
		if p != nil {
			return nil, problem.AtRecord(p, e.count)
		}
		if rec == nil {
			break
		}
		if e.count++; e.count > int64(e.RecordsMax) {
			continue // counted for the error
		}
		if err := e.add(rec); err != nil {
			return nil, err
		}
	}
	if e.count > int64(e.RecordsMax) {
		return nil, problem.OverLimit("records", int64(e.RecordsMax), e.count)
	}
	if e.count == 0 {
		return nil, problem.BadField("body", "no records")
	}
	if err := e.flush(); err != nil {
		return nil, err
	}
	list := make([]*Encoded, 0, len(e.out))
	for _, o := range e.out {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *Encoded) int { return int(a.Partition - b.Partition) })
	return list, nil
}

func (e *Encoder) add(rec *record.Record) error {
	to := e.Partition
	if to < 0 {
		to = record.PartitionOf(rec.Key, e.Partitions)
	}
	o := e.out[to]
	if o == nil {
		o = &Encoded{Partition: to}
		e.out[to] = o
	}
	bound := recordOverhead + len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		bound += headerOverhead + len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	if bound > record.BatchTarget/2 { // a separate batch, see tooDense
		bound += record.BatchHeadSize
		if err := e.flush(); err != nil {
			return err
		}
	}
	kept := *rec
	if n := len(e.headers); len(rec.Headers) > 0 {
		e.headers = append(e.headers, rec.Headers...)
		kept.Headers = e.headers[n:len(e.headers):len(e.headers)]
	}
	o.pending = append(o.pending, kept)
	o.bound += bound
	e.group++
	if e.bytes += bound; e.group >= groupRecords || e.bytes >= groupBytes {
		return e.flush()
	}
	return nil
}

// flush encodes the pending records.
func (e *Encoder) flush() error {
	for _, o := range e.out {
		if len(o.pending) == 0 {
			continue
		}
		if err := e.encodePending(o); err != nil {
			return err
		}
	}
	clear(e.headers)
	e.group, e.bytes, e.headers = 0, 0, e.headers[:0]
	return nil
}

func (e *Encoder) encodePending(o *Encoded) error {
	// Any two consecutive batches together reach half the target, so the heads in this bound are
	// enough.
	most := cmp.Or(min(e.BatchBytes, record.BatchTarget), record.BatchTarget)
	heads := min(len(o.pending), 2+2*o.bound/max(1, most-record.BatchHeadSize))
	need := len(o.Data) + o.bound + record.BatchHeadSize*heads
	// Incompressible data grows a little, and records are encoded uncompressed first.
	if e.Codec != record.None {
		need += o.bound/32 + 1<<10
		if err := e.Memory.Need(int64(o.bound)); err != nil {
			return err
		}
	}
	if need > cap(o.Data) {
		larger, err := e.Memory.Grow(o.Data, len(o.Data), max(need, min(2*cap(o.Data), need+record.BatchTarget)))
		if err != nil {
			return err
		}
		o.Data = larger[:len(o.Data)]
	}
	out, sum, err := record.Append(o.Data, o.pending, record.EncodeOptions{Compression: e.Codec, BatchBytes: most})
	if err == nil && tooDense(o.bound, len(out)-len(o.Data)) {
		out, sum, err = record.Append(o.Data, o.pending, record.EncodeOptions{BatchBytes: most})
	}
	if err != nil {
		return problem.BadField("body", "%v", err)
	}
	if len(out) > 0 && &out[0] != &o.Data[:1][0] {
		return problem.New(api.Internal, "batches of %d bytes, expected at most %d", len(out), need)
	}
	o.Data = out
	o.Summary = addSummary(o.Summary, sum)
	clear(o.pending)
	o.pending, o.bound = o.pending[:0], 0
	return nil
}

// tooDense reports whether readers could take a batch for a decompression bomb, because its ratio
// is too high.
func tooDense(plain, compressed int) bool {
	return plain > record.RatioExemptBytes/2 && plain/record.DefaultRatio*2 > compressed
}

// addSummary returns the summary of a's batches followed by b's.
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
