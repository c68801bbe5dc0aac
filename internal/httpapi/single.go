package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/record"
)

// ErrGone: the record at an offset is not there any more, as compaction or a trim took it.
var ErrGone = errors.New("record is gone")

// exactly passes on the record at one offset. The next one in its place means that it is gone.
type exactly struct {
	encoding.Sink
	offset int64
}

// Take is part of encoding.Sink.
func (e *exactly) Take(m *budget.Arena, rec *record.Record, volatile bool) error {
	if rec.Offset != e.offset {
		return ErrGone
	}
	return e.Sink.Take(m, rec, volatile)
}

// One gives the record at Offset to dst, and does not wait for it. ErrGone if it is not there.
func (g *Reading) One(ctx context.Context, dst encoding.Sink) error {
	g.MaxRecords, g.Timeout = 1, 0
	err := g.Collect(ctx, &exactly{Sink: dst, offset: g.Offset})
	if err == nil && g.Count == 0 || errors.Is(err, broker.ErrBelowStart) {
		return ErrGone
	}
	return err
}

// Memory is what the answer is collected in.
func (g *Reading) Memory() *budget.Arena { return &g.memory }

// Place is where a record of a topic is.
type Place struct {
	Partition int32
	Offset    int64
}

// placesAtOnce is how many single records are asked for at a time: as many as the broker reads at
// once.
const placesAtOnce = 8

// Places collects records of one topic that lie apart into one answer. It belongs to the request's
// goroutine.
type Places struct {
	Topic    string
	BytesMax int64         // of keys and values, but at least one record; 0: no bound but memory
	Timeout  time.Duration // how long Collect goes on; what it has by then is enough
	Out      encoding.Text // what was collected
	Memory   budget.Arena  // that of Out, for the caller to release

	s            *Source
	count, bytes int64 // of records, of their keys and values
}

// Places returns a collection of single records of a topic in a form.
func (s *Source) Places(topic string, form encoding.TextForm) *Places {
	return &Places{Topic: topic, Out: encoding.Text{Form: form}, Memory: s.newAnswer().memory, s: s}
}

// Collect adds the records at places, in their order, until there is enough or memory is short. It
// returns how many of the places it has come past, and which of these hold no record any more. An
// error means that it has come past none: later ones end the collection.
func (p *Places) Collect(ctx context.Context, places []Place) (done int, gone []int, err error) {
	until := time.Now().Add(p.Timeout)
	for size := placesAtOnce; done < len(places) && (done == 0 || time.Now().Before(until)); {
		n, missing, err := p.some(ctx, places[done:min(done+size, len(places))])
		for _, i := range missing {
			gone = append(gone, done+i)
		}
		done += n
		switch {
		case err == nil:
		case lacksMemory(err) && (n > 0 || size > 1):
			size = 1 // fewer at a time may fit
		case done > 0:
			return done, gone, nil // whoever goes on meets it first, and hears of it
		default:
			return 0, nil, err
		}
	}
	return done, gone, nil
}

// Send answers with what was collected; the headers are set.
func (p *Places) Send(w http.ResponseWriter) error {
	w.Header().Set("Content-Length", strconv.FormatInt(p.Out.Out.Size, 10))
	p.s.o.Records.AddInt64(p.count)
	p.s.o.Bytes.AddInt64(p.bytes)
	p.s.o.Pace.ExtendWrite(w)
	w.WriteHeader(http.StatusOK)
	return Sent(p.s.o.Pace.SendAll(w, &p.Out.Out))
}

// some is Collect for as many places as are read at once. An error comes with what was done before
// it.
func (p *Places) some(ctx context.Context, places []Place) (done int, gone []int, err error) {
	wants := make([]broker.Want, len(places))
	for i, at := range places {
		wants[i] = broker.Want{Topic: p.Topic, Partition: at.Partition, Offset: at.Offset, MaxBytes: 1} // its batch alone
	}
	f, err := p.s.b.Fetch(ctx, wants, 0, 0)
	if err != nil {
		return 0, nil, err
	}
	defer f.Release()
	for i := range f.Parts {
		switch err := p.one(&f.Parts[i], places[i]); {
		case errors.Is(err, ErrGone):
			gone = append(gone, i)
		case err != nil:
			return i, gone, err
		}
	}
	return len(places), gone, nil
}

// one adds the record of a place from the part that was fetched for it.
func (p *Places) one(part *broker.FetchedPart, at Place) error {
	switch {
	case errors.Is(part.Err, broker.ErrBelowStart) || part.Err == nil && at.Offset >= part.HighWatermark:
		return ErrGone
	case part.Err != nil:
		return part.Err
	case len(part.Chunks) == 0:
		return broker.ErrOverBudget // it was left out
	}
	g := p.s.New(p.Topic, at.Partition)
	defer g.Done()
	g.Offset, g.MaxRecords = at.Offset, 1
	if err := g.part(part, &exactly{Sink: &placed{p, at.Partition}, offset: at.Offset}); err != nil {
		return err
	}
	if g.Count == 0 {
		return ErrGone
	}
	return nil
}

// placed is the sink of one place.
type placed struct {
	p         *Places
	partition int32
}

// ValuesOnly is part of encoding.Sink.
func (d *placed) ValuesOnly() bool { return false }

// Take is part of encoding.Sink. The answer's memory is not that of the record.
func (d *placed) Take(_ *budget.Arena, rec *record.Record, volatile bool) error {
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
