package httpapi

import (
	"mime"
	"net/http"

	"github.com/sebbroker/seb/api"
)

// The original's Go client takes every status except 401, 404 and 413 for success. After a produce
// it assumes that the records are stored, and after a read that the body is a record. Two of its
// requests are recognizable:
//
//	POST /records  multipart/form-data, no Accept header  waits for memory; errors cut the connection
//	GET /records   Accept: multipart/form-data            waits for memory; the client checks the media type
//
// Its other requests, GET /record and GET /topic without an Accept header, look like those of any
// program that uses Go's net/http. They get ordinary answers unless Options.OriginalClient is set.

// noAccept reports whether a request has no Accept header.
func noAccept(r *http.Request) bool { return len(r.Header.Values("Accept")) == 0 }

// originalRead reports whether the original's client may have sent a read without an Accept header.
func (a *API) originalRead(r *http.Request) bool { return a.o.OriginalClient && noAccept(r) }

// readWaits reports whether a GET /records waits for memory, because it may be of the original's
// client.
func (a *API) readWaits(r *http.Request) bool {
	accept := r.Header.Values("Accept")
	return a.originalRead(r) || len(accept) == 1 && accept[0] == api.Multipart
}

// originalProduce reports whether the original's client may have sent a produce of this media type.
func originalProduce(kind string, r *http.Request) bool { return kind == api.Multipart && noAccept(r) }

// originals are the reads of the original's client, except GET /records with its Accept header.
var originals = map[string]bool{"GET /records": true, "GET /record": true, "GET /topic": true}

// misleads reports whether the client of a request may take the answer to err for success.
func (a *API) misleads(rt route, r *http.Request, err error) bool {
	switch api.Statuses[problemOf(err).Code] {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return false
	}
	if rt.name() == "POST /records" {
		kind, _, fault := mime.ParseMediaType(r.Header.Get("Content-Type"))
		return fault == nil && originalProduce(kind, r)
	}
	return originals[rt.name()] && r.Method == http.MethodGet && a.originalRead(r)
}
