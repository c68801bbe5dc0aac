package httpapi

import (
	"net/http"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// arguments are what a route reads besides its path.
type arguments struct {
	body  bool
	query []string
}

// takes are the arguments of the routes that change something or take a body, as in openapi.yaml. A
// request with another argument is refused: its client expects an effect that it would not have.
var takes = map[routeKey]arguments{
	{http.MethodPost, "/records"}: {true, []string{
		httpconn.ParamTopic, httpconn.ParamPartition, httpconn.ParamExpectedOffset, httpconn.ParamTimeout, httpconn.ParamAtomic,
	}},
	{http.MethodPut, "/topic"}:          {true, []string{httpconn.ParamTopic}},
	{http.MethodDelete, "/topic"}:       {false, []string{httpconn.ParamTopic, httpconn.ParamForce}},
	{http.MethodPost, "/topic/trim"}:    {false, []string{httpconn.ParamTopic, httpconn.ParamPartition, httpconn.ParamOffset}},
	{http.MethodPut, "/queues/{queue}"}: {true, nil},
	{http.MethodPost, "/queues/{queue}/messages"}: {true, []string{
		httpconn.ParamTimeout, httpconn.ParamKey, httpconn.ParamKey + httpconn.Base64, paramDelay, paramAt, paramDedup, paramPriority, paramExpire,
	}},
	{http.MethodPost, "/queues/{queue}/lease"}:   {true, nil},
	{http.MethodPost, "/queues/{queue}/settle"}:  {true, nil},
	{http.MethodPost, "/queues/{queue}/redrive"}: {true, nil},
	{http.MethodPut, schedulePath}:               {true, []string{ParamDryRun}},
	{http.MethodPut, "/offsets"}:                 {true, []string{httpconn.ParamGroup, httpconn.ParamTopic, httpconn.ParamPartition}},
	{http.MethodDelete, "/offsets"}:              {false, []string{httpconn.ParamGroup, httpconn.ParamTopic, httpconn.ParamPartition}},
	{http.MethodDelete, "/groups"}:               {false, []string{httpconn.ParamGroup}},
	{http.MethodPost, "/transactions/abort"}:     {false, []string{httpconn.ParamTransactional}},
	{http.MethodPost, "/event"}:                  {true, []string{httpconn.ParamTopic, httpconn.ParamTimeout}},
	{http.MethodPost, "/drip/parse"}:             {true, nil},
	{http.MethodPost, "/drip/stories"}:           {true, nil},
	{http.MethodPost, "/evaluate"}:               {true, nil},
	{http.MethodPost, "/triggers/check"}:         {true, []string{VariableID}},
	{http.MethodPost, "/triggers/dry-run"}:       {true, []string{httpconn.ParamSince, httpconn.ParamUntil, httpconn.ParamSample}},
	{http.MethodPut, "/triggers/{id}"}:           {true, nil},
	{http.MethodDelete, "/entities/{entity}"}:    {false, []string{httpconn.ParamTopic}},
	{http.MethodPost, "/tokens"}:                 {true, nil},
	{http.MethodPost, "/tokens/{id}/rotate"}:     {false, []string{httpconn.ParamOverlap}},
	{http.MethodPost, "/tokens/{id}/aws"}:        {false, nil},
	{http.MethodPost, "/acls"}:                   {true, nil},
	{http.MethodDelete, "/acls"}: {false, []string{
		httpconn.ParamPrincipal, httpconn.ParamResource, httpconn.ParamPattern, httpconn.ParamOperation, httpconn.ParamDeny, httpconn.ParamHost,
	}},
	{http.MethodPut, "/quotas/{id}"}: {true, nil},
}

// checkArguments returns the fault of an argument that the route does not read. GET routes ignore
// others, because programs add some to any address.
func (rt *route) checkArguments(w http.ResponseWriter, r *http.Request) error {
	if s := sqsOf(r); s != nil {
		return s.fault
	}
	if rt.method == http.MethodGet {
		return nil
	}
	a := takes[rt.key()]
	q := httpconn.ParseParams(r.URL.RawQuery)
	if name := q.Other(a.query); name != "" {
		q.Fail(name, "unknown parameter of %s%s", rt.name(), a.parameters())
	}
	if q.Fault != nil {
		return q.Fault
	}
	if a.body || r.ContentLength == 0 {
		return nil
	}
	if r.ContentLength < 0 {
		_, err := httpconn.Small(w, r, 0)
		if err == nil || problemOf(err).Code != api.TooLarge {
			return err
		}
	}
	return problem.BadField("body", "%s takes none%s", rt.name(), a.parameters())
}

// parameters describes where the client can give something.
func (a *arguments) parameters() string {
	if len(a.query) == 0 {
		return ""
	}
	return "; its parameters are in the query: " + strings.Join(a.query, ", ")
}
