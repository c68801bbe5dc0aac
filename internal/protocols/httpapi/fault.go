package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/engine/views/keyindex"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/record"
)

// faults is the one table from errors to codes; the first match counts. tell: the client gets the
// error's text. All other errors are api.Internal.
var faults = []struct {
	err  error
	code api.Code
	tell bool
}{
	{auth.ErrUnauthenticated, api.Unauthorized, true},
	{auth.ErrTokenExists, api.TokenExists, true},
	{auth.ErrUnknownToken, api.UnknownToken, true},
	{auth.ErrUnknownQuota, api.UnknownQuota, true},
	{auth.ErrQuota, api.QuotaExceeded, true},
	{state.ErrUnauthorized, api.Forbidden, true},
	{broker.ErrInternalTopic, api.Forbidden, true},
	{state.ErrAuditTopic, api.Forbidden, true},
	{state.ErrNotAudited, api.StoreUnavailable, true},
	{state.ErrOutcomeUnknown, api.OutcomeUnknown, false},
	{state.ErrUnknownTopic, api.UnknownTopic, false},
	{state.ErrUnknownPartition, api.UnknownPartition, true},
	{queue.ErrNotQueue, api.NotAQueue, true},
	{queue.ErrNeeded, api.TopicInUse, true},
	{queue.ErrReceipt, api.UnknownReceipt, true},
	{queue.ErrStale, api.StaleReceipt, true},
	{queue.ErrLeased, api.MessageLeased, true},
	{queue.ErrUnknownMessage, api.UnknownMessage, true},
	{queue.ErrUnknownSchedule, api.UnknownSchedule, true},
	{queue.ErrNoDeadLetter, api.NoDeadLetterQueue, true},
	{queue.ErrLimit, api.QueueLimit, true},
	{broker.ErrQueueFull, api.QueueFull, true}, // before ErrOverBudget, which it can be
	{state.ErrTopicExists, api.TopicExists, false},
	{broker.ErrTopicInUse, api.TopicInUse, true}, // before the error that it wraps
	{state.ErrOffsetMismatch, api.OffsetMismatch, true},
	{state.ErrBeyondEnd, api.OffsetBeyondEnd, true},
	{state.ErrSequenceGap, api.SequenceGap, true},
	{state.ErrProducerFenced, api.ProducerFenced, true},
	{state.ErrUnknownGroup, api.UnknownGroup, true},
	{broker.ErrGroupActive, api.GroupActive, true},
	{state.ErrFull, api.OverBudget, true},
	{state.ErrUnknownTransaction, api.UnknownTransaction, true},
	{state.ErrTransactionFenced, api.ProducerFenced, true},
	{state.ErrTransactionEnded, api.TransactionState, true},
	{state.ErrTransactionState, api.TransactionState, true},
	{broker.ErrBelowStart, api.OffsetBelowStart, true},
	{state.ErrFenced, api.Fenced, true},
	{state.ErrNotLeader, api.NotLeader, true},
	{state.ErrReadOnly, api.ReadOnly, false},
	{broker.ErrTooLarge, api.TooLarge, true},
	{record.ErrTooLarge, api.TooLarge, true},
	{budget.ErrTooLarge, api.TooLarge, true},
	{state.ErrLevel, api.FormatLevel, true},
	{state.ErrNewer, api.FormatLevel, true},
	{broker.ErrClock, api.ClockWrong, true},
	{state.ErrRangesFull, api.OverBudget, true}, // before the error that it wraps
	{state.ErrStateFull, api.StateFull, true},
	{state.ErrProducersFull, api.ProducersFull, true}, // before ErrOverBudget, which it is
	{state.ErrTransactionsFull, api.OverBudget, true},
	{state.ErrAbortedFull, api.OverBudget, true},
	{state.ErrOverBudget, api.OverBudget, false},
	{budget.ErrOver, api.OverBudget, false},
	{state.ErrCorrupt, api.CorruptData, false},
	{record.ErrCorrupt, api.CorruptData, false},
	{cluster.ErrNoStandby, api.NoStandby, true},
	{cluster.ErrUnknownRun, api.UnknownBroker, true},
	{cluster.ErrRunUp, api.BrokerUp, true},
	{keyindex.ErrNotIndexed, api.KeyIndexOff, false},
	{keyindex.ErrUnavailable, api.KeyIndexUnavailable, false},
	{keyindex.ErrClosed, api.ShuttingDown, false},
	{keyindex.ErrInvalid, api.BadRequest, true},
	{state.ErrInvalid, api.BadRequest, true},
	{record.ErrInvalid, api.BadRequest, true},
	{state.ErrStoreUnavailable, api.StoreUnavailable, true},
	{broker.ErrClosed, api.ShuttingDown, false},
	{link.ErrClosed, api.ShuttingDown, true},
	{os.ErrDeadlineExceeded, api.RequestTimeout, false},     // of a connection: slow body
	{context.DeadlineExceeded, api.StoreUnavailable, false}, // with ErrNotSent: nothing was stored
	{broker.ErrNotSent, api.ShuttingDown, false},            // client gone, or shutdown
	{context.Canceled, api.ShuttingDown, false},
}

// problemOf turns any error into a problem, with the fields that the error has.
func problemOf(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	p = &api.Problem{Code: api.Internal}
	for _, f := range faults {
		if errors.Is(err, f.err) {
			if p.Code = f.code; f.tell {
				p.Detail = err.Error()
			}
			break
		}
	}
	var (
		mismatch *state.OffsetMismatchError
		below    *broker.BelowStartError
		beyond   *broker.BeyondEndError
		fenced   *state.FencedError
		invalid  *state.InvalidError
		batch    *record.InvalidError
		over     *budget.OverError
	)
	switch {
	case errors.As(err, &mismatch) && mismatch.Group != "":
		p.Offset, p.Committed, p.Group = &mismatch.Expected, &mismatch.Next, mismatch.Group
	case errors.As(err, &mismatch):
		p.Offset, p.NextOffset = &mismatch.Expected, &mismatch.Next
	case errors.As(err, &below):
		p.Offset, p.StartOffset = &below.Offset, &below.Start
	case errors.As(err, &beyond):
		p.Offset, p.NextOffset = &beyond.Offset, &beyond.End
	case errors.As(err, &fenced):
		p.Epoch, p.Leader = fenced.Epoch, fenced.Leader
	case errors.As(err, &invalid):
		p.Field = invalid.Field
	case errors.As(err, &batch):
		p.Field = batch.Field
		if batch.Limit != 0 || batch.Given != 0 {
			p.Limit, p.Given = &batch.Limit, &batch.Given
		}
	case errors.As(err, &over):
		p.Limit, p.Given = &over.Limit, &over.Wanted
	}
	return p
}

// describe returns the whole problem of an error.
func describe(err error) api.Problem {
	p := *problemOf(err)
	p.Type, p.Title = api.ProblemType+string(p.Code), api.Titles[p.Code]
	if p.Status != http.StatusMisdirectedRequest { // of a forwarded request
		p.Status = api.Statuses[p.Code]
	}
	return p
}

// codeOf returns the code for metrics.
func codeOf(err error) string {
	switch {
	case err == nil:
		return codeOK
	case errors.Is(err, http.ErrAbortHandler):
		return "cut"
	}
	return string(problemOf(err).Code)
}

// retryAfter is the Retry-After of temporary rejections, in seconds.
func retryAfter(err error) string {
	if over, ok := errors.AsType[*auth.QuotaError](err); ok {
		return strconv.Itoa(max(1, int((over.Wait+time.Second-1)/time.Second)))
	}
	return "1"
}

// writeError handles every error of a request: it sends the answer, and logs the error if the
// broker caused it.
func (a *API) writeError(w http.ResponseWriter, r *http.Request, err error) {
	p := describe(err)
	if p.Topic == "" {
		if name := r.URL.Query()[httpconn.ParamTopic]; len(name) == 1 && len(name[0]) < 250 {
			p.Topic = name[0]
		}
	}
	if brokersFault(&p) && !a.gone(r, err) {
		a.logSampled(slog.LevelError, "request failed", r, err, "topic", p.Topic)
	}
	body, fault := json.Marshal(&p)
	if fault != nil {
		panic("httpapi: encode problem:" + fault.Error()) // it holds numbers and strings
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", api.ProblemJSON)
	if p.Code == api.Unauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="seb"`)
	} else {
		a.readHeaders(w) // a follower that is behind may refuse a request wrongly
	}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfter(err))
	}
	drop := a.pace.Overtake(w, r)
	a.write(w, p.Status, body)
	drop()
}

// brokersFault reports whether to log a problem, because the broker or its store caused it. If
// parts of the request ended differently, one such part is enough.
func brokersFault(p *api.Problem) bool {
	if len(p.Offsets)+len(p.Results) == 0 {
		return brokersCode(p.Code)
	}
	return slices.ContainsFunc(p.Offsets, func(o api.OffsetResult) bool { return brokersCode(o.Code) }) ||
		slices.ContainsFunc(p.Results, func(o api.PartitionResult) bool { return brokersCode(o.Code) })
}

// ownRole are the codes of a broker that works but does not lead, is behind, or stops.
var ownRole = []api.Code{api.Fenced, api.NotLeader, api.NotYet, api.ShuttingDown}

func brokersCode(c api.Code) bool {
	return api.Statuses[c] >= http.StatusInternalServerError && !slices.Contains(ownRole, c)
}

// gone reports whether the client of a failed request has disconnected. It logs this if the request
// ends without the broker's result, because then the outcome is unknown.
func (a *API) gone(r *http.Request, err error) bool {
	if r.Context().Err() == nil {
		return false
	}
	if brokersFault(problemOf(err)) {
		a.logSampled(slog.LevelInfo, "client left before the answer", r, err)
	}
	return true
}

// write sends a whole body.
func (a *API) write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h["X-Content-Type-Options"] = noSniff
	w.WriteHeader(status)
	_ = a.pace.Send(w, body) // on an error net/http closes the connection
}

// changed answers that a change is committed.
func (a *API) changed(w http.ResponseWriter) error {
	a.source.positions.set(w.Header())
	return a.noContent(w)
}

// noContent answers that something is done.
func (a *API) noContent(w http.ResponseWriter) error {
	a.pace.ExtendWrite(w)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// writeState is writeJSON for committed state.
func (a *API) writeState(w http.ResponseWriter, status int, v any) error {
	a.readHeaders(w)
	return a.writeJSON(w, status, v)
}

// writeJSON sends v, a type of package api.
func (a *API) writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header()["Content-Type"] = jsonType
	a.write(w, status, body)
	return nil
}

// Shared values of headers. They are never modified.
var (
	jsonType = []string{api.JSON}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
)

// epochValue is an epoch as a header value.
type epochValue struct {
	epoch uint32
	value []string
}

// readHeaders sets the headers of answers about committed state.
func (a *API) readHeaders(w http.ResponseWriter) {
	e, now := a.epoch.Load(), a.b.Epoch()
	if e == nil || e.epoch != now {
		e = &epochValue{epoch: now, value: []string{strconv.FormatUint(uint64(now), 10)}}
		a.epoch.Store(e)
	}
	h := w.Header()
	h[api.HeaderEpoch], h["Cache-Control"] = e.value, noStore
	a.source.positions.set(h)
}

// logSampled logs a failed request, which a client can repeat.
func (a *API) logSampled(level slog.Level, message string, r *http.Request, err error, args ...any) {
	code := string(problemOf(err).Code)
	a.lines.Log(a.log, level, code+"@"+sampled.Host(r.RemoteAddr), message,
		append(args, "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr, "code", code, "err", err)...)
}
