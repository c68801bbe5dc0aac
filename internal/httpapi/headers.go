package httpapi

import (
	"net/http"
	"strconv"

	"github.com/sebbroker/seb/api"
)

// Shared values of headers. They are never modified.
var (
	jsonType = []string{api.JSON}
	noStore  = []string{"no-store"}
)

// epochValue is an epoch as a header value.
type epochValue struct {
	epoch uint32
	value []string
}

// readHeaders sets the headers of answers about committed state.
func (a *API) readHeaders(w http.ResponseWriter) {
	e, now := a.epoch.Load(), a.b.Epoch()
	if e == nil || e.epoch != now {
		e = &epochValue{epoch: now, value: []string{strconv.FormatUint(uint64(now), 10)}}
		a.epoch.Store(e)
	}
	h := w.Header()
	h[api.HeaderEpoch], h["Cache-Control"] = e.value, noStore
}
