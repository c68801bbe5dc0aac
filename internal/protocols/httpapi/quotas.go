package httpapi

import (
	"cmp"
	"context"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

const (
	// quotaBodyMax bounds the body of PUT /quotas/{id}.
	quotaBodyMax = 4 << 10
	// quotaBytes is an upper bound of the memory of a quota in an answer.
	quotaBytes = 1 << 10
	// fetchSeconds bounds an answer with records to a client with a quota: to that of some seconds.
	fetchSeconds = 10
)

// begin counts a request against the quota of its principal, before its body is read and memory is
// reserved: a request with a body by its size, other reads by what is sent. The error is an
// *auth.QuotaError.
func (p *principal) begin(r *http.Request) error {
	m := p.Meter()
	if m == nil {
		return nil
	}
	kind := auth.Requests
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		kind = auth.Fetched
	case r.ContentLength != 0:
		kind = auth.Produced
	}
	n := int64(0)
	if kind == auth.Produced {
		n = max(0, r.ContentLength)
	}
	for m.Begin(kind, n) > 0 {
		if over := m.Throttle(kind); over != nil {
			return over
		}
	}
	if r.ContentLength < 0 {
		r.Body = &countedBody{r.Body, m}
	}
	return nil
}

// countedBody counts a body of unknown size while it is read.
type countedBody struct {
	io.ReadCloser
	m *auth.Meter
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.m.Use(auth.Produced, int64(n))
	return n, err
}

// fetchBound bounds the bytes of an answer with records; n is the client's bound, 0: none.
func (by *caller) fetchBound(n int64) int64 {
	if rate := by.Meter().Limit(auth.Fetched); rate > 0 {
		return min(cmp.Or(n, math.MaxInt64), int64(rate)*fetchSeconds)
	}
	return n
}

// throttle delays the next turn while the client is over its quota. It returns early if the stream
// is to end.
func (s *stream) throttle(ctx context.Context) {
	ctx, done := s.a.stops.Until(ctx)
	defer done()
	for s.started && ctx.Err() == nil {
		changed := s.by.Changed() // before the quota is looked at
		over := s.by.Meter().Throttle(auth.Fetched)
		if over == nil {
			return
		}
		timer := time.NewTimer(min(over.Wait, s.a.o.Heartbeat))
		select {
		case <-timer.C:
			if over.Wait <= s.a.o.Heartbeat {
				continue
			}
			if s.a.pace.Send(s.w, []byte(":\n\n")) != nil || http.NewResponseController(s.w).Flush() != nil {
				return // the next turn fails, too
			}
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// getQuotas answers with all quotas.
func (a *API) getQuotas(w http.ResponseWriter, r *http.Request, _ *caller) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	if err := a.fresh(r); err != nil {
		return err
	}
	a.readHeaders(w)
	l := a.newList(w, "quotas", page.most)
	for _, q := range a.b.Access().Quotas() {
		if !page.has(q.Principal) {
			continue
		}
		if err := l.add(r.Context(), q.Principal, quotaBytes, func() (any, error) { return quotaOf(&q), nil }); err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

// quotaOf returns a quota as in answers.
func quotaOf(q *access.Quota) *api.Quota {
	return &api.Quota{
		Principal: q.Principal, ProduceBytes: int64(q.ProduceBytes), FetchBytes: int64(q.FetchBytes), Requests: int64(q.Requests),
	}
}

// putQuota replaces the quota of a principal.
func (a *API) putQuota(w http.ResponseWriter, r *http.Request, by *caller) error {
	var in api.Quota
	memory, err := a.decode(w, r, quotaBodyMax, &in)
	if err != nil {
		return err
	}
	defer memory.Release()
	id := r.PathValue(VariableID)
	if in.Principal != "" && in.Principal != id {
		return &state.InvalidError{Field: "principal", Reason: "another one than in the path: leave the member out"}
	}
	if limit := min(in.ProduceBytes, in.FetchBytes, in.Requests); limit < 0 {
		return problem.BadField("quota", "limit %d: want 1 or more", limit)
	}
	q := access.Quota{Principal: id, ProduceBytes: uint64(in.ProduceBytes), FetchBytes: uint64(in.FetchBytes), Requests: uint64(in.Requests)}
	if err := q.Check(); err != nil {
		return &state.InvalidError{Field: "quota", Reason: err.Error()}
	}
	ctx, cancel, err := a.changingCluster(r, by, access.AlterConfigs)
	if err != nil {
		return err
	}
	defer cancel()
	if err := a.o.Auth.ChangeQuota(ctx, id, func(to *access.Quota) error { *to = q; return nil }); err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, quotaOf(&q))
}

// deleteQuota removes the quota of a principal.
func (a *API) deleteQuota(w http.ResponseWriter, r *http.Request, by *caller) error {
	ctx, cancel, err := a.changingCluster(r, by, access.AlterConfigs)
	if err != nil {
		return err
	}
	defer cancel()
	err = a.o.Auth.ChangeQuota(ctx, r.PathValue(VariableID), func(q *access.Quota) error {
		if !q.Limits() {
			return auth.ErrUnknownQuota
		}
		*q = access.Quota{Principal: q.Principal}
		return nil
	})
	if err != nil {
		return err
	}
	return a.changed(w)
}
