package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"syscall"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/problem"
)

// getHealth answers that the process runs.
func (a *API) getHealth(w http.ResponseWriter, _ *http.Request) error {
	return a.writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

// getReady reports whether requests would succeed. It does no I/O.
func (a *API) getReady(w http.ResponseWriter, _ *http.Request) error {
	if err := a.ready(); err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, api.Health{Status: "ok", Epoch: a.b.Epoch(), FormatLevel: a.b.Level().Now})
}

// ready returns why requests would fail, or nil.
func (a *API) ready() error {
	if a.stops.Stopped() {
		return problem.New(api.ShuttingDown, "the broker is stopping")
	}
	err := a.b.Ready()
	if errors.Is(err, broker.ErrStoreUnavailable) {
		return problem.New(api.StoreUnavailable, "%s", storeReason(err))
	}
	return err
}

// storeReason describes a store error for unauthenticated callers: without names of objects or
// folders.
func storeReason(err error) string {
	for _, known := range []struct {
		err    error
		reason string
	}{
		{syscall.ENOSPC, "the disk is full"},
		{syscall.EDQUOT, "the disk is full"},
		{syscall.EROFS, "the file system is read-only"},
		{objstore.ErrBroken, "an fsync failed"},
		{objstore.ErrRefused, "the store refuses the broker's requests"},
		{objstore.ErrNoVerdict, "the store does not answer"},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	return ""
}

// getMetrics answers in the Prometheus text format.
func (a *API) getMetrics(w http.ResponseWriter, _ *http.Request) error {
	var body bytes.Buffer
	a.o.WriteMetrics(&body)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	a.write(w, http.StatusOK, body.Bytes())
	return nil
}
