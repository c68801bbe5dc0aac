package httpapi

import (
	"net/http"

	"github.com/sebbroker/seb/internal/api"
)

// getRecord answers with one record's value. It does not wait.
func (a *API) getRecord(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	g := &reading{answer: a.newAnswer(), topic: q.topic(), partition: max(q.partition(), 0), maxRecords: 1, patient: noAccept(r)}
	latest := q.latest()
	g.offset = q.offset()
	if q.fault != nil {
		return q.fault
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
	g.a.writeStep(w)
	w.WriteHeader(http.StatusOK)
	return sent(a.send(w, v.Refs[0]))
}
