package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/protocols/riemann/index"
	"github.com/sebbroker/seb/internal/protocols/riemann/query"
)

const (
	// memoryWarning is the part of the memory limit above which GET /status warns.
	memoryWarning = 0.9
	// producersWarning is the part of the idempotent producers' limit above which it warns.
	producersWarning = 0.8
	// transactionWarning is the age of an open transaction above which it warns.
	transactionWarning = time.Minute
	// lagWarning is the lag of triggers, and of the index of Riemann events, above which it warns.
	lagWarning = time.Minute
)

// getStatus answers what an operator looks at first. It makes no request to the store.
func (a *API) getStatus(w http.ResponseWriter, _ *http.Request, by *caller) error {
	b := a.b.Status()
	s := api.Status{
		Version: a.o.Version, Started: a.o.Started, Role: b.Role, Epoch: b.Epoch, FormatLevel: a.b.Level().Now, Topics: b.Topics,
		Store: api.StoreStatus{Name: a.o.Store, Journal: b.Journaled, Puts: len(b.PutTimes)}, Memory: api.MemoryStatus{Limit: a.b.Budget().Limit()},
	}
	if n := len(b.PutTimes); n > 0 {
		s.Store.MedianMillis = float64(b.PutTimes[n/2].Microseconds()) / 1000
		s.Store.P99Millis = float64(b.PutTimes[n*99/100].Microseconds()) / 1000
	}
	warn := func(format string, args ...any) { s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...)) }
	if err := a.serves(); err == nil {
		s.Ready = true
	} else {
		s.Reason = err.Error()
	}
	if err := a.b.StoreFault(); err != nil {
		warn("last request to the store failed: %v", err)
	}
	if b.Alarms > 0 {
		warn("log alarms: %d; run seb fsck", b.Alarms)
	}
	a.memoryStatus(&s, &b, warn)
	s.Lag.Group, s.Letters = a.largestLag(by), a.letters(by)
	s.Transactions = a.openTransactions(by, warn)
	if e := a.o.Triggers; e != nil {
		lag := e.LagTime()
		s.Lag.TriggerRecords, s.Lag.TriggerSeconds = e.Lag(), lag.Seconds()
		if lag > lagWarning {
			warn("triggers are %v behind", lag.Round(time.Second))
		}
		if s, err := e.SecretsState(); err == nil && s.Locked > 0 {
			warn("deliveries of %d triggers are held: their secrets are encrypted with a key that this broker does not have: %v", s.Locked, s.Missing)
		}
	}
	s.Compaction = a.compaction(by)
	s.Connections = a.o.Limits.Status()
	if a.o.Kafka != nil {
		s.Kafka = a.o.Kafka()
	}
	if a.o.RiemannStatus != nil {
		s.Riemann = a.o.RiemannStatus()
	}
	if r := s.Riemann; r != nil {
		if !by.Allow(access.Describe, access.Topic, r.Topic) {
			r.Topic = ""
		}
		if lag := time.Duration(r.Index.LagSeconds * float64(time.Second)); lag > lagWarning {
			warn("the index of Riemann events is %v behind", lag.Round(time.Second))
		}
		if r.Index.Unavailable != "" {
			warn("%s", r.Index.Unavailable)
		}
	}
	if a.o.Cluster != nil {
		s.Warnings = append(s.Warnings, a.o.Cluster.Wrong()...)
	}
	if a.o.Warnings != nil {
		s.Warnings = append(s.Warnings, a.o.Warnings()...)
	}
	return a.writeJSON(w, http.StatusOK, s)
}

// memoryStatus describes what the memory limit bounds.
func (a *API) memoryStatus(s *api.Status, b *broker.Status, warn func(format string, args ...any)) {
	for _, u := range a.b.Budget().Usage() {
		s.Memory.Reserved += u.Used
	}
	if float64(s.Memory.Reserved) > memoryWarning*float64(s.Memory.Limit) {
		warn("%d of %d bytes of memory are reserved; raise --memory-limit", s.Memory.Reserved, s.Memory.Limit)
	}
	held, most := a.b.StateMemory()
	s.Memory.State, s.Memory.StateMax = held.Sum(), most
	if err := a.b.StateFull(); err != nil {
		warn("%v", err)
	}
	s.Producers = api.ProducersStatus{Known: b.Producers.Known, Limit: b.Producers.Max}
	if p := s.Producers; p.Limit > 0 && float64(p.Known) > producersWarning*float64(p.Limit) {
		warn("%d idempotent producers are remembered of at most %d: new ones may be refused; raise --memory-limit", p.Known, p.Limit)
	}
}

// compaction describes the running compaction; nil without one.
func (a *API) compaction(by *caller) *api.CompactionStatus {
	if a.o.Compaction == nil {
		return nil
	}
	p := a.o.Compaction()
	if p.Phase == "" {
		return nil
	}
	s := &api.CompactionStatus{
		Phase: string(p.Phase), Started: p.Started, Partitions: p.Partitions, Partition: p.Partition, ReadBytes: p.Read, Bytes: p.Bytes,
	}
	if view := a.b.View(); view != nil {
		if t := view.Topic(p.Topic); t != nil && by.Allow(access.Describe, access.Topic, t.Name) {
			s.Topic = t.Name
		}
	}
	return s
}

// lagsMax bounds the lags among which a client without the root key sees its largest.
const lagsMax = 10_000

// largestLag returns the largest lag that a client may see, or nil.
func (a *API) largestLag(by *caller) *api.GroupLag {
	limit := 1
	if !by.Root() {
		limit = lagsMax
	}
	lags, _ := a.b.GroupLags(limit)
	for _, l := range lags {
		if l.Records > 0 && by.Allow(access.Describe, access.Group, l.Group) && by.Allow(access.Describe, access.Topic, l.Topic) {
			return &api.GroupLag{Group: l.Group, Topic: l.Topic, Records: l.Records}
		}
	}
	return nil
}

// letters returns the dead-letter queue with the most messages, of those that the client may describe; nil: all
// are empty, or the broker does not lead.
func (a *API) letters(by *caller) (most *api.Letters) {
	if a.o.Queues == nil {
		return nil
	}
	all := a.o.Queues.Figures()
	for i := range all {
		if f := &all[i]; f.Letters && f.Left() > 0 && (most == nil || f.Left() > most.Messages) && by.Allow(access.Describe, access.Topic, f.Name) {
			most = &api.Letters{Queue: f.Name, Messages: f.Left()}
		}
	}
	return most
}

// getHealth answers that the process runs, and which one.
func (a *API) getHealth(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	return a.writeJSON(w, http.StatusOK, api.Health{Status: "ok", Run: a.o.Run})
}

// getReady reports whether requests would succeed. It does no I/O.
func (a *API) getReady(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	role, given := q.Text(httpconn.ParamRole)
	if given && role != api.MemberLeader {
		q.Fail(httpconn.ParamRole, "want %s, given %s", api.MemberLeader, problem.Quote(role))
	}
	if q.Fault != nil {
		return q.Fault
	}
	err := a.serves()
	if given && !a.b.Leads() {
		err = problem.New(api.NotLeader, "this broker does not lead")
	}
	if err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, api.Health{Status: "ok", Epoch: a.b.Epoch(), FormatLevel: a.b.Level().Now})
}

// readyFor is the time for which a standby that has lost its leader is ready: its end is no older.
const readyFor = 10 * time.Second

// serves returns why requests would fail, or nil. A broker that knows the leader serves all requests.
func (a *API) serves() error {
	err := a.ready()
	if a.forwarder == nil || a.stops.Stopped() || a.b.Leads() {
		return err
	}
	if _, known := a.forwarder.Leader(); known {
		a.led.Store(int64(time.Since(a.began)))
		return nil
	}
	if err == nil && time.Since(a.began)-time.Duration(a.led.Load()) > readyFor {
		return problem.New(api.NotLeader, "no leader has been known for %s", readyFor)
	}
	return err
}

// ready returns why this broker would not serve requests without the help of another, or nil.
func (a *API) ready() error {
	if a.stops.Stopped() {
		return problem.New(api.ShuttingDown, "the broker is stopping")
	}
	err := a.b.Ready()
	if errors.Is(err, state.ErrStoreUnavailable) {
		return problem.New(api.StoreUnavailable, "%s", storeReason(err))
	}
	return err
}

// storeReason describes a store error for unauthenticated callers: without names of objects or
// folders.
func storeReason(err error) string {
	for _, known := range []struct {
		err    error
		reason string
	}{
		{syscall.ENOSPC, "the disk is full"},
		{syscall.EDQUOT, "the disk is full"},
		{syscall.EROFS, "the file system is read-only"},
		{objstore.ErrBroken, "an fsync failed"},
		{objstore.ErrRefused, "the store refuses the broker's requests"},
		{objstore.ErrNoVerdict, "the store does not answer"},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	return ""
}

// getMetrics answers in the Prometheus text format.
func (a *API) getMetrics(w http.ResponseWriter, _ *http.Request, by *caller) error {
	var body bytes.Buffer
	a.o.WriteMetrics(&body)
	if !by.Root() {
		body = *bytes.NewBuffer(by.visibleSeries(body.Bytes()))
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	a.write(w, http.StatusOK, body.Bytes())
	return nil
}

// named are the labels of metrics whose values are names of resources.
var named = []struct {
	label    string
	resource access.ResourceType
}{{"topic", access.Topic}, {"queue", access.Topic}, {"group", access.Group}, {"trigger", access.Trigger}}

// visibleSeries removes the series that name a resource that the client may not describe.
func (by *caller) visibleSeries(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		visible := true
		for _, of := range named {
			if name, ok := labelOf(string(line), of.label); ok && !by.Allow(access.Describe, of.resource, name) {
				visible = false
			}
		}
		if visible {
			out = append(out, line...)
		}
	}
	return out
}

// labelOf returns the value of a label of a series in the Prometheus text format.
func labelOf(line, label string) (value string, ok bool) {
	if strings.HasPrefix(line, "#") {
		return "", false
	}
	_, rest, found := strings.Cut(line, "{")
	for found && rest != "" {
		name, after, _ := strings.Cut(rest, "=")
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return "", true // hidden: no resource has this name
		}
		if name == label {
			value, err = strconv.Unquote(quoted)
			return value, err == nil
		}
		rest, found = strings.CutPrefix(after[len(quoted):], ",")
	}
	return "", false
}

// specGZ is the description of this API, which TestSpecIsMade makes of openapi.yaml, the routes and
// package api.
//
//go:embed openapi.json.gz
var specGZ []byte

// specJSON is the description. It is kept after its first use, so that an unauthenticated request
// takes no memory.
var specJSON = sync.OnceValues(func() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(specGZ))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
})

// getSpec answers with the description of this API.
func (a *API) getSpec(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	spec, err := specJSON()
	if err != nil {
		return fmt.Errorf("read openapi.json.gz: %w", err)
	}
	w.Header().Set("Content-Type", api.JSON)
	a.write(w, http.StatusOK, spec)
	return nil
}

// answerCopies is the memory of an answer of the index in its limits: the events, their JSON, and the
// whole answer.
const answerCopies = 4

// getRiemannIndex answers with the events of the index of Riemann events for which a query is true.
// They include all that were committed before the request.
func (a *API) getRiemannIndex(w http.ResponseWriter, r *http.Request, by *caller) error {
	x := a.o.Riemann
	if x == nil {
		return problem.New(api.RiemannIndexOff, "start the broker with --riemann-listen or --riemann-web-listen")
	}
	if err := by.require(access.Read, access.Topic, x.Topic()); err != nil {
		return err
	}
	q := httpconn.ParseParams(r.URL.RawQuery)
	timeout := q.Duration(httpconn.ParamTimeout, timeoutDefault, timeoutMax)
	text, given := q.Text(httpconn.ParamQuery)
	if !given {
		q.Fail(httpconn.ParamQuery, "required; true matches all events")
	}
	if q.Fault != nil {
		return q.Fault
	}
	matching, err := query.Parse(text)
	if err != nil {
		return problem.BadField(httpconn.ParamQuery, "%v", err)
	}
	memory, err := a.fetch.Reserve(answerCopies * x.AnswerBytes())
	if err != nil {
		return err
	}
	defer memory.Release()
	ctx, done := a.stops.Until(r.Context())
	defer done()
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch err := x.CatchUp(waiting); {
	case err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return problem.New(api.RiemannIndexUnavailable, "waited %s for the events that were committed before the request", timeout)
	case err != nil:
		return riemannFault(err)
	}
	out := api.RiemannIndex{Topic: x.Topic(), Events: []json.RawMessage{}}
	err = x.Query(ctx, matching, x.AnswerBytes(), func(e *index.Event) error {
		out.Events = append(out.Events, e.AppendJSON(nil))
		return nil
	})
	if err != nil {
		return riemannFault(err)
	}
	return a.writeState(w, http.StatusOK, &out)
}

// riemannFault returns the problem of an error of the index.
func riemannFault(err error) error {
	var many *index.TooManyError
	switch {
	case errors.As(err, &many):
		p := problem.New(api.TooLarge, "%v", err)
		p.Field, p.Limit, p.Given = httpconn.ParamQuery, &many.Limit, &many.Bytes
		return p
	case errors.Is(err, index.ErrUnavailable):
		return problem.New(api.RiemannIndexUnavailable, "retry later")
	case errors.Is(err, index.ErrClosed):
		return problem.New(api.ShuttingDown, "")
	}
	return err
}
