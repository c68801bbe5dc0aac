package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// The attributes of messages: parameters for a message that is the body, and members of messages in JSON.
const (
	paramDelay    = "delay"
	paramAt       = "at"
	paramDedup    = "dedup"
	paramPriority = "priority"
	paramExpire   = "expire"
)

var attributes = []string{paramDelay, paramAt, paramDedup, paramPriority, paramExpire}

const (
	// sendMax bounds the messages of a request.
	sendMax = 10_000
	// messageOverhead bounds the memory of a message with its result, besides its bytes.
	messageOverhead = 512
)

// sending is one POST /queues/{queue}/messages. The whole body is read before any message is sent.
type sending struct {
	a       *API
	in      httpconn.Body
	q       *httpconn.Params
	timeout time.Duration
	kind    string
	now     time.Time // log time

	list   []queue.Message
	faults []error // of the attributes; nil: the message is sent
	bytes  int64
}

func (a *API) postMessages(w http.ResponseWriter, r *http.Request, by *caller) error {
	q, err := a.queues()
	if err != nil {
		return err
	}
	s := sending{a: a, q: httpconn.ParseParams(r.URL.RawQuery)}
	s.now, _ = a.b.Now()
	s.in = httpconn.Body{W: w, R: r, Timeout: a.pace, Max: a.requestMax, Memory: budget.Arena{Class: a.produce, Buffers: a.buffers}}
	defer s.in.Memory.Release()
	if err := s.parse(r.Header); err != nil {
		return err
	}
	if a.b.ReadOnly() {
		return state.ErrReadOnly
	}
	name := r.PathValue(variableQueue)
	if _, known := a.b.TopicNamed(name); !known { // before the body is read
		return state.ErrUnknownTopic
	}
	if err := s.read(); err != nil {
		return err
	}
	check, err := by.checked(access.Write, access.Topic, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(broker.WithClient(r.Context(), broker.Client{Check: check}), s.timeout)
	defer cancel()
	results, err := s.send(ctx, q, name)
	if err != nil {
		return err
	}
	return s.answer(w, results)
}

func (s *sending) parse(h http.Header) (err error) {
	s.timeout = s.q.Duration(httpconn.ParamTimeout, s.a.o.AckTimeout, timeoutMax)
	if s.kind, _, err = contentType(h.Get("Content-Type")); err != nil {
		return problem.BadField("Content-Type", "want one of application/octet-stream, text/plain, application/x-ndjson, application/json, given %s",
			problem.Quote(h.Get("Content-Type")))
	}
	switch s.kind {
	case api.OctetStream:
	case api.TextPlain, api.NDJSON, api.JSON:
		for _, name := range append(slices.Clone(attributes), httpconn.ParamKey, httpconn.ParamKey+httpconn.Base64) {
			if _, given := s.q.Text(name); given {
				s.q.Fail(name, "only with application/octet-stream: other messages have it as a member in JSON")
			}
		}
	default:
		return problem.New(api.UnsupportedMediaType, "%s is not one of application/octet-stream, for one message, and text/plain, "+
			"application/x-ndjson, application/json, for several", problem.Quote(s.kind))
	}
	if err := identityEncoding(h); err != nil {
		return err
	}
	if s.q.Fault != nil {
		return s.q.Fault
	}
	return nil
}

// read reads the messages of the body.
func (s *sending) read() error {
	if s.kind == api.OctetStream && s.in.R.ContentLength == 0 {
		return s.one(nil)
	}
	if err := s.in.Open(); err != nil {
		return err
	}
	body, err := s.in.ReadAll()
	if err != nil {
		return err
	}
	var source encoding.Source
	switch s.kind {
	case api.OctetStream:
		return s.one(body)
	case api.TextPlain:
		source = encoding.NewLines(body, 0)
	default:
		source = encoding.NewMessages(body, 0, s.kind == api.NDJSON, attributes)
	}
	for {
		rec, p := source.Next()
		switch {
		case p != nil:
			return problem.AtRecord(p, int64(len(s.list)))
		case rec == nil && len(s.list) == 0:
			return problem.BadField("body", "no messages")
		case rec == nil:
			return nil
		case len(s.list) == sendMax:
			return problem.New(api.TooLarge, "messages: at most %d in a request", sendMax)
		}
		var texts func(i int) string
		if m, ok := source.(*encoding.Messages); ok {
			texts = m.Attribute
		}
		if err := s.add(rec, texts); err != nil {
			return err
		}
	}
}

// one reads the message that is the body, with its parameters.
func (s *sending) one(body []byte) error {
	rec := record.Record{Key: s.q.Key(httpconn.ParamKey), Value: body}
	if rec.Value == nil {
		rec.Value = []byte{}
	}
	err := s.add(&rec, func(i int) string { text, _ := s.q.Text(attributes[i]); return text })
	switch {
	case err != nil:
		return err
	case s.q.Fault != nil:
		return s.q.Fault
	}
	return s.faults[0]
}

// add adds a message. attribute returns its attributes by their index; nil: it has none.
func (s *sending) add(rec *record.Record, attribute func(i int) string) error {
	size := int64(len(rec.Key) + len(rec.Value))
	for i := range rec.Headers {
		size += int64(len(rec.Headers[i].Key) + len(rec.Headers[i].Value))
	}
	if err := s.in.Memory.Hold(messageOverhead + size); err != nil { // also of its batch
		return err
	}
	s.bytes += size
	m := queue.Message{Key: rec.Key, Value: rec.Value, Headers: slices.Clone(rec.Headers)}
	var fault error
	for i, name := range attributes {
		if attribute == nil || fault != nil {
			break
		}
		if text := attribute(i); text != "" {
			fault = setAttribute(&m, s.now, name, text)
		}
	}
	s.list, s.faults = append(s.list, m), append(s.faults, fault)
	return nil
}

// setAttribute sets an attribute of a message. now is log time.
func setAttribute(m *queue.Message, now time.Time, name, text string) (err error) {
	switch name {
	case paramDelay:
		m.Delay, err = span(name, text)
	case paramAt:
		at, fault := input.Time(text)
		switch {
		case fault != nil:
			err = problem.BadField(name, "want RFC 3339, such as 2026-03-01T12:00:00Z, given %s", problem.Quote(text))
		case m.Delay != 0:
			err = problem.BadField(name, "not together with %s", paramDelay)
		case at.Sub(now) > state.QueueDelayMax:
			err = problem.BadField(name, "%s is more than 365d from now", text)
		default:
			m.Delay = max(0, at.Sub(now))
		}
	case paramDedup:
		m.Dedup = text
	case paramPriority:
		if m.Priority, err = strconv.Atoi(text); err != nil {
			err = problem.BadField(name, "want a number from 0, given %s", problem.Quote(text))
		}
	case paramExpire:
		m.Expire, err = span(name, text)
	}
	return err
}

// send sends the messages without faults.
func (s *sending) send(ctx context.Context, q *queue.Queues, name string) ([]queue.Sent, error) {
	out := make([]queue.Sent, len(s.list))
	var list []queue.Message
	for i := range s.list {
		if out[i].Err = s.faults[i]; out[i].Err == nil {
			list = append(list, s.list[i])
		}
	}
	if len(list) == 0 {
		return out, nil
	}
	sent, err := q.Send(ctx, name, list)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if out[i].Err == nil {
			out[i], sent = sent[0], sent[1:]
		}
	}
	return out, nil
}

func (s *sending) answer(w http.ResponseWriter, sent []queue.Sent) error {
	errs := make([]error, len(sent))
	stored := 0
	for i := range sent {
		if errs[i] = sent[i].Err; errs[i] == nil {
			stored++
		}
	}
	s.a.metrics.produced.Add(stored)
	if s.a.metrics.producedIn.AddInt64(s.bytes); s.kind == api.OctetStream {
		if errs[0] != nil {
			return errs[0]
		}
		return s.a.writeState(w, http.StatusCreated, resultOf(&sent[0]))
	}
	if err := common(errs); err != nil {
		return err
	}
	out := api.MessageResults{Messages: make([]api.MessageResult, len(sent))}
	for i := range sent {
		out.Messages[i] = *resultOf(&sent[i])
	}
	return s.a.writeState(w, http.StatusOK, &out)
}

// resultOf returns the result of a message that was sent.
func resultOf(s *queue.Sent) *api.MessageResult {
	if s.Err != nil {
		return failed(s.Err)
	}
	return &api.MessageResult{ID: s.ID.String(), Duplicate: s.Duplicate}
}

// failed returns the result of a message with an error.
func failed(err error) *api.MessageResult {
	p := problemOf(err)
	out := &api.MessageResult{Code: p.Code, Field: p.Field, Detail: p.Detail}
	if out.Detail == "" {
		out.Detail = api.Titles[p.Code]
	}
	return out
}

// common returns the error of a request all of whose messages have failed for one reason that is the broker's,
// or that passes: the client repeats the request. Otherwise each message has its own result.
func common(errs []error) error {
	for _, err := range errs {
		if err == nil || problemOf(err).Code != problemOf(errs[0]).Code {
			return nil
		}
	}
	if api.Statuses[problemOf(errs[0]).Code] >= http.StatusTooManyRequests {
		return errs[0]
	}
	return nil
}
