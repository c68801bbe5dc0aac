package httpapi

import (
	"io"
	"slices"
	"sync"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// The encodings of a produce request's body. Each function reads the body and calls add.

// framing is the reusable state for reading values directly into batches.
type framing struct {
	parts encoding.MultipartReader
	sizes encoding.Sizes
	frame record.Frame
}

var framings = sync.Pool{New: func() any { return new(framing) }}

// done returns f to its pool. It drops references to the input and to the buffer.
func (f *framing) done() {
	f.parts.R, f.frame = nil, record.Frame{}
	framings.Put(f)
}

// multipart reads lengths, then the records directly into a batch.
func (p *producing) multipart() error {
	if fault := encoding.CheckBoundary(p.boundary); fault != nil {
		return fault
	}
	br, err := p.in.Buffered()
	if err != nil {
		return err
	}
	defer p.in.GiveBack(br)
	f := framings.Get().(*framing)
	defer f.done()
	m, s := &f.parts, &f.sizes
	m.Reset(br, p.boundary)
	s.Reset(p.a.o.RecordsMax, p.in.Memory.Need)
	if err := m.ReadSizes(s); err != nil {
		return httpconn.ReadFault(err)
	}
	switch {
	case s.Count == 0:
		return problem.BadField("sizes", "no records")
	case s.Count > int64(s.Max):
		return problem.OverLimit("records", int64(s.Max), s.Count)
	case s.Sum > p.a.requestMax:
		return problem.OverLimit("body", p.a.requestMax, s.Sum)
	case p.settings.Codec() == record.None:
		err = p.checkSize(slices.Max(s.Lengths))
	default:
		err = p.checkCopied(s.Sum)
	}
	if err != nil {
		return err
	}
	data, err := p.frame(f, m.R)
	if err != nil {
		return httpconn.ReadFault(encoding.Ended(err, problem.BadField("records", "the part is shorter than %d bytes, the sum of the sizes", s.Sum)))
	}
	if err := m.End(s.Sum); err != nil {
		return httpconn.ReadFault(err)
	}
	return p.framed(f, data)
}

// frame reads values of f.sizes from r.
func (p *producing) frame(f *framing, r io.Reader) ([]byte, error) {
	sizes := f.sizes.Lengths
	n := record.FrameLen(sizes)
	if err := p.in.Memory.Need(int64(budget.SizeFor(n)) + 4*int64(cap(sizes))); err != nil {
		return nil, err
	}
	buf, err := p.in.Memory.Get(n)
	if err != nil {
		return nil, err
	}
	if err := f.frame.Reset(sizes, p.now.UnixMilli(), buf); err != nil {
		return nil, err
	}
	_, err = f.frame.ReadFrom(r)
	return buf, err
}

// framed adds the batches of a finished frame, compressed or smaller if the topic requires that.
func (p *producing) framed(f *framing, buf []byte) error {
	data, sum, err := f.frame.Finish()
	if err != nil {
		return err
	}
	if p.settings.Codec() == record.None && p.settings.MaxBatchBytes >= record.BatchTarget {
		p.add(p.target(), data, sum, false)
		return nil
	}
	if err := p.encode(encoding.NewBatches(data)); err != nil {
		return err
	}
	p.in.Memory.Put(buf)
	return nil
}

// octets reads one record.
func (p *producing) octets() error {
	f := framings.Get().(*framing)
	defer f.done()
	f.sizes.Reset(1, nil)
	if n := p.in.R.ContentLength; n > 0 {
		f.sizes.Lengths = append(f.sizes.Lengths, uint32(n))
		buf, err := p.frame(f, &p.in)
		if err == nil {
			err = p.in.End()
		}
		if err != nil {
			return httpconn.ReadFault(err)
		}
		return p.framed(f, buf)
	}
	body, err := p.in.ReadAll()
	if err != nil {
		return err
	}
	defer p.in.Memory.Put(body)
	return p.encode(&encoding.One{Record: record.Record{Timestamp: p.now.UnixMilli(), Value: body}})
}

func (p *producing) lines() error {
	return p.decoded(func(b []byte) encoding.Source { return encoding.NewLines(b, p.now.UnixMilli()) })
}

func (p *producing) ndjson() error {
	return p.decoded(func(b []byte) encoding.Source { return encoding.NewNDJSON(b, p.now.UnixMilli()) })
}

func (p *producing) json() error {
	return p.decoded(func(b []byte) encoding.Source { return encoding.NewJSON(b, p.now.UnixMilli()) })
}

// decoded reads the whole body and encodes its records.
func (p *producing) decoded(open func([]byte) encoding.Source) error {
	body, err := p.in.ReadAll()
	if err != nil {
		return err
	}
	defer p.in.Memory.Put(body)
	return p.encode(open(body))
}

// encode makes appends of the records of s.
func (p *producing) encode(s encoding.Source) error {
	e := encoding.Encoder{
		Memory: &p.in.Memory, Partition: p.partition, Partitions: p.partitions, Codec: p.settings.Codec(), RecordsMax: p.a.o.RecordsMax,
		BatchBytes: p.settings.MaxBatchBytes,
	}
	list, err := e.Encode(s)
	if err != nil {
		return err
	}
	for _, o := range list {
		p.add(o.Partition, o.Data, o.Summary, false)
	}
	return nil
}

// batches accepts RecordBatches unchanged.
func (p *producing) batches() error {
	body, err := p.in.ReadAll()
	if err != nil {
		return err
	}
	sum, err := record.Check(body, record.Limits{BatchBytes: p.settings.MaxBatchBytes, DecompressedBytes: p.a.requestMax})
	if err != nil {
		return err
	}
	to, err := p.batchTarget(body)
	if err != nil {
		return err
	}
	p.add(to, body, sum, true)
	return nil
}

// batchTarget returns the partition of batches. They are not split, so without partition= all
// records must belong to one.
func (p *producing) batchTarget(body []byte) (int32, error) {
	if p.partition >= 0 || p.partitions == 1 {
		return p.target(), nil
	}
	var r record.Reader
	r.Limits.DecompressedBytes = p.a.requestMax
	to := int32(-1)
	// The client's offsets are arbitrary and would count as corruption.
	record.Patch(body, 0, 0)
	for r.Reset(body, 0); r.Next(); {
		at := record.PartitionOf(r.Record().Key, p.partitions)
		if to >= 0 && at != to {
			return 0, problem.BadField(httpconn.ParamPartition, "required: the keys of these batches belong to several of the topic's %d partitions", p.partitions)
		}
		to = at
	}
	return to, r.Err()
}
