package httpapi

import (
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
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
func (a *API) text(w http.ResponseWriter, r *http.Request, g *Reading, form encoding.TextForm) error {
	kind := api.JSON
	if form == encoding.EachLine {
		kind = api.NDJSON
	}
	return encoded(func(_ *API, w http.ResponseWriter, r *http.Request, _ *caller) error { return g.Text(w, r, kind, form) })(a, w, r, g.by)
}

func (a *API) getRecords(w http.ResponseWriter, r *http.Request, by *caller) error {
	w.Header().Add("Vary", "Accept")
	form := httpconn.Negotiate(r.Header.Values("Accept"), readTypes)
	if form == "" {
		return problem.New(api.NotAcceptable, "want one of %s", strings.Join(readTypes, ", "))
	}
	q := httpconn.ParseParams(r.URL.RawQuery)
	partition := int32(0)
	if !asksForAll(q) {
		partition = q.Partition()
	} else if form != api.EventStream {
		q.Fail(httpconn.ParamPartition, "%s: only with %s, not with %s", allPartitions, api.EventStream, form)
	}
	g := a.source.New(q.Topic(), partition)
	g.by, g.scan, g.Isolation = by, scanOf(q, form), isolationOf(q)
	latest := q.Latest()
	if form == api.EventStream {
		return a.follow(w, r, q, g)
	}
	backwards := isNewest(q)
	if backwards {
		g.beginNewest(q, form)
	} else {
		g.Begin(q)
	}
	lastEventID(q, r) // has no effect here, but must be valid
	g.MaxRecords = q.Number(httpconn.ParamMaxRecords, maxRecordsDefault, math.MaxInt64)
	if g.MaxRecords == 0 {
		g.MaxRecords = maxRecordsDefault // as in the original
	}
	g.MaxBytes = by.fetchBound(q.Number(httpconn.ParamMaxBytes, 0, math.MaxInt64))
	g.Timeout = q.Duration(httpconn.ParamTimeout, timeoutDefault, timeoutMax)
	if g.ValueMax = valueMax(q); g.ValueMax > 0 && form != api.JSON && form != api.NDJSON {
		q.Fail(httpconn.ParamMaxValueBytes, "not with %s: only answers in JSON have the length of a cut value", form)
	}
	condition, err := httpconn.IfNoneMatch(r)
	if q.Fault == nil && err != nil {
		return err
	}
	g.Condition, g.Tagged = condition, true
	if q.Fault != nil {
		return q.Fault
	}
	if latest = latest || g.Edge == Latest; latest || backwards || g.Group != "" || g.Edge != "" {
		if err := g.Confirm(r, latest); err != nil {
			return err
		}
	}
	defer g.Done()
	if form == api.RecordBatch {
		return g.Batches(w, r)
	}
	g.MaxRecords = min(g.MaxRecords, int64(a.o.RecordsMax))
	if g.scan != nil {
		g.scan.begin(by, g.Timeout)
		defer g.charge()
	}
	if backwards {
		return encoded(func(_ *API, w http.ResponseWriter, r *http.Request, _ *caller) error { return g.newestText(w, r, form) })(a, w, r, by)
	}
	switch form {
	case api.JSON:
		return a.text(w, r, g, encoding.Array)
	case api.NDJSON:
		return a.text(w, r, g, encoding.EachLine)
	}
	g.Waits = g.scan == nil && a.readWaits(r)
	return g.Multipart(w, r)
}

// valueMax reads the length to which values are cut.
func valueMax(q *httpconn.Params) int {
	return int(q.Number(httpconn.ParamMaxValueBytes, 0, math.MaxInt32))
}

// getRecord answers with one record's value. It does not wait.
func (a *API) getRecord(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	g := a.source.New(q.Topic(), q.Partition())
	g.MaxRecords, g.Waits, g.Isolation = 1, a.originalRead(r), isolationOf(q)
	latest := q.Latest()
	g.Offset = q.Offset()
	most := valueMax(q)
	if q.Fault != nil {
		return q.Fault
	}
	if latest {
		if err := g.Confirm(r, true); err != nil {
			return err
		}
	}
	defer g.Done()
	wanted := g.Offset
	v, err := g.Values(r.Context())
	if err != nil {
		return err
	}
	if g.Count == 0 && g.Offset == wanted || wanted >= g.End {
		p := problem.New(api.OffsetBeyondEnd, "the partition's %s offset is %d", g.endName(), g.End)
		p.Partition, p.Offset, p.NextOffset = &g.Partition, &wanted, &g.End
		return p
	}
	if g.Count == 0 || g.Offset != wanted+1 {
		p := problem.New(api.OffsetCompacted, "record at offset %d was removed by compaction", wanted)
		if g.leftOut {
			p.Detail = fmt.Sprintf("offset %d has no record: it is of an aborted transaction, or its end", wanted)
		}
		p.Partition, p.Offset = &g.Partition, &wanted
		return p
	}
	value := v.Refs[0]
	if most > 0 && len(value) > most {
		w.Header().Set(api.HeaderValueBytes, strconv.Itoa(len(value)))
		n, _ := encoding.ValueCut(value, most)
		value = value[:n]
		g.Bytes = int64(n)
	}
	g.Head(w, api.OctetStream, int64(len(value)))
	a.pace.ExtendWrite(w)
	w.WriteHeader(http.StatusOK)
	return Sent(a.pace.Send(w, value))
}

// endName says what End is.
func (g *Reading) endName() string {
	if p, err := g.s.b.Partition(g.Topic, g.Partition); err == nil && g.End < p.Next {
		return "last stable"
	}
	return "next"
}

// The original's Go client takes every status except 401, 404 and 413 for success. After a produce
// it assumes that the records are stored, and after a read that the body is a record. Two of its
// requests are recognizable:
//
//	POST /records  multipart/form-data, no Accept header  waits for memory; errors cut the connection
//	GET /records   Accept: multipart/form-data            waits for memory; the client checks the media type
//
// Its other requests, GET /record and GET /topic without an Accept header, look like those of any
// program that uses Go's net/http. They get ordinary answers unless Options.OriginalClient is set.

// noAccept reports whether a request has no Accept header.
func noAccept(r *http.Request) bool { return len(r.Header.Values("Accept")) == 0 }

// originalRead reports whether the original's client may have sent a read without an Accept header.
func (a *API) originalRead(r *http.Request) bool { return a.o.OriginalClient && noAccept(r) }

// readWaits reports whether a GET /records waits for memory, because it may be of the original's
// client.
func (a *API) readWaits(r *http.Request) bool {
	accept := r.Header.Values("Accept")
	return a.originalRead(r) || len(accept) == 1 && accept[0] == api.Multipart
}

// originalProduce reports whether the original's client may have sent a produce of this media type.
func originalProduce(kind string, r *http.Request) bool { return kind == api.Multipart && noAccept(r) }

// originals are the reads of the original's client, except GET /records with its Accept header.
var originals = map[string]bool{"GET /records": true, "GET /record": true, "GET /topic": true}

// misleads reports whether the client of a request may take the answer to err for success.
func (a *API) misleads(rt *route, r *http.Request, err error) bool {
	if isForwarded(r) {
		return false // the broker that has the client decides
	}
	switch api.Statuses[problemOf(err).Code] {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return false
	}
	if rt.name() == "POST /records" {
		kind, _, fault := mime.ParseMediaType(r.Header.Get("Content-Type"))
		return fault == nil && originalProduce(kind, r)
	}
	return originals[rt.name()] && r.Method == http.MethodGet && a.originalRead(r)
}
