package httpapi

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
)

// readTypes are the media types of GET /records, in the order of preference.
var readTypes = []string{api.Multipart, api.JSON, api.NDJSON, api.RecordBatch, api.EventStream}

const (
	maxRecordsDefault = 10
	timeoutDefault    = 10 * time.Second
	// timeoutMax bounds a long poll; longer timeouts are reduced to it.
	timeoutMax = 5 * time.Minute
)

// text answers with records in JSON.
func (a *API) text(w http.ResponseWriter, r *http.Request, g *Reading, kind string, form encoding.TextForm) error {
	return encoded(func(_ *API, w http.ResponseWriter, r *http.Request) error { return g.Text(w, r, kind, form) })(a, w, r)
}

func (a *API) getRecords(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	form := httpconn.Negotiate(r.Header.Values("Accept"), readTypes)
	if form == "" {
		return problem.New(api.NotAcceptable, "want one of %s", strings.Join(readTypes, ", "))
	}
	q := httpconn.ParseParams(r.URL.RawQuery)
	g := a.source.New(q.Topic(), q.Partition())
	latest := q.Latest()
	if form == api.EventStream {
		return a.follow(w, r, q, g)
	}
	g.Begin(q)
	lastEventID(q, r) // has no effect here, but must be valid
	g.MaxRecords = q.Number(httpconn.ParamMaxRecords, maxRecordsDefault, math.MaxInt64)
	if g.MaxRecords == 0 {
		g.MaxRecords = maxRecordsDefault // as in the original
	}
	g.MaxBytes = q.Number(httpconn.ParamMaxBytes, 0, math.MaxInt64)
	g.Timeout = q.Duration(httpconn.ParamTimeout, timeoutDefault, timeoutMax)
	condition, err := httpconn.IfNoneMatch(r)
	if q.Fault == nil && err != nil {
		return err
	}
	g.Condition, g.Tagged = condition, true
	if q.Fault != nil {
		return q.Fault
	}
	if latest = latest || g.Edge == Latest; latest || g.Group != "" || g.Edge != "" {
		if err := g.Confirm(r, latest); err != nil {
			return err
		}
	}
	defer g.Done()
	if form == api.RecordBatch {
		return g.Batches(w, r)
	}
	g.MaxRecords = min(g.MaxRecords, int64(a.o.RecordsMax))
	switch form {
	case api.JSON:
		return a.text(w, r, g, form, encoding.Array)
	case api.NDJSON:
		return a.text(w, r, g, form, encoding.EachLine)
	}
	g.Waits = a.readWaits(r)
	return g.Multipart(w, r)
}
