package httpapi

import (
	"context"
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/broker"
)

// getTime answers with log time. It makes no request to the store.
func (a *API) getTime(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	return a.writeTime(w, a.b.LogTime())
}

// postTimeReset moves log time back after a wrong clock has put it into the future.
func (a *API) postTimeReset(w http.ResponseWriter, r *http.Request, by *caller) error {
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	ctx, err := by.changing(ctx, access.Alter, access.Cluster, access.ClusterName)
	if err != nil {
		return err
	}
	t, err := a.b.ResetTime(ctx)
	if err != nil {
		return err
	}
	return a.writeTime(w, t)
}

func (a *API) writeTime(w http.ResponseWriter, t broker.LogTime) error {
	out := api.LogTime{Last: t.Last.UTC(), Now: t.Now.UTC()}
	if t.Err != nil {
		out.Error = t.Err.Error()
	}
	return a.writeState(w, http.StatusOK, &out)
}

// getUpgrade answers with the bucket's format level. It makes no request to the store.
func (a *API) getUpgrade(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	return a.writeLevel(w, a.b.Level())
}

// postUpgrade raises the bucket to the highest format level that the broker supports.
func (a *API) postUpgrade(w http.ResponseWriter, r *http.Request, by *caller) error {
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	ctx, err := by.changing(ctx, access.Alter, access.Cluster, access.ClusterName)
	if err != nil {
		return err
	}
	level, err := a.b.Raise(ctx)
	if err != nil {
		return err
	}
	return a.writeLevel(w, level)
}

func (a *API) writeLevel(w http.ResponseWriter, v broker.Level) error {
	out := api.Upgrade{Level: int(v.Now), HighestLevel: int(v.Max), RaiseAt: v.RaiseAt.UTC()}
	return a.writeState(w, http.StatusOK, &out)
}
