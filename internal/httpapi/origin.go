package httpapi

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/problem"
)

const (
	// askedHeaders are the request headers that a page of another origin may set, and shownHeaders
	// those of answers that it may read.
	askedHeaders = "Authorization, Content-Type, Accept, If-Match, If-None-Match, Last-Event-ID, " +
		api.HeaderProducerID + ", " + api.HeaderProducerEpoch + ", " + api.HeaderSequence
	shownHeaders = "ETag, Retry-After, WWW-Authenticate, " + api.HeaderEpoch + ", " + api.HeaderBaseOffset + ", " + api.HeaderNextOffset + ", " +
		api.HeaderResumeOffset + ", " + api.HeaderOffset + ", " + api.HeaderPartition + ", " + api.HeaderTimestamp + ", " + api.HeaderKeyIndexLag + ", " +
		api.HeaderValueBytes + ", " + api.HeaderScannedRecords + ", " + api.HeaderScannedBytes
	// preflightSeconds is how long a browser may keep the answer to a preflight.
	preflightSeconds = "600"
)

// admitOrigin refuses the request of a web page of another origin, unless Options.Origins names it.
// Then it sets the headers that let the page read the answer.
func (a *API) admitOrigin(w http.ResponseWriter, r *http.Request) *api.Problem {
	given, ok := r.Header["Origin"]
	if !ok {
		return nil // not of a page, or of a page that may not read the answer
	}
	origin := strings.Join(given, " ")
	same, admitted := KnownOrigin(r, a.o.Origins)
	if same {
		return nil
	}
	if !admitted {
		return problem.New(api.Forbidden, "a page of origin %s may not use this broker; --cors-origin names those that may", problem.Quote(origin))
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", shownHeaders)
	return nil
}

// KnownOrigin reports whether a request with an Origin header comes from a page of this broker, or
// from one of the origins.
func KnownOrigin(r *http.Request, origins []string) (same, admitted bool) {
	origin := strings.Join(r.Header["Origin"], " ")
	_, host, _ := strings.Cut(origin, "://")
	same = host != "" && strings.EqualFold(host, r.Host)
	return same, slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, origin) })
}

// isPreflight reports whether a browser asks which requests a page of another origin may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// servePreflight answers a preflight of an admitted origin.
func (a *API) servePreflight(w http.ResponseWriter, r *http.Request) error {
	methods := allowed(r)
	if methods == "" {
		return problem.New(api.NotFound, "no route %s; see /openapi.json", problem.Quote(r.URL.Path))
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", askedHeaders)
	h.Set("Access-Control-Max-Age", preflightSeconds)
	return a.noContent(w)
}

// hasKey reports whether a request to a route without a key has a valid one. Then it does not come
// from a page that only knows the broker's address.
func (a *API) hasKey(r *http.Request) bool {
	_, err := a.o.Auth.Bearer(r.Context(), r.Header["Authorization"], r.RemoteAddr)
	return err == nil
}

// KnownHost reports whether a Host header is an IP address, localhost or one of the names, with or
// without a port, or absent. A web page whose own name resolves to the broker's address sends
// another one, and must not read answers that need no key.
func KnownHost(host string, names []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if host == "" || strings.EqualFold(name, "localhost") || net.ParseIP(name) != nil {
		return true
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
