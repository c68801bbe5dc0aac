package httpapi

import (
	"log/slog"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/httpin"
)

// The original's Go client takes every status but 401, 404 and 413 for success: of a produce, that the records are
// stored, and of a read, that the body is a record. It sends no Accept header, but for "multipart/form-data" on
// GET /records, and there it looks at the answer's media type. So whoever may be that client waits for memory instead of
// hearing 429, and where it would be misled it hears nothing at all: its connection is cut. curl, browsers and this
// project's client send an Accept header, and are told everything.

// noAccept says whether a request has no Accept header at all.
func noAccept(r *http.Request) bool { return len(r.Header.Values("Accept")) == 0 }

// patientRead says whether a read of records may be the original's. It waits for memory.
func patientRead(r *http.Request) bool {
	accept := r.Header.Values("Accept")
	return len(accept) == 0 || len(accept) == 1 && accept[0] == api.Multipart
}

// patientProduce says whether a produce may be the original's: multipart, and no sign of knowing problems.
func patientProduce(kind string, r *http.Request) bool {
	return kind == api.Multipart && !httpin.TakesProblems(r.Header.Values("Accept"))
}

// originals are the routes that the original's client calls.
var originals = map[string]bool{"POST /records": true, "GET /records": true, "GET /record": true, "GET /topic": true}

// misleads says whether the client of a request may take the answer to an error for success.
func misleads(rt route, r *http.Request, err error) bool {
	status := api.Statuses[problemOf(err).Code]
	if !originals[rt.name()] || status == http.StatusUnauthorized || status == http.StatusNotFound || status == http.StatusRequestEntityTooLarge {
		return false
	}
	if r.Method != http.MethodPost {
		return r.Method == http.MethodGet && noAccept(r)
	}
	kind, _, fault := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if fault != nil || !patientProduce(kind, r) {
		return false
	}
	// With an Accept header it is somebody else, who may hear that the request is wrong. But 5xx and "not now" can come
	// to any request, and whoever does not know problems is not trusted to look at them.
	return noAccept(r) || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout ||
		status == http.StatusConflict || status >= http.StatusInternalServerError
}

// cutLog says in the log that a connection was cut, once in a while: what makes one request fail makes all of them fail.
type cutLog struct {
	mu     sync.Mutex // guards what follows
	next   time.Time
	others int // since the last line
}

// cutLogEvery is the least time between two lines.
const cutLogEvery = 10 * time.Second

func (c *cutLog) log(to *slog.Logger, r *http.Request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		c.others++
		return
	}
	c.next = now.Add(cutLogEvery)
	to.Warn("connection of a client cut that may take the answer for success, as it sends no Accept header that says otherwise",
		"method", r.Method, "path", r.URL.Path, "code", string(problemOf(err).Code), "err", err, "others_before", c.others)
	c.others = 0
}
