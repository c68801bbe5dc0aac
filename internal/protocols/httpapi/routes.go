package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
)

// route is one line of the table. GET routes serve HEAD as well.
type route struct {
	method string
	path   string // a segment in braces matches any text except ""
	at     servedBy
	needs  needs
	serve  serveFunc
}

// serveFunc answers a request, or returns an error before it has written anything.
type serveFunc func(a *API, w http.ResponseWriter, r *http.Request, by *caller) error

// servedBy is which of several brokers answers a request. Zero is invalid.
type servedBy uint8

const (
	// here: the broker that gets the request, because the answer is about it, or depends on nothing.
	here servedBy = iota + 1
	// anyBroker: any one, from what it has applied of the log. The leader, if the answer must include
	// everything committed before the request, or what only the leader knows.
	anyBroker
	// leader: the leader.
	leader
)

// Needs of several routes.
var (
	readTopic       = need{access.Read, access.Topic, inQuery, httpconn.ParamTopic}
	deleteTopic     = need{access.Delete, access.Topic, inQuery, httpconn.ParamTopic}
	readQueue       = need{access.Read, access.Topic, inPath, variableQueue}
	workQueue       = need{access.Read, access.Group, inPath, variableQueue}
	writeQueue      = need{access.Write, access.Topic, inPath, variableQueue}
	configQueue     = need{access.AlterConfigs, access.Topic, inPath, variableQueue}
	deleteQueue     = need{access.Delete, access.Topic, inPath, variableQueue}
	describeGroup   = need{access.Describe, access.Group, inQuery, httpconn.ParamGroup}
	deleteGroup     = need{access.Delete, access.Group, inQuery, httpconn.ParamGroup}
	readTrigger     = need{access.Read, access.Trigger, inPath, VariableID}
	writeTrigger    = need{access.Write, access.Trigger, inPath, VariableID}
	describeCluster = need{access.Describe, access.Cluster, fixed, access.ClusterName}
	alterCluster    = need{access.Alter, access.Cluster, fixed, access.ClusterName}
	describeConfigs = need{access.DescribeConfigs, access.Cluster, fixed, access.ClusterName}
	alterConfigs    = need{access.AlterConfigs, access.Cluster, fixed, access.ClusterName}
	describeMetrics = need{access.Describe, access.Metrics, fixed, access.MetricsName}
)

// routes lists every route and the rights that it needs. openapi.yaml describes each. Tests derive
// the matrix of permissions from it.
var routes = []route{
	{http.MethodPost, "/records", leader, needs{{access.Write, access.Topic, ifInQuery, httpconn.ParamTopic}, {access.Write, access.Topic, asked, ""}}, (*API).postRecords},
	{http.MethodGet, "/records", anyBroker, needs{readTopic, {access.Read, access.Group, ifInQuery, httpconn.ParamGroup}}, (*API).getRecords},
	{http.MethodGet, "/record", anyBroker, needs{readTopic}, (*API).getRecord},
	{http.MethodGet, "/key", anyBroker, needs{readTopic}, (*API).getKey},
	{http.MethodGet, "/key/history", anyBroker, needs{readTopic}, encoded((*API).getKeyHistory)},
	{http.MethodGet, "/keys", anyBroker, needs{readTopic}, encoded((*API).getKeys)},
	{http.MethodGet, "/topic", anyBroker, needs{{access.Describe, access.Topic, inQuery, httpconn.ParamTopic}}, encoded((*API).getTopic)},
	{http.MethodPut, "/topic", leader, needs{{access.Create, access.Topic, asked, ""}, {access.Alter, access.Topic, asked, ""}}, (*API).putTopic},
	{http.MethodDelete, "/topic", leader, needs{deleteTopic}, (*API).deleteTopic},
	{http.MethodPost, "/topic/trim", leader, needs{deleteTopic}, (*API).postTrim},
	{http.MethodGet, "/topic/offsets", anyBroker, needs{{access.Describe, access.Topic, inQuery, httpconn.ParamTopic}}, encoded((*API).getTopicOffsets)},
	{http.MethodGet, "/topics", anyBroker, needs{{access.Describe, access.Topic, inList, ""}}, encoded((*API).getTopics)},
	{http.MethodGet, "/queues", anyBroker, needs{{access.Describe, access.Topic, inList, ""}}, encoded((*API).getQueues)},
	{http.MethodGet, "/queues/{queue}", anyBroker, needs{{access.Describe, access.Topic, inPath, variableQueue}}, encoded((*API).getQueue)},
	{http.MethodPut, "/queues/{queue}", leader, needs{{access.Create, access.Topic, asked, ""}, {access.AlterConfigs, access.Topic, asked, ""}}, (*API).putQueue},
	{http.MethodDelete, "/queues/{queue}", leader, needs{deleteQueue}, (*API).deleteQueue},
	{http.MethodGet, "/queues/{queue}/stats", leader, needs{{access.Describe, access.Topic, inPath, variableQueue}}, encoded((*API).getQueueStats)},
	{http.MethodPost, "/queues/{queue}/pause", leader, needs{configQueue}, pausingQueue("true")},
	{http.MethodPost, "/queues/{queue}/resume", leader, needs{configQueue}, pausingQueue("")},
	{http.MethodGet, "/queues/{queue}/messages", anyBroker, needs{readQueue}, encoded((*API).getMessages)},
	{http.MethodPost, "/queues/{queue}/messages", leader, needs{writeQueue}, (*API).postMessages},
	{http.MethodDelete, "/queues/{queue}/messages/{message}", leader, needs{deleteQueue}, (*API).deleteMessage},
	{http.MethodPost, leasePath, leader, needs{readQueue, workQueue}, (*API).postLease},
	{http.MethodPost, "/queues/{queue}/settle", leader, needs{readQueue, workQueue}, (*API).postSettle},
	{http.MethodPost, "/queues/{queue}/redrive", leader, needs{readQueue, workQueue, {access.Write, access.Topic, asked, ""}}, (*API).postRedrive},
	{http.MethodPost, "/queues/{queue}/purge", leader, needs{deleteQueue}, (*API).postPurge},
	{http.MethodGet, "/queues/{queue}/schedules", anyBroker, needs{readQueue}, encoded((*API).getSchedules)},
	{http.MethodGet, schedulePath, anyBroker, needs{readQueue}, encoded((*API).getSchedule)},
	{http.MethodPut, schedulePath, leader, needs{configQueue, writeQueue}, (*API).putSchedule},
	{http.MethodDelete, schedulePath, leader, needs{configQueue}, (*API).deleteSchedule},
	{http.MethodGet, "/settings", here, anyKey, encoded((*API).getSettings)},
	{http.MethodGet, "/offsets", anyBroker, needs{describeGroup, {access.Describe, access.Topic, inList, ""}}, encoded((*API).getOffsets)},
	{http.MethodPut, "/offsets", leader, needs{{access.Read, access.Group, inQuery, httpconn.ParamGroup}, {access.Read, access.Topic, asked, ""}}, (*API).putOffsets},
	{http.MethodDelete, "/offsets", leader, needs{deleteGroup, readTopic}, (*API).deleteOffset},
	{http.MethodGet, "/groups", anyBroker, needs{{access.Describe, access.Group, ifInQuery, httpconn.ParamGroup}, {access.Describe, access.Group, inList, ""}}, encoded((*API).getGroups)},
	{http.MethodDelete, "/groups", leader, needs{deleteGroup}, (*API).deleteGroup},
	{http.MethodGet, "/transactions", anyBroker, needs{{access.Describe, access.TransactionalID, ifInQuery, httpconn.ParamTransactional}, {access.Describe, access.TransactionalID, inList, ""}}, encoded((*API).getTransactions)},
	{http.MethodPost, "/transactions/abort", leader, needs{alterCluster}, (*API).postTransactionAbort},
	{http.MethodGet, "/cluster", here, needs{describeCluster}, encoded((*API).getCluster)},
	{http.MethodPost, "/cluster/hand-over", leader, needs{alterCluster}, (*API).postHandOver},
	{http.MethodDelete, "/cluster/{run}", here, needs{alterCluster}, (*API).deleteRun},
	{http.MethodGet, "/upgrade", anyBroker, needs{describeCluster}, (*API).getUpgrade},
	{http.MethodPost, "/upgrade", leader, needs{alterCluster}, (*API).postUpgrade},
	{http.MethodGet, "/time", anyBroker, needs{describeCluster}, (*API).getTime},
	{http.MethodPost, "/time/reset", leader, needs{alterCluster}, (*API).postTimeReset},
	{http.MethodGet, "/tokens", anyBroker, needs{{access.Describe, access.Cluster, inList, ""}}, encoded((*API).getTokens)},
	{http.MethodPost, "/tokens", leader, needs{alterCluster}, (*API).postToken},
	{http.MethodGet, "/tokens/{id}", anyBroker, needs{{access.Describe, access.Cluster, asked, ""}}, encoded((*API).getToken)},
	{http.MethodDelete, "/tokens/{id}", leader, needs{alterCluster}, (*API).deleteToken},
	{http.MethodPost, "/tokens/{id}/rotate", leader, needs{{access.Alter, access.Cluster, asked, ""}}, (*API).postTokenRotate},
	{http.MethodPost, "/tokens/{id}/aws", leader, needs{{access.Alter, access.Cluster, asked, ""}}, (*API).postTokenAWS},
	{http.MethodGet, "/acls", anyBroker, needs{describeCluster}, encoded((*API).getRules)},
	{http.MethodPost, "/acls", leader, needs{alterCluster}, (*API).postRules},
	{http.MethodDelete, "/acls", leader, needs{alterCluster}, (*API).deleteRules},
	{http.MethodGet, "/quotas", anyBroker, needs{describeConfigs}, encoded((*API).getQuotas)},
	{http.MethodPut, "/quotas/{id}", leader, needs{alterConfigs}, (*API).putQuota},
	{http.MethodDelete, "/quotas/{id}", leader, needs{alterConfigs}, (*API).deleteQuota},
	{http.MethodGet, "/secrets", anyBroker, needs{describeCluster}, answering(budget.Fetch, (*Triggers).Secrets)},
	{http.MethodPost, "/secrets/rewrap", leader, needs{alterCluster}, (*API).postRewrap},
	{http.MethodGet, "/metrics", here, needs{describeMetrics}, encoded((*API).getMetrics)},
	{http.MethodGet, "/stats", here, needs{describeMetrics}, encoded((*API).getStats)},
	{http.MethodGet, "/cost", here, needs{describeMetrics}, encoded((*API).getCost)},
	{http.MethodGet, "/latency", here, needs{describeMetrics}, encoded((*API).getLatency)},
	{http.MethodGet, "/status", here, needs{describeMetrics}, encoded((*API).getStatus)},
	{http.MethodPost, "/console/login", here, anyKey, (*API).postLogin},
	{http.MethodGet, "/console/session", here, anyKey, (*API).getSession},
	{http.MethodPost, "/console/logout", here, anyKey, (*API).postLogout},
	{http.MethodGet, "/healthz", here, open, (*API).getHealth},
	{http.MethodGet, "/readyz", here, open, (*API).getReady},
	{http.MethodGet, peerPath, here, open, (*API).getPeerLink},
	{http.MethodGet, "/openapi.json", here, open, encoded((*API).getSpec)},
	{http.MethodPost, "/event", leader, needs{{access.Write, access.Topic, eventsTopic, httpconn.ParamTopic}}, (*API).postEvent},
	{http.MethodGet, "/events/names", anyBroker, needs{{access.Read, access.Topic, eventsTopic, httpconn.ParamTopic}}, encoded((*API).getEventNames)},
	{http.MethodGet, "/riemann/index", anyBroker, needs{{access.Read, access.Topic, asked, ""}}, encoded((*API).getRiemannIndex)},
	{http.MethodPost, "/evaluate", here, anyKey, (*API).postEvaluate},
	{http.MethodPost, "/drip/parse", here, anyKey, encoded((*API).postParse)},
	{http.MethodPost, "/drip/stories", here, anyKey, encoded((*API).postStories)},
	{http.MethodGet, "/triggers", anyBroker, needs{{access.Read, access.Trigger, inList, ""}}, encoded((*API).getTriggers)},
	{http.MethodPost, "/triggers/check", anyBroker, anyKey, answering(budget.Produce, (*Triggers).Check)},
	{http.MethodPost, "/triggers/dry-run", anyBroker, needs{{access.Write, access.Trigger, asked, ""}, {access.Read, access.Topic, asked, ""}}, (*API).postDryRun},
	{http.MethodGet, "/triggers/{id}", anyBroker, needs{readTrigger}, encoded(answering(budget.Fetch, (*Triggers).Get))},
	{http.MethodPut, "/triggers/{id}", leader, needs{writeTrigger, {access.Read, access.Topic, asked, ""}}, answering(budget.Produce, (*Triggers).Put)},
	{http.MethodDelete, "/triggers/{id}", leader, needs{{access.Delete, access.Trigger, inPath, VariableID}}, doing((*Triggers).Delete)},
	{http.MethodPost, "/triggers/{id}/pause", leader, needs{writeTrigger}, answering(budget.Fetch, pausing(true))},
	{http.MethodPost, "/triggers/{id}/resume", leader, needs{writeTrigger}, answering(budget.Fetch, pausing(false))},
	{http.MethodGet, "/triggers/{id}/entities/{entity}", anyBroker, needs{readTrigger}, encoded(answering(budget.Fetch, (*Triggers).Explain))},
	{http.MethodGet, "/firings", anyBroker, needs{{access.Read, access.Trigger, ifInQuery, ParamTrigger}, {access.Read, access.Trigger, inList, ""}}, encoded(answering(budget.Fetch, (*Triggers).Firings))},
	{http.MethodGet, "/firings/{id}", anyBroker, needs{{access.Read, access.Trigger, asked, ""}}, encoded(answering(budget.Fetch, (*Triggers).Firing))},
	{http.MethodPost, "/firings/{id}/resend", leader, needs{{access.Write, access.Trigger, asked, ""}}, answering(budget.Fetch, (*Triggers).Resend)},
	{http.MethodGet, "/entities/{entity}", anyBroker, needs{{access.Read, access.Trigger, inList, ""}}, encoded(answering(budget.Fetch, (*Triggers).Entity))},
	{http.MethodDelete, "/entities/{entity}", leader, needs{{access.Delete, access.Trigger, fixed, access.Any}}, doing((*Triggers).Erase)},
}

// encoded compresses a route's answer if the client accepts that and the answer is long enough. It is
// a method value, because the compiler would copy a function literal to each route.
func encoded(serve serveFunc) serveFunc { return serve.encoded }

func (serve serveFunc) encoded(a *API, w http.ResponseWriter, r *http.Request, by *caller) error {
	e := a.encoders.Writer(w, r)
	if e == nil {
		return serve(a, w, r, by)
	}
	defer e.Release()
	if err := serve(a, e, r, by); err != nil {
		return err
	}
	return Sent(e.Close())
}

// reads reports whether a request takes no slot of a waiting reader, because it may wait itself.
func (rt *route) reads(r *http.Request) bool {
	s := sqsOf(r)
	return rt.method == http.MethodGet || rt.path == leasePath || s != nil && s.Waits()
}

// refusing returns the route with a handler that refuses each request.
func (rt *route) refusing(err error) *route {
	refuses := *rt
	if rt.isSQS() { // this broker must verify the signature
		refuses.at = here
	}
	refuses.serve = func(*API, http.ResponseWriter, *http.Request, *caller) error { return err }
	return &refuses
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
