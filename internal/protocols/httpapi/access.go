package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// need is a right that a route requires of its client: an operation on a resource.
type need struct {
	operation access.Operation
	resource  access.ResourceType
	naming    naming
	name      string // the parameter, the path variable or the fixed name
}

// naming is where the name of a resource comes from. Zero is invalid.
type naming uint8

const (
	// fixed: the name is need.name.
	fixed naming = iota + 1
	// inQuery: the name is a parameter, which is required.
	inQuery
	// ifInQuery: the name is a parameter. Without it the route does not need the right.
	ifInQuery
	// eventsTopic: the name is a parameter, or the topic of events.
	eventsTopic
	// inPath: the name is a path variable.
	inPath
	// asked: the handler asks, because the name is in the body, or depends on the state.
	asked
	// inList: the handler leaves out what the client has no right to.
	inList
)

// needs are the rights that a route requires. The table of routes has one for each route: nil is no
// declaration, which a test refuses.
type needs []need

var (
	// open: the route needs no key.
	open = needs{}
	// anyKey: every client with a valid key may use the route.
	anyKey = needs{{naming: fixed}}
)

// needsKey reports whether the route requires a key.
func (rt *route) needsKey() bool { return len(rt.needs) > 0 }

// rightsMax bounds the rights of a request.
const rightsMax = 3

// right is a need with the name of a request.
type right struct {
	operation access.Operation
	resource  access.ResourceType
	name      string
}

// caller is the authenticated client of one request, with the rights that the request line names.
// Requests without a key have an empty one.
type caller struct {
	*auth.Identity
	n      int
	rights [rightsMax]right
}

// authorize sets the rights that a request needs, and returns why the client has not all of them.
func (by *caller) authorize(rt *route, r *http.Request, events string) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	for i := range rt.needs {
		n := &rt.needs[i]
		name, wanted := n.nameIn(r, q, events)
		if q.Fault != nil {
			return q.Fault
		}
		if wanted && n.operation != 0 {
			by.rights[by.n] = right{n.operation, n.resource, name}
			by.n++
		}
	}
	return by.check()
}

// nameIn returns the name of a resource from the request line, and whether the request needs a
// right to it. Invalid names are faults of q.
func (n *need) nameIn(r *http.Request, q *httpconn.Params, events string) (name string, wanted bool) {
	switch n.naming {
	case fixed:
		return n.name, true
	case inPath:
		return r.PathValue(n.name), true
	case inQuery, ifInQuery, eventsTopic:
	default:
		return "", false
	}
	_, given := q.Text(n.name)
	if !given && n.naming == ifInQuery {
		return "", false
	}
	if !given && n.naming == eventsTopic {
		return events, true
	}
	switch n.resource {
	case access.Group:
		return q.Group(), true
	case access.TransactionalID:
		return q.TransactionalID(), true
	case access.Trigger:
		name, _ = q.Text(n.name)
		if err := rule.CheckID(name); err != nil {
			q.Fail(n.name, "%v", err)
		}
		return name, true
	}
	return q.Topic(), true
}

// allowed reports whether the client still has the rights that the request line names.
func (by *caller) allowed() bool { return by.check() == nil }

// check returns why the client may no longer make the request, or nil.
func (by *caller) check() error {
	if by.Root() {
		return nil
	}
	if !by.Valid() {
		return by.Err()
	}
	for i := range by.n {
		if w := &by.rights[i]; !by.Allow(w.operation, w.resource, w.name) {
			return by.refused(w.operation, w.resource, w.name)
		}
	}
	return nil
}

// refused returns the reason for a missing right: the client's secret has expired, or no rule allows
// the operation.
func (by *caller) refused(o access.Operation, t access.ResourceType, name string) error {
	if err := by.Err(); err != nil {
		return err
	}
	return forbidden(o, t, name)
}

// may returns nil if the client may perform an operation on a resource, or why not.
func (by *caller) may(o access.Operation, t access.ResourceType, name string) error {
	if !by.Allow(o, t, name) {
		return by.refused(o, t, name)
	}
	return nil
}

// forbidden returns the answer to a client without a right. It does not depend on whether the
// resource exists.
func forbidden(o access.Operation, t access.ResourceType, name string) error {
	d := &denial{right: right{o, t, name}}
	switch t {
	case access.Cluster, access.Metrics:
		d.Problem = problem.New(api.Forbidden, "the key does not allow %s on the %s", o, t)
	default:
		d.Problem = problem.New(api.Forbidden, "the key does not allow %s on %s %s", o, t, problem.Quote(name))
		if o == access.Create && t == access.Topic {
			d.Detail += ": create the topic with another key (seb topic create), or allow it to this one (seb acl allow)"
		}
	}
	return d
}

// denial is a problem with the right that the client does not have.
type denial struct {
	*api.Problem
	right
}

// Unwrap returns the problem.
func (d *denial) Unwrap() error { return d.Problem }

// origin describes the client of a request in audit records.
func (by *caller) origin(ctx context.Context) audit.Origin {
	o, slot := by.Origin(), httpconn.SlotOf(ctx)
	from, ok := ctx.Value(fromKey{}).(audit.Origin)
	if !ok {
		from = audit.Origin{Protocol: "http", From: slot.Remote(), Request: slot.RequestID()}
	}
	o.Protocol, o.From, o.Request = from.Protocol, from.From, from.Request
	return o
}

type fromKey struct{}

// WithFrom returns the context of a request whose connection is not one of API.Server. Audit records
// have the Protocol, From and Request of o.
func WithFrom(ctx context.Context, o audit.Origin) context.Context {
	return context.WithValue(ctx, fromKey{}, o)
}

// audited returns err, and reports a denial for the audit topic. Other errors are none.
func (a *API) audited(r *http.Request, by *caller, err error) error {
	if err == nil || problemOf(err).Code != api.Forbidden {
		return err
	}
	of := right{access.Alter, access.Cluster, access.ClusterName} // a token that would have more rights
	if d, ok := errors.AsType[*denial](err); ok {
		of = d.right
	}
	a.b.Denied(by.origin(r.Context()), of.operation, of.resource, of.name)
	return err
}

// require adds a right that only the body or the state names to those that the request needs, and
// returns why the client does not have it.
func (by *caller) require(o access.Operation, t access.ResourceType, name string) error {
	if by.Root() {
		return nil
	}
	by.rights[by.n] = right{o, t, name}
	by.n++
	return by.check()
}

// checked returns the client's authority for a request that waits to be stored.
func (by *caller) checked(o access.Operation, t access.ResourceType, name string) (*access.Check, error) {
	if check, ok := by.Check(o, t, name); ok {
		return check, nil
	}
	return nil, by.refused(o, t, name)
}

// changing returns a context for a change of the state that needs a right. The broker examines the
// right again when it stores the change.
func (by *caller) changing(ctx context.Context, o access.Operation, t access.ResourceType, name string) (context.Context, error) {
	check, err := by.checked(o, t, name)
	return by.acting(ctx, check), err
}

// acting returns a context for a change of the state by the client.
func (by *caller) acting(ctx context.Context, check *access.Check) context.Context {
	return broker.WithClient(ctx, broker.Client{Check: check, Origin: by.origin(ctx)})
}

// visible removes the offsets in topics that the client may not describe, in place.
func (by *caller) visible(offsets []broker.GroupOffset) []broker.GroupOffset {
	if by.Root() {
		return offsets
	}
	return slices.DeleteFunc(offsets, func(o broker.GroupOffset) bool { return !by.Allow(access.Describe, access.Topic, o.Topic) })
}

// until returns a context for a wait: it ends with ctx, or when the client loses a right that the
// request line names. The caller must call stop.
func (by *caller) until(ctx context.Context) (_ context.Context, stop func()) {
	if by.Root() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	unwatch := by.Watch(by.allowed, cancel)
	return ctx, func() { unwatch(); cancel() }
}

// principal is the caller of a request with a token, and the writer of the answer to a read. Before
// each write it checks the client's rights, so that no data follows a revocation.
type principal struct {
	caller
	w     http.ResponseWriter
	began bool  // the head was sent
	err   error // why the answer was refused
}

// refused reports whether the client may no longer have the answer.
func (p *principal) refused() bool {
	if p.err == nil {
		p.err = p.check()
	}
	return p.err != nil
}

// Unwrap gives http.ResponseController access to the connection.
func (p *principal) Unwrap() http.ResponseWriter { return p.w }

// Header implements http.ResponseWriter.
func (p *principal) Header() http.Header { return p.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (p *principal) WriteHeader(status int) {
	if !p.refused() {
		p.began = true
		p.w.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (p *principal) Write(b []byte) (int, error) {
	if p.refused() {
		return 0, p.err
	}
	p.began = true
	n, err := p.w.Write(b)
	p.Meter().Use(auth.Fetched, int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom, for sendfile.
func (p *principal) ReadFrom(r io.Reader) (int64, error) {
	if p.refused() {
		return 0, p.err
	}
	p.began = true
	n, err := io.Copy(p.w, r)
	p.Meter().Use(auth.Fetched, n)
	return n, err
}

// authenticate returns the client of a request: by its key, or without one by its session, its
// certificate, or the broker that has verified its certificate. A session ends at a time; others do not.
func (a *API) authenticate(r *http.Request, slot *httpconn.ConnSlot) (who *auth.Identity, ends time.Time, err error) {
	if s := sqsOf(r); s != nil {
		who, err = s.authenticate(r)
		return who, ends, err
	}
	keys := r.Header["Authorization"]
	if page := r.Header.Get(api.HeaderSession); page != "" && len(keys) == 0 {
		return a.bySession(r, page)
	}
	peer := slot.Peer()
	switch {
	case len(keys) > 0 || peer == nil && !isForwarded(r):
		who, err = a.o.Auth.Bearer(r.Context(), keys, r.RemoteAddr)
	case isForwarded(r): // the certificate of the connection is that of a broker
		who, err = a.onBehalf(r)
	default:
		who, err = a.o.Auth.Certificate(r.Context(), peer, r.RemoteAddr)
	}
	return who, ends, err
}

// outcome returns the error of a request of a client that may have lost its rights meanwhile.
func (p *principal) outcome(rt *route, err error) error {
	switch {
	case rt.method != http.MethodGet:
		// A write is answered with its outcome, even to a client that has lost its rights.
		if err != nil && problemOf(err).Code == api.Forbidden && p.refused() {
			return p.err
		}
		return err
	case err == nil && p.err == nil || err != nil && !p.refused():
		return err
	case p.began:
		return http.ErrAbortHandler
	}
	forgetAnswer(p.w.Header())
	return p.err
}

// forgetAnswer removes the headers of an answer that is not sent, because they describe its data.
func forgetAnswer(h http.Header) {
	for name := range h {
		if name != "Connection" && name != "Vary" && !strings.HasPrefix(name, "Access-Control-") {
			delete(h, name)
		}
	}
}
