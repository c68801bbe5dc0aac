package httpapi

import (
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
)

// getRecord answers with one record's value. It does not wait.
func (a *API) getRecord(w http.ResponseWriter, r *http.Request) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	g := a.source.New(q.Topic(), q.Partition())
	g.MaxRecords, g.Waits = 1, a.originalRead(r)
	latest := q.Latest()
	g.Offset = q.Offset()
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
		p := problem.New(api.OffsetBeyondEnd, "the partition's next offset is %d", g.End)
		p.Partition, p.Offset, p.NextOffset = &g.Partition, &wanted, &g.End
		return p
	}
	if g.Count == 0 || g.Offset != wanted+1 {
		p := problem.New(api.OffsetCompacted, "record at offset %d was removed by compaction", wanted)
		p.Partition, p.Offset = &g.Partition, &wanted
		return p
	}
	g.Head(w, api.OctetStream, v.Sum)
	a.pace.ExtendWrite(w)
	w.WriteHeader(http.StatusOK)
	return Sent(a.pace.Send(w, v.Refs[0]))
}
