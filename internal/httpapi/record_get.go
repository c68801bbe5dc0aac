package httpapi

import (
	"net/http"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/httpin"
)

// getRecord answers with one record's value. It does not wait.
func (a *API) getRecord(w http.ResponseWriter, r *http.Request) error {
	q := httpin.ParseParams(r.URL.RawQuery)
	g := &reading{answer: a.newAnswer(), topic: q.Topic(), partition: max(q.Partition(), 0), maxRecords: 1, patient: noAccept(r)}
	latest := q.Latest()
	g.offset = q.Offset()
	if q.Fault != nil {
		return q.Fault
	}
	if latest {
		if err := g.confirm(r, true); err != nil {
			return err
		}
	}
	defer g.done()
	wanted := g.offset
	v, err := g.values(r.Context())
	if err != nil {
		return err
	}
	if g.count == 0 && g.offset == wanted || wanted >= g.end {
		p := api.NewProblem(api.OffsetBeyondEnd, "the partition's next offset is %d", g.end)
		p.Partition, p.Offset, p.NextOffset = &g.partition, &wanted, &g.end
		return p
	}
	if g.count == 0 || g.offset != wanted+1 {
		p := api.NewProblem(api.OffsetCompacted, "offset %d was removed by compaction", wanted)
		p.Partition, p.Offset = &g.partition, &wanted
		return p
	}
	g.head(w, api.OctetStream, v.Sum)
	g.a.pace.WriteStep(w)
	w.WriteHeader(http.StatusOK)
	return sent(a.pace.Send(w, v.Refs[0]))
}
