package httpapi

import "net/http"

// route is one line of the table. GET routes serve HEAD as well.
type route struct {
	method string
	path   string
	auth   bool // the API key is needed
	// serve answers the request, or returns the error that is to be the answer; then it has written nothing.
	serve func(*API, http.ResponseWriter, *http.Request) error
}

// routes is every route there is; openapi.yaml describes each, and tests derive the matrix of who may call what from it.
var routes = []route{
	{http.MethodPost, "/records", true, (*API).postRecords},
	{http.MethodGet, "/records", true, (*API).getRecords},
	{http.MethodGet, "/record", true, (*API).getRecord},
	{http.MethodGet, "/key", true, (*API).getKey},
	{http.MethodGet, "/key/history", true, (*API).getKeyHistory},
	{http.MethodGet, "/keys", true, (*API).getKeys},
	{http.MethodGet, "/topic", true, (*API).getTopic},
	{http.MethodPut, "/topic", true, (*API).putTopic},
	{http.MethodDelete, "/topic", true, (*API).deleteTopic},
	{http.MethodPost, "/topic/trim", true, (*API).postTrim},
	{http.MethodGet, "/topics", true, (*API).getTopics},
	{http.MethodGet, "/offsets", true, (*API).getOffsets},
	{http.MethodPut, "/offsets", true, (*API).putOffsets},
	{http.MethodDelete, "/offsets", true, (*API).deleteOffset},
	{http.MethodGet, "/groups", true, (*API).getGroups},
	{http.MethodDelete, "/groups", true, (*API).deleteGroup},
	{http.MethodGet, "/metrics", true, (*API).getMetrics},
	{http.MethodGet, "/healthz", false, (*API).getHealth},
	{http.MethodGet, "/readyz", false, (*API).getReady},
	{http.MethodGet, "/openapi.json", false, (*API).getSpec},
	{http.MethodPost, "/event", true, (*API).postEvent},
	{http.MethodPost, "/evaluate", true, (*API).postEvaluate},
}

// name is the route's label in metrics.
func (rt route) name() string {
	if rt.path == "" {
		return "none"
	}
	return rt.method + " " + rt.path
}
