package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/auth"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
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
