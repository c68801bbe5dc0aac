package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi/forward"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// newForwarder returns the forwarder of requests to the leader, or nil without Options.Cluster.
func (a *API) newForwarder() *forward.Forwarder {
	if a.o.Cluster == nil {
		return nil
	}
	return forward.New(forward.Options{
		View: a.o.Cluster, Leads: a.b.Leads, Memory: a.produce, Buffers: a.buffers, Timeout: a.pace, TLS: a.o.ClusterTLS, Wait: a.o.LeaderWait,
	})
}

// needsLeader reports whether the leader answers a request of a client with a key. A read waits until
// this broker has applied what its answer must include.
func (a *API) needsLeader(rt *route, r *http.Request) (bool, error) {
	switch {
	case rt.at != anyBroker:
		return rt.at == leader, nil
	case wantsLeader(r) || a.b.StoreFault() != nil && a.leaderReads(rt, r):
		return true, nil
	}
	ready, err := a.reached(r)
	switch {
	case err != nil || ready:
		return false, err
	case a.forwarder == nil || a.forwarder.First(r, false) != cluster.ForwardCall:
		return false, notYet()
	}
	return true, nil
}

// forwardable prepares a request that the leader answers so that it can be forwarded, now or if this
// broker stops leading. The caller closes the call. nil: this broker alone answers the request.
func (a *API) forwardable(rt *route, w http.ResponseWriter, r *http.Request) (*forward.Call, error) {
	if a.forwarder == nil || a.forwarder.Alone() {
		return nil, nil
	}
	switch route := a.forwarder.First(r, rt.at == leader && !a.b.ReadOnly()); {
	case route == cluster.RefuseCall && isForwarded(r):
		return nil, a.notLeader()
	case route == cluster.RefuseCall || isForwarded(r):
		// A follower without a leader refuses writes, and confirms reads by the store. A forwarded request
		// that fails is sent to the next leader by the first broker.
		return nil, nil
	case route == cluster.ServeCall:
		return a.forwarder.Keep(w, r), nil
	}
	call, err := a.forwarder.Begin(w, r, a.waits(rt, r))
	if err != nil {
		a.metrics.forwarded(codeOf(err), 0)
	}
	return call, err
}

// leaderReads reports whether the leader answers a read if the store does not answer this standby.
func (a *API) leaderReads(rt *route, r *http.Request) bool {
	return rt.method == http.MethodGet && a.forwarder != nil && !isForwarded(r) && a.b.LedElsewhere()
}

// ledNoMore reports whether a request failed because this broker leads no more, and has no effect.
func ledNoMore(err error) bool {
	if err == nil || errors.Is(err, http.ErrAbortHandler) {
		return false
	}
	p := problemOf(err)
	return (p.Code == api.NotLeader || p.Code == api.Fenced) && len(p.Results)+len(p.Offsets) == 0
}

// send forwards a request.
func (a *API) send(rt *route, call *forward.Call, w http.ResponseWriter, r *http.Request) error {
	as, err := a.certified(r)
	if err != nil {
		return err
	}
	call.Prepare = func(out *http.Request, to cluster.Run) {
		a.vouch(r, out, to, as)
		passSession(r, out)
	}
	call.Answered = func(resp *http.Response, p *api.Problem) error {
		if p != nil && a.misleads(rt, r, p) {
			return p // the caller cuts the connection
		}
		a.relayed(r, resp)
		return nil
	}
	if s := sqsOf(r); rt.path == leasePath || s != nil && s.Waits() { // its connection waits, as at the leader
		ctx, done := a.stops.Until(r.Context())
		defer done()
		slot := httpconn.SlotOf(ctx)
		if !slot.Wait(httpconn.PollBytes, done) {
			return a.source.noReader()
		}
		defer slot.EndWait()
		call.Within(ctx)
	}
	began := time.Now()
	err = call.Send(r)
	if httpconn.SlotOf(r.Context()).Displaced() {
		w.Header().Set("Connection", "close")
	}
	if !errors.Is(err, forward.ErrLeads) {
		a.metrics.forwarded(codeOf(err), time.Since(began))
	}
	return err
}

// notLeader refuses a forwarded request.
func (a *API) notLeader() error {
	p := problem.New(api.NotLeader, "this broker does not lead")
	if to, ok := a.forwarder.Leader(); ok {
		p.Leader = to.URL
	}
	p.Status = http.StatusMisdirectedRequest
	return p
}

// isForwarded reports whether another broker has forwarded a request.
func isForwarded(r *http.Request) bool { return len(r.Header[api.HeaderForwarded]) > 0 }

// wantsLeader reports whether a read needs the leader, by its parameters: it must include everything
// committed before it, or asks for the members of groups.
func wantsLeader(r *http.Request) bool {
	if !strings.Contains(r.URL.RawQuery, httpconn.ParamRead) && !strings.Contains(r.URL.RawQuery, httpconn.ParamMembers) {
		return false
	}
	q := httpconn.ParseParams(r.URL.RawQuery)
	latest := q.Latest()
	_, members := q.Text(httpconn.ParamMembers)
	return q.Fault == nil && (latest || members && q.Bool(httpconn.ParamMembers))
}

// waits returns how a request waits for memory, or nil if it does not.
func (a *API) waits(rt *route, r *http.Request) func(*httpconn.Body) {
	if rt.name() != "POST /records" {
		return nil
	}
	if kind, _, err := contentType(r.Header.Get("Content-Type")); err != nil || !originalProduce(kind, r) {
		return nil
	}
	return func(in *httpconn.Body) { in.WaitForMemory(a.o.BudgetWait, a.stops) }
}

// vouch names the client of a forwarded request, because rules and audit records depend on its address.
// The code shows that a broker with the same root key says so. as is a client that is known by its
// certificate, or nil. The code for that is worth nothing for another request, at another broker, or
// after the end of that broker.
func (a *API) vouch(r, out *http.Request, to cluster.Run, as *auth.Identity) {
	run, key := out.Header.Get(api.HeaderForwarded), r.Header.Get("Authorization")
	out.Header.Set(api.HeaderForwardedFor, r.RemoteAddr+" "+a.o.Auth.Vouch(run, r.RemoteAddr, key))
	if as != nil {
		name, ends := as.Name(), strconv.FormatInt(as.Expires().UnixMicro(), 10)
		code := a.o.Auth.Vouch("certificate", run, to.String(), r.RemoteAddr, out.Method, out.URL.RequestURI(), ends, name)
		out.Header.Set(api.HeaderForwardedAs, code+" "+ends+" "+url.PathEscape(name))
	}
	if s := sqsOf(r); s != nil {
		out.Header.Set(api.HeaderForwardedAs, a.vouchSigned(out, run, to.String(), r.RemoteAddr, s))
	}
}

// certified returns a client that is known by its certificate; nil: by a key or a session.
func (a *API) certified(r *http.Request) (*auth.Identity, error) {
	peer := httpconn.SlotOf(r.Context()).Peer()
	if peer == nil || sqsOf(r) != nil || len(r.Header["Authorization"]) > 0 || r.Header.Get(api.HeaderSession) != "" {
		return nil, nil
	}
	return a.o.Auth.Holder(peer, r.RemoteAddr)
}

// onBehalf returns the client with a certificate for which another broker has forwarded a request.
func (a *API) onBehalf(r *http.Request) (*auth.Identity, error) {
	parts := strings.Split(r.Header.Get(api.HeaderForwardedAs), " ")
	if len(parts) == signedParts && a.o.Cluster != nil {
		return a.signedOnBehalf(r, parts)
	}
	if len(parts) != 3 || a.o.Cluster == nil {
		return nil, auth.ErrUnauthenticated
	}
	name, err := url.PathUnescape(parts[2])
	ends, fault := strconv.ParseInt(parts[1], 10, 64)
	run, to := r.Header.Get(api.HeaderForwarded), a.o.Cluster.Self().Run.String()
	if err != nil || fault != nil || !a.o.Auth.Vouched(parts[0], "certificate", run, to, r.RemoteAddr, r.Method, r.URL.RequestURI(), parts[1], name) {
		return nil, auth.ErrUnauthenticated
	}
	who := a.o.Auth.OnBehalf(name, 0, time.UnixMicro(ends), r.RemoteAddr)
	return who, who.Err()
}

// forwardedFor sets the client's address of a forwarded request.
func (a *API) forwardedFor(r *http.Request) {
	if !isForwarded(r) {
		return
	}
	remote, code, _ := strings.Cut(r.Header.Get(api.HeaderForwardedFor), " ")
	if a.o.Auth.Vouched(code, r.Header.Get(api.HeaderForwarded), remote, r.Header.Get("Authorization")) {
		r.RemoteAddr = remote
		httpconn.SlotOf(r.Context()).ForwardedFor(remote)
	}
}

// passSession gives the cookie of a session the name that it has at the other broker.
func passSession(r, out *http.Request) {
	if r.Header.Get(api.HeaderSession) == "" || len(r.Header["Authorization"]) > 0 {
		return
	}
	cookie, err := r.Cookie(sessionCookie(r))
	if err != nil {
		return
	}
	out.AddCookie(&http.Cookie{Name: cookieFor(out.URL.Host), Value: cookie.Value})
}

// peerPath is the path of links between brokers. It answers under every name of the broker, because
// others dial the address that it registered, and a web page cannot ask for the upgrade.
const peerPath = "/peer/link"

// getPeerLink gives the connection to the links of this broker, which authenticate the other one.
func (a *API) getPeerLink(w http.ResponseWriter, r *http.Request, _ *caller) error {
	if a.o.PeerLink == nil {
		return problem.New(api.NotFound, "this broker has no links to other brokers")
	}
	return a.o.PeerLink(w, r)
}
