package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/fsck"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
)

// fsckBytes bounds the memory of an answer about a check.
const fsckBytes = 1 << 20

// checks returns the checks of the bucket, or an error if this broker has none.
func (a *API) checks() (*fsck.Job, error) {
	if a.o.Fsck == nil {
		return nil, problem.New(api.NotFound, "this broker does not check its bucket")
	}
	return a.o.Fsck, nil
}

// getFsck answers with the check that runs, or the last one. With estimate=true it lists the
// bucket.
func (a *API) getFsck(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	estimate := q.Bool(httpconn.ParamEstimate)
	if q.Fault != nil {
		return q.Fault
	}
	job, err := a.checks()
	if err != nil {
		return err
	}
	var all *api.ObjectCount
	if estimate {
		ctx, done := a.stops.Until(r.Context())
		defer done()
		n, err := job.Inventory(ctx)
		if err != nil {
			return err
		}
		all = &api.ObjectCount{Objects: n.Objects, Bytes: n.Bytes}
	}
	return a.writeFsck(w, http.StatusOK, job, all)
}

// postFsck starts a check of the bucket, which runs until it ends, is cancelled, or the broker
// stops.
func (a *API) postFsck(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	job, err := a.checks()
	if err != nil {
		return err
	}
	held, _ := a.b.StateMemory()
	var over *fsck.MemoryError
	switch err := job.Start(held); {
	case errors.As(err, &over):
		p := problem.New(api.TooLarge, "%s", over)
		p.Limit, p.Given = &over.Max, &over.Wanted
		return p
	case err != nil:
		return err
	}
	return a.writeFsck(w, http.StatusAccepted, job, nil)
}

// deleteFsck cancels the check that runs, and answers after its end.
func (a *API) deleteFsck(w http.ResponseWriter, r *http.Request, _ *caller) error {
	job, err := a.checks()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	if err := job.Cancel(ctx); err != nil {
		return err
	}
	return a.writeFsck(w, http.StatusOK, job, nil)
}

func (a *API) writeFsck(w http.ResponseWriter, status int, job *fsck.Job, estimate *api.ObjectCount) error {
	memory, err := a.small(fsckBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	p := job.Progress()
	out := api.Fsck{
		State: string(p.Status), StartedAt: p.Started, EndedAt: p.Ended, Listed: api.ObjectCount(p.Listed), Checked: api.ObjectCount(p.Checked),
		Damages: p.Damages, Kinds: p.Kinds, Findings: []api.FsckFinding{}, Estimate: estimate,
	}
	if out.Kinds == nil {
		out.Kinds = map[string]int{}
	}
	for i := range p.Findings {
		f := &p.Findings[i]
		x := api.FsckFinding{Severity: string(f.Severity), Kind: f.Kind, Key: f.Key, Text: f.Text}
		for _, lost := range f.Lost {
			x.Lost = append(x.Lost, api.LostRecords(lost))
		}
		out.Findings = append(out.Findings, x)
	}
	if p.Err != nil {
		out.Error = p.Err.Error()
	}
	if s := &p.Report; p.Status == fsck.Done {
		out.Summary = &api.FsckSummary{
			Epoch: s.Epoch, Slot: s.Slot, Verified: api.ObjectCount(s.Verified), Superseded: api.ObjectCount(s.Superseded),
			Orphans: api.ObjectCount(s.Orphans), Snapshots: s.Snapshots, Topics: s.Topics, Partitions: s.Partitions, Records: s.Records,
		}
	}
	return a.writeState(w, status, &out)
}
