package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/record"
)

// ErrGone reports that compaction or a trim has removed the record.
var ErrGone = errors.New("record is gone")

// exactly accepts only the record at one offset. If a later one comes, the record is gone.
type exactly struct {
	encoding.Sink
	offset int64
}

// Take implements encoding.Sink.
func (e *exactly) Take(m *budget.Arena, rec *record.Record, volatile bool) error {
	if rec.Offset != e.offset {
		return ErrGone
	}
	return e.Sink.Take(m, rec, volatile)
}

// One adds the record at Offset to dst, without waiting. It returns ErrGone if the record does not
// exist.
func (g *Reading) One(ctx context.Context, dst encoding.Sink) error {
	g.MaxRecords, g.Timeout, g.one = 1, 0, true
	err := g.Collect(ctx, &exactly{Sink: dst, offset: g.Offset})
	if err == nil && g.Count == 0 || errors.Is(err, broker.ErrBelowStart) {
		return ErrGone
	}
	return err
}

// Memory returns the memory of the answer.
func (g *Reading) Memory() *budget.Arena { return &g.memory }

// RecordID identifies a record of a topic.
type RecordID struct {
	Partition int32
	Offset    int64
}

// fetchedAtOnce bounds the single records per fetch: as many as the broker reads at once.
const fetchedAtOnce = 8

// Records collects single records of one topic into one answer. It belongs to the request's
// goroutine.
type Records struct {
	Topic    string
	BytesMax int64         // of keys and values, but at least one record; 0: only memory bounds
	Timeout  time.Duration // after it Collect returns what it has
	Out      encoding.Text // the collected records
	Memory   budget.Arena  // of Out; the caller releases it

	s            *Source
	count, bytes int64 // of records, and of their keys and values
}

// RecordsOf returns a collector of single records of a topic.
func (s *Source) RecordsOf(topic string, form encoding.TextForm) *Records {
	return &Records{Topic: topic, Out: encoding.Text{Form: form}, Memory: s.newAnswer().memory, s: s}
}

// Collect adds the records with ids, in their order, until there is enough or memory is short. It
// returns how many ids are done, and which of these have no record any more. An error means that
// none is done: a later error only ends the collection.
func (p *Records) Collect(ctx context.Context, ids []RecordID) (done int, gone []int, err error) {
	until := time.Now().Add(p.Timeout)
	for size := fetchedAtOnce; done < len(ids) && (done == 0 || time.Now().Before(until)); {
		n, missing, err := p.fetch(ctx, ids[done:min(done+size, len(ids))])
		for _, i := range missing {
			gone = append(gone, done+i)
		}
		done += n
		switch {
		case err == nil:
		case lacksMemory(err) && (n > 0 || size > 1):
			size = 1 // fewer at a time may fit
		case done > 0:
			return done, gone, nil // the next call starts at the error and reports it
		default:
			return 0, nil, err
		}
	}
	return done, gone, nil
}

// Send answers with the collected records; the headers must be set.
func (p *Records) Send(w http.ResponseWriter) error {
	w.Header().Set("Content-Length", strconv.FormatInt(p.Out.Out.Size, 10))
	p.s.o.Records.AddInt64(p.count)
	p.s.o.Bytes.AddInt64(p.bytes)
	p.s.o.Timeout.ExtendWrite(w)
	w.WriteHeader(http.StatusOK)
	return Sent(p.s.o.Timeout.SendAll(w, &p.Out.Out))
}

// fetch is Collect for as many records as are read at once. With an error it returns what was done
// before it.
func (p *Records) fetch(ctx context.Context, ids []RecordID) (done int, gone []int, err error) {
	wants := make([]broker.Want, len(ids))
	for i, at := range ids {
		wants[i] = broker.Want{Topic: p.Topic, Partition: at.Partition, Offset: at.Offset, MaxBytes: 1}
	}
	f, err := p.s.b.Fetch(ctx, wants, 0, 0)
	if err != nil {
		return 0, nil, err
	}
	defer f.Release()
	for i := range f.Parts {
		switch err := p.one(&f.Parts[i], ids[i]); {
		case errors.Is(err, ErrGone):
			gone = append(gone, i)
		case err != nil:
			return i, gone, err
		}
	}
	return len(ids), gone, nil
}

// one adds a record from the part that was fetched for it.
func (p *Records) one(part *broker.FetchedPart, at RecordID) error {
	switch {
	case errors.Is(part.Err, broker.ErrBelowStart) || part.Err == nil && at.Offset >= part.HighWatermark:
		return ErrGone
	case part.Err != nil:
		return part.Err
	case len(part.Chunks) == 0:
		return state.ErrOverBudget // the fetch omitted it
	}
	g := p.s.New(p.Topic, at.Partition)
	defer g.Done()
	g.Offset, g.MaxRecords = at.Offset, 1
	if err := g.part(part, &exactly{Sink: &single{p, at.Partition}, offset: at.Offset}); err != nil {
		return err
	}
	if g.Count == 0 {
		return ErrGone
	}
	return nil
}

// single is the sink of one record.
type single struct {
	p         *Records
	partition int32
}

// ValuesOnly implements encoding.Sink.
func (d *single) ValuesOnly() bool { return false }

// Take implements encoding.Sink. It takes memory of the answer.
func (d *single) Take(_ *budget.Arena, rec *record.Record, volatile bool) error {
	p, size := d.p, int64(len(rec.Key)+len(rec.Value))
	if p.BytesMax > 0 && p.count > 0 && p.bytes+size > p.BytesMax {
		return encoding.ErrFull
	}
	p.Out.Partition = d.partition
	if err := p.Out.Take(&p.Memory, rec, volatile); err != nil {
		return err
	}
	p.count++
	p.bytes += size
	return nil
}
