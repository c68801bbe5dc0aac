package httpapi

import (
	"net/http"
	"strconv"

	"github.com/sebbroker/seb/api"
)

// Values of headers that most answers carry, shared by all of them: nothing changes what is in a header's slice.
var (
	jsonType = []string{api.JSON}
	noStore  = []string{"no-store"}
)

// epochValue is an epoch as a header has it.
type epochValue struct {
	epoch uint32
	value []string
}

// readHeaders sets what answers about committed state carry.
func (a *API) readHeaders(w http.ResponseWriter) {
	e, now := a.epoch.Load(), a.b.Epoch()
	if e == nil || e.epoch != now {
		e = &epochValue{epoch: now, value: []string{strconv.FormatUint(uint64(now), 10)}}
		a.epoch.Store(e)
	}
	h := w.Header()
	h[api.HeaderEpoch], h["Cache-Control"] = e.value, noStore
}
