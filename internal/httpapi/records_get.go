package httpapi

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/forms"
	"github.com/sebbroker/seb/internal/httpin"
)

// readTypes are the forms of GET /records in the order of preference where the client has none.
var readTypes = []string{api.Multipart, api.JSON, api.NDJSON, api.RecordBatch, api.EventStream}

const (
	maxRecordsDefault = 10
	timeoutDefault    = 10 * time.Second
	// timeoutMax bounds a long poll; who asks for longer waits so long.
	timeoutMax = 5 * time.Minute
)

func (a *API) getRecords(w http.ResponseWriter, r *http.Request) error {
	form := httpin.Negotiate(r.Header.Values("Accept"), readTypes)
	if form == "" {
		return api.NewProblem(api.NotAcceptable, "want one of %s", strings.Join(readTypes, ", "))
	}
	q := httpin.ParseParams(r.URL.RawQuery)
	g := a.source.New(q.Topic(), q.Partition())
	latest := q.Latest()
	if form == api.EventStream {
		return a.follow(w, r, q, g)
	}
	g.Begin(q)
	g.MaxRecords = q.Number(httpin.ParamMaxRecords, maxRecordsDefault, math.MaxInt64)
	if g.MaxRecords == 0 {
		g.MaxRecords = maxRecordsDefault // as the original has it
	}
	g.MaxBytes = q.Number(httpin.ParamMaxBytes, 0, math.MaxInt64)
	g.Timeout = q.Duration(httpin.ParamTimeout, timeoutDefault, timeoutMax)
	if q.Fault != nil {
		return q.Fault
	}
	if latest || g.Group != "" {
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
		return g.Text(w, r, form, forms.Array)
	case api.NDJSON:
		return g.Text(w, r, form, forms.EachLine)
	}
	g.Patient = a.patientRead(r)
	return g.Multipart(w, r)
}
