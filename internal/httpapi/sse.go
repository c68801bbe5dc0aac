package httpapi

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
)

// streamRecords bounds the records of one turn of an event stream.
const streamRecords = 1024

// follow answers with an event stream: each record is an event whose id is its offset. The stream
// lasts as long as the client, the broker, max-records and timeout allow. Last-Event-ID resumes
// after that offset and overrides other parameters.
func (a *API) follow(w http.ResponseWriter, r *http.Request, q *httpconn.Params, g *Reading) error {
	if isNewest(q) {
		q.Fail(httpconn.ParamOrder, "%s: not with %s, which follows the partition", newestFirst, api.EventStream)
	}
	s := &stream{a: a, Reading: g, w: w, form: encoding.Events, collect: g.collectText}
	start := func() error { return g.Confirm(r, true) }
	if asksForAll(q) {
		all := &topicStream{Reading: g}
		all.beginAll(q, r)
		s.form, s.collect, s.all = encoding.TopicEvents, all.collect, all
		start = func() error { return all.confirm(r.Context()) }
	} else if last, given := lastEventID(q, r); given {
		g.Offset = last + 1
	} else {
		g.Begin(q)
	}
	s.left = q.Number(httpconn.ParamMaxRecords, math.MaxInt64, math.MaxInt64)
	if s.left == 0 {
		s.left = math.MaxInt64 // as in other encodings: 0 is the default
	}
	g.MaxBytes = g.by.fetchBound(q.Number(httpconn.ParamMaxBytes, 256<<10, math.MaxInt64)) // of one turn
	g.ValueMax = valueMax(q)
	life := q.Duration(httpconn.ParamTimeout, math.MaxInt64, math.MaxInt64)
	if q.Fault != nil {
		return q.Fault
	}
	if err := start(); err != nil {
		return err
	}
	s.ends, s.forever = time.Now().Add(life), life == math.MaxInt64
	return s.run(r)
}

// collectText is Collect for a stream.
func (g *Reading) collectText(ctx context.Context, dst *encoding.Text) error {
	return g.Collect(ctx, dst)
}

// lastEventID reads the offset of the last event that a client has.
func lastEventID(q *httpconn.Params, r *http.Request) (offset int64, given bool) {
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < 0 || n == math.MaxInt64 {
		q.Fail("Last-Event-ID", "want an offset, given %s", problem.Quote(last))
	}
	return n, true
}

// stream is one event stream.
type stream struct {
	*Reading
	a       *API
	form    encoding.TextForm
	collect func(ctx context.Context, dst *encoding.Text) error // one turn
	all     *topicStream                                        // nil: of one partition
	w       http.ResponseWriter
	left    int64 // records to be sent
	ends    time.Time
	forever bool
	started bool
}

func (s *stream) run(r *http.Request) error {
	defer s.Done()
	ctx, stop := s.by.until(r.Context())
	defer stop()
	for first := true; s.next(r); first = false {
		s.throttle(ctx)
		s.Again(min(s.left, streamRecords))
		if s.scan != nil {
			s.scan.beginTurn(first)
		}
		t := &encoding.Text{Form: s.form, ValueMax: s.ValueMax}
		err := s.collect(ctx, t)
		s.charge()
		if err != nil {
			if !s.started {
				return err
			}
			if lost := s.by.check(); lost != nil {
				return Sent(s.fail(lost))
			}
			if r.Context().Err() != nil || s.a.stops.Stopped() {
				return nil // the client is gone, or resumes elsewhere or later
			}
			return Sent(s.fail(err))
		}
		s.left -= s.Count
		if err := s.send(r, t); err != nil {
			if lost := s.by.check(); lost != nil && !first {
				err = s.fail(lost)
			}
			return Sent(err)
		}
		if r.Method == http.MethodHead {
			return nil
		}
	}
	return nil
}

// next reports whether there is another turn and sets its timeout. There is always a first turn,
// because a client that is to reconnect must see an event stream.
func (s *stream) next(r *http.Request) bool {
	if !s.started {
		s.Timeout = 0 // send the headers at once, or an error instead
		return true
	}
	if s.left <= 0 || r.Context().Err() != nil || s.a.stops.Stopped() {
		return false
	}
	s.Timeout = s.a.o.Heartbeat
	if !s.forever {
		s.Timeout = min(s.Timeout, time.Until(s.ends))
	}
	if s.Timeout > 0 && s.scan.unreported() {
		s.Timeout = min(s.Timeout, max(time.Millisecond, time.Until(s.scan.due)))
	}
	return s.Timeout > 0
}

// send writes one turn: its events, and the progress of a scan, or a comment if there is neither. A
// scan without news writes nothing.
func (s *stream) send(r *http.Request, t *encoding.Text) error {
	if !s.started {
		s.started = true
		s.Head(s.w, api.EventStream, -1)
		if s.all != nil {
			s.w.Header().Del(api.HeaderNextOffset) // each partition has its own
		}
		s.w.Header().Set("X-Accel-Buffering", "no") // reverse proxies must not buffer events
		s.w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodHead {
			return nil
		}
	} else {
		s.Counted()
	}
	if err := s.a.pace.SendAll(s.w, &t.Out); err != nil {
		return err
	}
	news := s.Count > 0
	if s.scan != nil {
		sent, err := s.progress()
		if err != nil {
			return err
		}
		news = news || sent
	}
	if !news && (s.scan == nil || s.scan.records == s.scan.before) {
		if err := s.a.pace.Send(s.w, []byte(":\n\n")); err != nil {
			return err
		}
	}
	return http.NewResponseController(s.w).Flush()
}

// fail sends the error that ends the stream as an event.
func (s *stream) fail(err error) error {
	p := describe(err)
	p.Topic, p.Partition = s.Topic, &s.Partition
	body, fault := json.Marshal(&p)
	if fault != nil {
		return fault
	}
	if by, ok := s.w.(*principal); ok {
		s.w, by.err = by.w, nil // the error is no data, and it ends the stream
	}
	s.a.log.Warn("event stream failed", "topic", s.Topic, "partition", s.Partition, "offset", s.Offset, "err", err)
	return s.a.pace.Send(s.w, []byte("event: error\ndata: "+string(body)+"\n\n"))
}
