package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sebbroker/seb/internal/budget"
)

// route is one line of the table. GET routes serve HEAD as well.
type route struct {
	method string
	path   string // a segment in braces matches any text except ""
	auth   bool   // requires the API key
	// serve answers the request, or returns an error before it has written anything.
	serve func(*API, http.ResponseWriter, *http.Request) error
}

// routes lists every route. openapi.yaml describes each. Tests derive the matrix of permissions
// from it.
var routes = []route{
	{http.MethodPost, "/records", true, (*API).postRecords},
	{http.MethodGet, "/records", true, (*API).getRecords},
	{http.MethodGet, "/record", true, (*API).getRecord},
	{http.MethodGet, "/key", true, (*API).getKey},
	{http.MethodGet, "/key/history", true, encoded((*API).getKeyHistory)},
	{http.MethodGet, "/keys", true, encoded((*API).getKeys)},
	{http.MethodGet, "/topic", true, encoded((*API).getTopic)},
	{http.MethodPut, "/topic", true, (*API).putTopic},
	{http.MethodDelete, "/topic", true, (*API).deleteTopic},
	{http.MethodPost, "/topic/trim", true, (*API).postTrim},
	{http.MethodGet, "/topics", true, encoded((*API).getTopics)},
	{http.MethodGet, "/offsets", true, encoded((*API).getOffsets)},
	{http.MethodPut, "/offsets", true, (*API).putOffsets},
	{http.MethodDelete, "/offsets", true, (*API).deleteOffset},
	{http.MethodGet, "/groups", true, encoded((*API).getGroups)},
	{http.MethodDelete, "/groups", true, (*API).deleteGroup},
	{http.MethodGet, "/upgrade", true, (*API).getUpgrade},
	{http.MethodPost, "/upgrade", true, (*API).postUpgrade},
	{http.MethodGet, "/time", true, (*API).getTime},
	{http.MethodPost, "/time/reset", true, (*API).postTimeReset},
	{http.MethodGet, "/metrics", true, encoded((*API).getMetrics)},
	{http.MethodGet, "/status", true, encoded((*API).getStatus)},
	{http.MethodGet, "/healthz", false, (*API).getHealth},
	{http.MethodGet, "/readyz", false, (*API).getReady},
	{http.MethodGet, "/openapi.json", false, encoded((*API).getSpec)},
	{http.MethodPost, "/event", true, (*API).postEvent},
	{http.MethodPost, "/evaluate", true, (*API).postEvaluate},
	{http.MethodGet, "/triggers", true, encoded((*API).getTriggers)},
	{http.MethodPost, "/triggers/dry-run", true, answering(budget.Produce, (*Triggers).DryRun)},
	{http.MethodGet, "/triggers/{id}", true, encoded(answering(budget.Fetch, (*Triggers).Get))},
	{http.MethodPut, "/triggers/{id}", true, answering(budget.Produce, (*Triggers).Put)},
	{http.MethodDelete, "/triggers/{id}", true, doing((*Triggers).Delete)},
	{http.MethodPost, "/triggers/{id}/pause", true, answering(budget.Fetch, pausing(true))},
	{http.MethodPost, "/triggers/{id}/resume", true, answering(budget.Fetch, pausing(false))},
	{http.MethodGet, "/triggers/{id}/entities/{entity}", true, encoded(answering(budget.Fetch, (*Triggers).Explain))},
	{http.MethodGet, "/firings", true, encoded(answering(budget.Fetch, (*Triggers).Firings))},
	{http.MethodGet, "/firings/{id}", true, encoded(answering(budget.Fetch, (*Triggers).Firing))},
	{http.MethodPost, "/firings/{id}/resend", true, answering(budget.Fetch, (*Triggers).Resend)},
	{http.MethodDelete, "/entities/{entity}", true, doing((*Triggers).Erase)},
}

// encoded compresses a route's answer if the client accepts that and the answer is long enough.
func encoded(serve func(*API, http.ResponseWriter, *http.Request) error) func(*API, http.ResponseWriter, *http.Request) error {
	return func(a *API, w http.ResponseWriter, r *http.Request) error {
		e := a.encoders.Writer(w, r)
		if e == nil {
			return serve(a, w, r)
		}
		defer e.Release()
		if err := serve(a, e, r); err != nil {
			return err
		}
		return Sent(e.Close())
	}
}

// name returns the route's label in metrics.
func (rt route) name() string {
	if rt.path == "" {
		return "none"
	}
	return rt.method + " " + rt.path
}

// literals are the paths without segments in braces. They take precedence over routes with such
// segments.
var literals = func() map[string]bool {
	all := map[string]bool{}
	for _, rt := range routes {
		all[rt.path] = !strings.Contains(rt.path, "{")
	}
	return all
}()

func literalPath(r *http.Request) bool { return literals[r.URL.Path] }

// serves reports whether the route matches the request's path. literal: the path is that of a route
// without braces.
func (rt *route) serves(r *http.Request, literal bool) bool {
	if literal {
		return rt.path == r.URL.Path
	}
	return rt.matches(r)
}

// matches reports whether a path is the route's. It sets the request's path values
// (http.Request.PathValue), unescaped. A value is never "." or "..", because proxies may resolve
// them.
func (rt *route) matches(r *http.Request) bool {
	if !strings.Contains(rt.path, "{") {
		return rt.path == r.URL.Path
	}
	ours, theirs := strings.Split(rt.path, "/"), strings.Split(r.URL.EscapedPath(), "/")
	if len(ours) != len(theirs) {
		return false
	}
	for i, text := range theirs {
		value, err := url.PathUnescape(text)
		if err != nil {
			return false
		}
		if !strings.HasPrefix(ours[i], "{") {
			if value != ours[i] {
				return false
			}
			continue
		}
		if value == "" || value == "." || value == ".." {
			return false
		}
		r.SetPathValue(strings.Trim(ours[i], "{}"), value)
	}
	return true
}
