package httpapi

import (
	"bytes"
	"net/http"

	"github.com/sebbroker/seb/internal/api"
)

// getHealth answers that the process runs.
func (a *API) getHealth(w http.ResponseWriter, _ *http.Request) error {
	return a.writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

// getReady answers whether requests would succeed, from what is known: it does no I/O.
func (a *API) getReady(w http.ResponseWriter, _ *http.Request) error {
	if a.stops.Stopped() {
		return api.NewProblem(api.ShuttingDown, "the broker is stopping")
	}
	if err := a.b.Ready(); err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, api.Health{Status: "ok", Epoch: a.b.Epoch(), FormatLevel: a.b.Level().Now})
}

// getMetrics answers in the Prometheus text format.
func (a *API) getMetrics(w http.ResponseWriter, _ *http.Request) error {
	var body bytes.Buffer
	a.o.WriteMetrics(&body)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	a.write(w, http.StatusOK, body.Bytes())
	return nil
}
