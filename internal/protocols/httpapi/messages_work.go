package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// leasePath is the path of leases, which wait for messages.
const leasePath = "/queues/{queue}/lease"

const (
	// leaseBodyMax and settleBodyMax bound the bodies of POST /queues/{queue}/lease and /settle.
	leaseBodyMax  = 4 << 10
	settleBodyMax = 2 << 20
	// messageMembers bounds the members of a message in JSON, besides key, value and headers, and without its
	// tries.
	messageMembers = 512
)

// postLease gives messages to a worker. While it waits its connection is that of a reader.
func (a *API) postLease(w http.ResponseWriter, r *http.Request, by *caller) error {
	q, err := a.queues()
	if err != nil {
		return err
	}
	if a.b.ReadOnly() {
		return state.ErrReadOnly
	}
	if over := by.Meter().Throttle(auth.Fetched); over != nil {
		return over
	}
	req, err := a.readLease(w, r, by)
	if err != nil {
		return err
	}
	leases, err := a.lease(r.Context(), q, req, by)
	if httpconn.SlotOf(r.Context()).Displaced() {
		w.Header().Set("Connection", "close")
	}
	if err != nil {
		return err
	}
	defer leases.Release()
	sent, err := a.writeLeases(w, r, leases)
	by.Meter().Use(auth.Fetched, sent)
	return err
}

// writeLeases answers with messages, and returns how many bytes they take. Messages of an answer that fails go
// back to the queue.
func (a *API) writeLeases(w http.ResponseWriter, r *http.Request, leases *queue.Leases) (sent int64, err error) {
	left := true
	defer func() {
		if left {
			leases.Return()
		}
	}()
	a.readHeaders(w)
	l := a.newList(w, "messages", 0)
	for i := range leases.List {
		m := &leases.List[i]
		rec := record.Record{Key: m.Key, Value: m.Value, Headers: m.Headers}
		size := int64(encoding.ContentLen(&rec)) + messageMembers
		err := l.addText(r.Context(), "", size, func(b []byte) ([]byte, error) {
			before := len(b)
			b = append(append(appendMember(b, `{"id":"`, m.ID.String()), `","receipt":"`...), m.Receipt...)
			b = appendTimes(append(b, '"'), m)
			b = append(encoding.AppendContent(b, &rec, 0), '}')
			sent += int64(len(b) - before)
			return b, nil
		})
		if err != nil {
			return sent, l.end(err)
		}
	}
	if r.Context().Err() != nil { // the client has left; later the broker cannot tell
		return 0, l.end(context.Cause(r.Context()))
	}
	left = false
	a.metrics.read.Add(len(leases.List))
	a.metrics.readOut.AddInt64(sent)
	return sent, l.end(nil)
}

func appendMember(b []byte, name, text string) []byte { return append(append(b, name...), text...) }

// appendTimes appends the deliveries and the times of a message.
func appendTimes(b []byte, m *queue.Leased) []byte {
	b = strconv.AppendUint(append(b, `,"deliveries":`...), uint64(m.Deliveries), 10)
	if !m.Until.IsZero() {
		b = append(m.Until.UTC().AppendFormat(append(b, `,"until":"`...), time.RFC3339Nano), '"')
	}
	return append(m.Sent.UTC().AppendFormat(append(b, `,"sent":"`...), time.RFC3339Nano), '"')
}

func (a *API) readLease(w http.ResponseWriter, r *http.Request, by *caller) (req queue.LeaseRequest, err error) {
	var in api.LeaseRequest
	memory, err := a.decodeIf(w, r, leaseBodyMax, &in)
	if err != nil {
		return req, err
	}
	defer memory.Release()
	req = queue.LeaseRequest{Queue: r.PathValue(variableQueue), Max: in.Max, By: by.Name(), MaxBytes: by.fetchBound(0)}
	if req.Wait, err = span("wait", in.Wait); err != nil {
		return req, err
	}
	req.Visibility, err = span("visibility", in.Visibility)
	return req, err
}

// lease leases messages. It takes the place of a reader only if it has to wait.
func (a *API) lease(ctx context.Context, q *queue.Queues, req queue.LeaseRequest, by *caller) (*queue.Leases, error) {
	wait := req.Wait
	if wait > 0 && wait <= queue.LeaseWaitMax {
		req.Wait = 0
		l, err := q.Lease(ctx, req)
		if err != nil && !errors.Is(err, queue.ErrLimit) || l != nil && len(l.List) > 0 {
			return l, err
		}
		l.Release()
		req.Wait = wait
	} else {
		return q.Lease(ctx, req)
	}
	waiting, done := a.stops.Until(ctx)
	defer done()
	waiting, stop := by.until(waiting)
	defer stop()
	slot := httpconn.SlotOf(ctx)
	if !slot.Wait(httpconn.PollBytes, done) {
		return nil, a.source.noReader()
	}
	defer slot.EndWait()
	l, err := q.Lease(waiting, req)
	switch {
	case !errors.Is(err, context.Canceled):
		return l, err
	case a.stops.Stopped() || slot.Displaced():
		return &queue.Leases{}, nil
	case ctx.Err() == nil:
		if err := by.check(); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// verdicts are the texts of what a worker says about a message.
var verdicts = map[string]queue.Do{"done": queue.Finish, "retry": queue.Retry, "dead": queue.Kill, "extend": queue.Extend}

func (a *API) postSettle(w http.ResponseWriter, r *http.Request, by *caller) error {
	q, err := a.queues()
	if err != nil {
		return err
	}
	if a.b.ReadOnly() {
		return state.ErrReadOnly
	}
	var in api.Settlements
	memory, err := a.decode(w, r, settleBodyMax, &in)
	if err != nil {
		return err
	}
	defer memory.Release()
	if n := len(in.Messages); n == 0 || n > queue.LeaseMax {
		return problem.BadField("messages", "want 1 to %d, given %d", queue.LeaseMax, n)
	}
	errs := make([]error, len(in.Messages))
	list, which := make([]queue.Settlement, 0, len(errs)), make([]int, 0, len(errs))
	for i := range in.Messages {
		s, err := settlementOf(&in.Messages[i])
		if errs[i] = err; err == nil {
			list, which = append(list, s), append(which, i)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	settled, err := q.Settle(ctx, r.PathValue(variableQueue), by.Name(), list)
	if err != nil {
		return err
	}
	for i, err := range settled {
		errs[which[i]] = err
	}
	if err := common(errs); err != nil {
		return err
	}
	out := api.MessageResults{Messages: make([]api.MessageResult, len(errs))}
	for i, err := range errs {
		if err != nil {
			out.Messages[i] = *failed(err)
		}
	}
	return a.writeState(w, http.StatusOK, &out)
}

func settlementOf(in *api.Settlement) (s queue.Settlement, err error) {
	s = queue.Settlement{Receipt: in.Receipt, Do: verdicts[in.Do], Reason: in.Reason}
	if in.Delay == "" {
		return s, nil
	}
	delay, err := span("delay", in.Delay)
	s.Delay = &delay
	return s, err
}

// peekDefault is the number of messages in a list.
const peekDefault = 100

func (a *API) getMessages(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q, err := a.queues()
	if err != nil {
		return err
	}
	params := httpconn.ParseParams(r.URL.RawQuery)
	req := queue.PeekRequest{Queue: r.PathValue(variableQueue), Max: int(params.Number(httpconn.ParamLimit, peekDefault, queue.LeaseMax))}
	req.State, _ = params.Text(ParamState)
	before, _ := params.Text(httpconn.ParamBefore)
	most := valueMax(params)
	if params.Fault != nil {
		return params.Fault
	}
	if req.Max == 0 {
		req.Max = peekDefault
	}
	if req.Before, err = messageID(httpconn.ParamBefore, before); err != nil {
		return err
	}
	memory, err := a.fetch.Reserve(messagesBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	list, next, err := q.Peek(r.Context(), req)
	if err != nil {
		return err
	}
	a.readHeaders(w)
	l := a.newList(w, "messages", len(list))
	for i := range list {
		m := &list[i]
		rec := record.Record{Key: m.Key, Value: m.Value, Headers: m.Headers}
		size := int64(encoding.ContentLen(&rec)) + messageMembers + triesBytes(m.Tries)
		if err := l.addText(r.Context(), "", size, func(b []byte) ([]byte, error) {
			b = append(appendMember(b, `{"id":"`, m.ID.String()), '"')
			b = append(appendMember(b, `,"state":"`, m.State), '"')
			b = appendTimes(b, &m.Leased)
			b = encoding.AppendContent(b, &rec, most)
			return appendTries(b, m.Tries)
		}); err != nil {
			return l.end(err)
		}
	}
	if next == nil {
		return l.end(nil)
	}
	l.last = next.String()
	return l.end(errStop)
}

func triesBytes(tries []queue.Try) (n int64) {
	for i := range tries {
		n += 128 + 6*int64(len(tries[i].By)+len(tries[i].Reason))
	}
	return n
}

// appendTries appends the tries of a message, and the end of it.
func appendTries(b []byte, tries []queue.Try) ([]byte, error) {
	if len(tries) == 0 {
		return append(b, '}'), nil
	}
	out := make([]api.MessageTry, len(tries))
	for i, t := range slices.All(tries) {
		out[i] = api.MessageTry{Time: t.Time, By: t.By, Reason: t.Reason}
	}
	text, err := json.Marshal(out)
	return append(append(append(b, `,"tries":`...), text...), '}'), err
}
