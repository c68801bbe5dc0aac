package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/sqs"
	"github.com/sebbroker/seb/record"
)

// The routes of the SQS API. Requests are recognized by their form (sqs.Is), not by a path.
var (
	sqsRoute   = &route{http.MethodPost, "sqs", leader, anyKey, (*API).serveSQS}
	sqsReceive = &route{http.MethodPost, "sqs receive", leader, anyKey, (*API).serveSQS}
)

// sqsRequest is a request of the SQS API.
type sqsRequest struct {
	sqs.Call
	a      *API
	w      http.ResponseWriter
	memory budget.Arena
	who    *auth.Identity
	body   []byte
	read   bool
	fault  error // of the action, after the client is known
	by     *caller
}

// isSQS reports whether the route is one of them.
func (rt *route) isSQS() bool { return rt.path == sqsRoute.path || rt.path == sqsReceive.path }

// newSQS returns the server of the API, or nil if it is off.
func (a *API) newSQS() *sqs.Server {
	if a.o.Queues == nil || a.o.NoSQS {
		return nil
	}
	return sqs.New(sqs.Options{Broker: a.b, Queues: a.o.Queues, Problem: problemOf})
}

func (a *API) isSQS(r *http.Request) bool { return a.sqs != nil && sqs.Is(r) }

type sqsKey struct{}

// sqsOf returns the request of the SQS API, or nil if it is none.
func sqsOf(r *http.Request) *sqsRequest {
	s, _ := r.Context().Value(sqsKey{}).(*sqsRequest)
	return s
}

// answerSQS answers a request of the SQS API.
func (a *API) answerSQS(w http.ResponseWriter, r *http.Request) (rt *route, err error) {
	s := &sqsRequest{a: a, w: w, memory: budget.Arena{Class: a.produce, Buffers: a.buffers}}
	defer s.memory.Release()
	s.RequestID, s.Base = httpconn.SlotOf(r.Context()).RequestID(), a.baseOf(r)
	if s.RequestID == "" {
		s.RequestID = record.NewID().String()
	}
	r = r.WithContext(context.WithValue(r.Context(), sqsKey{}, s))
	err = a.serveKeyed(sqsRoute, w, r)
	if rt = sqsRoute; s.Waits() {
		rt = sqsReceive
	}
	return rt, err
}

// baseOf is the URL of this broker for a client.
func (a *API) baseOf(r *http.Request) string {
	switch {
	case a.o.SQSBase != "":
		return strings.TrimSuffix(a.o.SQSBase, "/")
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// authenticate verifies the signature of a request, or takes the word of the broker that has verified it.
// It reads the body only of a client that names a valid access key at a valid time. It may be called again.
func (s *sqsRequest) authenticate(r *http.Request) (who *auth.Identity, err error) {
	if isForwarded(r) {
		if who, err = s.a.onBehalf(r); err != nil {
			return nil, err
		}
		s.who, s.fault = who, s.parse(r)
		return who, nil
	}
	sig, err := sqs.ParseSignature(r, s.a.o.Auth.Now())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnauthenticated, err)
	}
	s.Region, s.Trace = sig.Region, r.Header.Get("X-Amzn-Trace-Id")
	who, secret, err := s.a.o.Auth.Signer(r.Context(), sig.AccessKey, r.RemoteAddr)
	if err != nil {
		return nil, err
	}
	if err := s.readBody(r); err != nil {
		return nil, err
	}
	if err := sig.Verify(r, s.body, secret); err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnauthenticated, err)
	}
	s.who, s.fault = who, s.parse(r)
	r.Method = http.MethodPost // a GET may have an effect, too: nothing that forwards it may repeat it
	return who, nil
}

// parse reads the action. What is wrong with it is the answer of this broker.
func (s *sqsRequest) parse(r *http.Request) error {
	if err := s.readBody(r); err != nil {
		return err
	}
	return s.Parse(r, s.body, s.memory.Hold)
}

// readBody reads the whole body, which others can read again.
func (s *sqsRequest) readBody(r *http.Request) error {
	if s.read || r.ContentLength == 0 {
		return nil
	}
	in := httpconn.Body{W: s.w, R: r, Timeout: s.a.pace, Max: min(sqs.BodyMax, s.a.requestMax), Memory: s.memory}
	defer func() { s.memory = in.Memory }()
	if err := in.Open(); err != nil {
		return err
	}
	body, err := in.ReadAll()
	if err != nil {
		return err
	}
	s.body, s.read = body, true
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// serveSQS answers a parsed request.
func (a *API) serveSQS(w http.ResponseWriter, r *http.Request, by *caller) error {
	s := sqsOf(r)
	switch {
	case a.o.Queues == nil:
		_, err := a.queues()
		return err
	case a.b.ReadOnly():
		return state.ErrReadOnly
	}
	if s.Waits() {
		if over := by.Meter().Throttle(auth.Fetched); over != nil {
			return over
		}
	}
	s.by, s.Client = by, s
	ctx := r.Context()
	if !s.Waits() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.o.AckTimeout)
		defer cancel()
	}
	answer, leases, err := a.sqs.Serve(ctx, &s.Call)
	defer leases.Release()
	if httpconn.SlotOf(r.Context()).Displaced() {
		w.Header().Set("Connection", "close")
	}
	if err == nil && r.Context().Err() != nil { // the client has left; later the broker cannot tell
		err = context.Cause(r.Context())
	}
	if err != nil {
		if leases != nil {
			leases.Return()
		}
		return err
	}
	if leases != nil {
		a.metrics.read.Add(len(leases.List))
		a.metrics.readOut.Add(len(answer.Body))
		by.Meter().Use(auth.Fetched, int64(len(answer.Body)))
	}
	a.writeSQS(w, s, answer)
	return nil
}

func (a *API) writeSQS(w http.ResponseWriter, s *sqsRequest, answer *sqs.Answer) {
	h := w.Header()
	h.Set("Content-Type", answer.ContentType)
	h.Set("X-Amzn-Requestid", s.RequestID)
	if answer.QueryError != "" {
		h.Set("X-Amzn-Query-Error", answer.QueryError)
	}
	a.write(w, answer.Status, answer.Body)
}

// writeFault answers with an error in the form of its route.
func (a *API) writeFault(rt *route, w http.ResponseWriter, r *http.Request, err error) {
	if rt.isSQS() {
		a.writeSQSError(w, r, err)
		return
	}
	a.writeError(w, r, err)
}

// writeSQSError answers with an error in the form of AWS. The error of a broker that does not lead keeps its
// form for the broker that has forwarded the request.
func (a *API) writeSQSError(w http.ResponseWriter, r *http.Request, err error) {
	if isForwarded(r) && ledNoMore(err) {
		a.writeError(w, r, err)
		return
	}
	s := sqsRequest{}
	if s.RequestID = httpconn.SlotOf(r.Context()).RequestID(); s.RequestID == "" {
		s.RequestID = record.NewID().String()
	}
	e := a.sqs.Error(err)
	if e.Status >= http.StatusInternalServerError && !a.gone(r, err) {
		a.logSampled(slog.LevelError, "request failed", r, err)
	}
	drop := a.pace.Overtake(w, r)
	a.writeSQS(w, &s, sqs.Fault(e, sqs.FormOf(r), s.RequestID))
	drop()
}

// Name implements sqs.Client.
func (s *sqsRequest) Name() string { return s.by.Name() }

// May implements sqs.Client.
func (s *sqsRequest) May(o access.Operation, t access.ResourceType, name string) error {
	return s.by.may(o, t, name)
}

// Changing implements sqs.Client.
func (s *sqsRequest) Changing(ctx context.Context, o access.Operation, topic string) (context.Context, error) {
	return s.by.changing(ctx, o, access.Topic, topic)
}

// Lease implements sqs.Client.
func (s *sqsRequest) Lease(ctx context.Context, r queue.LeaseRequest) (*queue.Leases, error) {
	for _, t := range []access.ResourceType{access.Topic, access.Group} { // the wait ends if they are revoked
		if err := s.by.require(access.Read, t, r.Queue); err != nil {
			return nil, err
		}
	}
	r.MaxBytes = s.by.fetchBound(0)
	return s.a.lease(ctx, s.a.o.Queues, r, s.by)
}

// Create implements sqs.Client.
func (s *sqsRequest) Create(ctx context.Context, name string, spec queue.Spec) error {
	p := queuePut{b: s.a.b, q: s.a.o.Queues, by: s.by, name: name, spec: spec}
	_, err := p.create(ctx)
	return err
}

// Update implements sqs.Client.
func (s *sqsRequest) Update(ctx context.Context, name string, spec queue.Spec) error {
	p := queuePut{b: s.a.b, q: s.a.o.Queues, by: s.by, name: name, spec: spec}
	_, err := p.update(ctx)
	return err
}

// Reserve implements sqs.Client.
func (s *sqsRequest) Reserve(n int64) error { return s.memory.Hold(n) }

// signedParts is the number of parts of what vouchSigned returns.
const signedParts = 5

// vouchSigned names the client of a forwarded request whose signature this broker has verified.
func (a *API) vouchSigned(out *http.Request, run, to, remote string, s *sqsRequest) string {
	parts := []string{
		url.PathEscape(s.who.Name()), strconv.FormatUint(s.who.Origin().Secret, 10), url.PathEscape(s.Region), url.PathEscape(s.Base),
	}
	code := a.o.Auth.Vouch(append([]string{"signature", run, to, remote, out.Method, out.URL.RequestURI()}, parts...)...)
	return code + " " + strings.Join(parts, " ")
}

// signedOnBehalf returns the client for which another broker has verified a signature.
func (a *API) signedOnBehalf(r *http.Request, parts []string) (*auth.Identity, error) {
	run, to, s := r.Header.Get(api.HeaderForwarded), a.o.Cluster.Self().Run.String(), sqsOf(r)
	statement := append([]string{"signature", run, to, r.RemoteAddr, r.Method, r.URL.RequestURI()}, parts[1:]...)
	secret, err := strconv.ParseUint(parts[2], 10, 64)
	name, err2 := url.PathUnescape(parts[1])
	region, err3 := url.PathUnescape(parts[3])
	base, err4 := url.PathUnescape(parts[4])
	if s == nil || errors.Join(err, err2, err3, err4) != nil || secret == 0 || !a.o.Auth.Vouched(parts[0], statement...) {
		return nil, auth.ErrUnauthenticated
	}
	s.Region, s.Base, s.Trace = region, base, r.Header.Get("X-Amzn-Trace-Id")
	who := a.o.Auth.OnBehalf(name, secret, time.Time{}, r.RemoteAddr)
	return who, who.Err()
}

// postRewrap gives the signing key and some triggers the active secrets key.
func (a *API) postRewrap(w http.ResponseWriter, r *http.Request, by *caller) error {
	ctx, cancel, err := a.changingCluster(r, by, access.Alter)
	if err != nil {
		return err
	}
	defer cancel()
	if err := a.o.Auth.RewrapSigning(ctx); err != nil {
		return err
	}
	return answering(budget.Fetch, (*Triggers).Rewrap)(a, w, r, by)
}

// postTokenAWS answers with the pair with which a token signs requests of the SQS API.
func (a *API) postTokenAWS(w http.ResponseWriter, r *http.Request, by *caller) error {
	id, ctx, cancel, err := a.changingToken(r, by)
	if err != nil {
		return err
	}
	defer cancel()
	pair, err := a.o.Auth.SigningPair(ctx, by.Identity, id)
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, &api.SigningPair{AccessKeyID: pair.AccessKey, SecretAccessKey: pair.Secret})
}
