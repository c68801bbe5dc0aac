package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

const (
	// scanDefault and scanMax are the default and the limit of max-scan-bytes.
	scanDefault = 64 << 20
	scanMax     = 1 << 30
	// scanFetch is the size of one fetch of a scan. It is less than fetchMax, because the rest of a
	// fetch is read again if the scan ends within it.
	scanFetch = 4 << 20
	// pinMin is the length from which a value of a multipart answer is not copied. Its fetch keeps
	// its memory instead, because the memory of all answers has the largest value only once.
	pinMin = 1 << 20
	// containsMax bounds the bytes of the parameter contains.
	containsMax = 1 << 10
)

// scan is the filter of a read and its progress. The read collects only the records that match. It
// copies them, and releases the memory of each fetch before the next one. A scan ends after a
// number of bytes or at a time, and then the answer has what was found.
type scan struct {
	where    *driplang.Filter // nil: all
	contains []byte           // nil: all
	bytesMax int64            // of one request

	end     int64     // offset at which the read ends; 0: none
	stop    int64     // value of bytes at which it ends
	until   time.Time // time at which it ends
	live    bool      // for an event stream: it ends at a match, and at the end of the log
	records int64     // looked at
	bytes   int64     // of their keys and values
	before  int64     // value of records when the turn of a stream began

	missed   int64 // bytes of the records that do not match and are not yet counted as used
	reported int64 // value of records in the last progress event
	due      time.Time
}

// scanOf reads the parameters of a filter. It returns nil if there is none.
func scanOf(q *httpconn.Params, form string) *scan {
	text, filtered := q.Text(httpconn.ParamWhere)
	part, contains := q.Text(httpconn.ParamContains)
	most, bounded := q.Text(httpconn.ParamMaxScanBytes)
	if !filtered && !contains {
		if bounded {
			q.Fail(httpconn.ParamMaxScanBytes, "only with %s or %s, given %s", httpconn.ParamWhere, httpconn.ParamContains, most)
		}
		return nil
	}
	name := httpconn.ParamWhere
	if !filtered {
		name = httpconn.ParamContains
	}
	if form == api.RecordBatch {
		q.Fail(name, "not with %s, which has whole batches as they are stored", form)
	}
	s := &scan{live: form == api.EventStream}
	if s.live && bounded {
		q.Fail(httpconn.ParamMaxScanBytes, "not with %s, which continues until the client ends it", form)
	}
	if filtered {
		s.where = parseWhere(q, text)
	}
	if contains {
		if len(part) == 0 || len(part) > containsMax {
			q.Fail(httpconn.ParamContains, "want 1 to %d bytes, given %d", containsMax, len(part))
		}
		s.contains = []byte(part)
	}
	s.bytesMax = cmp.Or(q.Number(httpconn.ParamMaxScanBytes, scanDefault, scanMax), scanDefault)
	return s
}

// parseWhere parses the filter of a read.
func parseWhere(q *httpconn.Params, text string) *driplang.Filter {
	f, err := driplang.ParseFilter(text)
	if err != nil && q.Fault == nil {
		q.Fail(httpconn.ParamWhere, "%v", err)
		if at, ok := errors.AsType[*driplang.Error](err); ok {
			q.Fault.Line, q.Fault.Column = at.Line, at.Col
		}
	}
	return f
}

// begin starts the scan of a request that is not an event stream. A scan lasts as long as the
// request may wait for records, and at least as long as a fetch.
func (s *scan) begin(by *caller, timeout time.Duration) {
	s.stop = by.fetchBound(s.bytesMax)
	s.until = time.Now().Add(max(timeout, tailTime))
}

// beginTurn starts one turn of an event stream. The first one is short, because it ends with the
// head of the answer.
func (s *scan) beginTurn(first bool) {
	// A turn is also as short as the time between two progress events.
	s.before, s.stop, s.until = s.records, math.MaxInt64, time.Now().Add(progressEvery)
	if first {
		s.stop = s.bytes + fetchMin
	}
}

// matches reports whether a record is wanted, and counts it.
func (s *scan) matches(rec *record.Record) bool {
	n := int64(len(rec.Key) + len(rec.Value))
	s.records++
	s.bytes += n
	if s.contains != nil && !bytes.Contains(rec.Value, s.contains) && !bytes.Contains(rec.Key, s.contains) ||
		s.where != nil && !s.where.Match(rec.Value) {
		s.missed += n
		return false
	}
	return true
}

// ended reports whether the scan has looked at enough, or for long enough.
func (s *scan) ended() bool { return s.bytes >= s.stop || !time.Now().Before(s.until) }

// scanned reports whether the collection is to end with what the scan has found.
func (g *Reading) scanned(ctx context.Context) bool {
	s := g.scan
	switch {
	case s == nil:
		return false
	case ctx.Err() != nil || g.s.o.Drain.Stopped():
		return true
	case s.live && (g.Count > 0 || s.records > s.before && g.Offset >= g.End):
		return true
	}
	return s.ended()
}

// scanFetchBytes is fetchBytes for a scan.
func (g *Reading) scanFetchBytes() int {
	s := g.scan
	n := s.stop - s.bytes
	if s.end > 0 {
		each := int64(guess)
		if s.records > 0 {
			each = s.bytes/s.records + 32
		}
		n = min(n, (s.end-g.Offset)*each)
	}
	return int(min(max(n, fetchMin), scanFetch))
}

// charge counts the bytes that the scan has looked at against the quota of the client, as if they
// had been sent: they cost the broker as much. Records that match are counted when they are sent.
func (g *Reading) charge() {
	if g.scan != nil {
		g.by.Meter().Use(auth.Fetched, g.scan.missed)
		g.scan.missed = 0
	}
}

// headers sets the headers about what the scan has looked at.
func (s *scan) headers(h http.Header) {
	h.Set(api.HeaderScannedRecords, strconv.FormatInt(s.records, 10))
	h.Set(api.HeaderScannedBytes, strconv.FormatInt(s.bytes, 10))
}

// unreported reports whether the scan of a stream has looked at records since the last progress
// event.
func (s *scan) unreported() bool { return s != nil && s.records > s.reported }

// progress sends a progress event if one is due. Its ID resumes the stream behind the records that
// were looked at.
func (s *stream) progress() (sent bool, err error) {
	if !s.scan.unreported() || time.Now().Before(s.scan.due) {
		return false, nil
	}
	s.scan.reported, s.scan.due = s.scan.records, time.Now().Add(progressEvery)
	p := api.ScanProgress{Records: s.scan.records, Bytes: s.scan.bytes}
	var id []byte
	if s.all != nil {
		id = s.all.position()
	} else {
		p.Offset, p.NextOffset = &s.Offset, &s.End
		id = strconv.AppendInt(nil, s.Offset-1, 10)
	}
	body, err := json.Marshal(&p)
	if err != nil {
		return false, err
	}
	return true, s.a.pace.Send(s.w, []byte("id: "+string(id)+"\nevent: progress\ndata: "+string(body)+"\n\n"))
}

// streamRecords bounds the records of one turn of an event stream.
const streamRecords = 1024

// follow answers with an event stream: each record is an event whose id is its offset. The stream
// lasts as long as the client, the broker, max-records and timeout allow. Last-Event-ID resumes
// after that offset and overrides other parameters.
func (a *API) follow(w http.ResponseWriter, r *http.Request, q *httpconn.Params, g *Reading) error {
	if isNewest(q) {
		q.Fail(httpconn.ParamOrder, "%s: not with %s, which follows the partition", newestFirst, api.EventStream)
	}
	g.streams = true
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
	if !httpconn.SlotOf(r.Context()).Read(g.connection()) {
		return a.source.noReader() // before the first turn, which waits for nothing
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
				return Sent(s.fail(r, lost))
			}
			if s.over(r) {
				return nil // the client is gone, or resumes elsewhere or later
			}
			return Sent(s.fail(r, err))
		}
		s.left -= s.Count
		if err := s.send(r, t); err != nil {
			if lost := s.by.check(); lost != nil && !first {
				err = s.fail(r, lost)
			}
			return Sent(err)
		}
		if r.Method == http.MethodHead {
			return nil
		}
	}
	return nil
}

// over reports whether the client is gone, or has to connect again: the broker stops, or a write has
// taken the slot.
func (s *stream) over(r *http.Request) bool {
	return r.Context().Err() != nil || s.a.stops.Stopped() || httpconn.SlotOf(r.Context()).Displaced()
}

// next reports whether there is another turn and sets its timeout. There is always a first turn,
// because a client that is to reconnect must see an event stream.
func (s *stream) next(r *http.Request) bool {
	if !s.started {
		s.Timeout = 0 // send the headers at once, or an error instead
		return true
	}
	if s.left <= 0 || s.over(r) {
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
func (s *stream) fail(r *http.Request, err error) error {
	p := describe(err)
	p.Topic, p.Partition = s.Topic, &s.Partition
	body, fault := json.Marshal(&p)
	if fault != nil {
		return fault
	}
	if by, ok := s.w.(*principal); ok {
		s.w, by.err = by.w, nil // the error is no data, and it ends the stream
	}
	s.a.logSampled(slog.LevelWarn, "event stream failed", r, err, "topic", s.Topic, "partition", s.Partition, "offset", s.Offset)
	return s.a.pace.Send(s.w, []byte("event: error\ndata: "+string(body)+"\n\n"))
}
