package httpapi

import (
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/internal/trigger"
)

// postEvent appends events to the topic of events. An event is an ordinary record: its key is the
// entity, so that all events of an entity are in one partition, and its value is the event.
func (a *API) postEvent(w http.ResponseWriter, r *http.Request, by *caller) error {
	p := producing{a: a, by: by, now: time.Now(), partition: -1, expected: -1, keyed: true}
	// Expressions use log time, so no event is older than its predecessor, regardless of the clocks
	// of senders. The key index finds the events of an entity.
	p.spec.Partitions, p.spec.Settings = 1, trigger.EventSettings
	p.in = httpconn.Body{W: w, R: r, Timeout: a.pace, Memory: budget.Arena{Class: a.produce, Buffers: a.buffers}}
	if err := p.parseEvent(r); err != nil {
		return err
	}
	defer p.in.Memory.Release()
	var original originalEvent
	results, err := p.store(r, func(p *producing) error { return p.readEvents(&original) })
	if err != nil {
		return err
	}
	if p.kind == api.NDJSON {
		return p.answer(w, results)
	}
	return p.answerEvent(w, &results[0], original)
}

// The topics of the trigger engine.
const (
	triggersTopic = "triggers"
	firingsTopic  = "firings"
)

func (p *producing) parseEvent(r *http.Request) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	p.topic = p.a.o.EventsTopic
	if _, given := q.Text(httpconn.ParamTopic); given {
		p.topic = q.Topic()
	}
	// Events in an engine topic would create it with other settings.
	if p.topic == triggersTopic || p.topic == firingsTopic {
		q.Fail(httpconn.ParamTopic, "topic %s is reserved for the engine", p.topic)
	}
	if _, given := q.Text(httpconn.ParamPartition); given {
		q.Fail(httpconn.ParamPartition, "not allowed for events: the entity determines it")
	}
	p.timeout = q.Duration(httpconn.ParamTimeout, p.a.o.AckTimeout, timeoutMax)
	if q.Fault != nil {
		return q.Fault
	}
	return p.parseEventType(r.Header)
}

// parseEventType reads the Content-Type: one event, or NDJSON for several.
func (p *producing) parseEventType(h http.Header) (err error) {
	p.kind = api.JSON
	if given := h.Get("Content-Type"); given != "" {
		if p.kind, _, err = contentType(given); err != nil || p.kind != api.JSON && p.kind != api.NDJSON {
			return problem.New(api.UnsupportedMediaType, "%s is not one of application/json, for one event, and application/x-ndjson, for many",
				problem.Quote(given))
		}
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return problem.New(api.UnsupportedMediaType, "Content-Encoding %s is not supported", problem.Quote(encoding))
	}
	return nil
}

// originalEvent is the earlier event with the same ID: whether it exists, its offset, and whether
// that is known.
type originalEvent struct {
	offset       int64
	there, known bool
}

// readEvents makes appends of the events of the body. For a single event it also looks for the
// original.
func (p *producing) readEvents(original *originalEvent) error {
	p.in.Max = p.a.requestMax
	if err := p.in.Open(); err != nil {
		return err
	}
	body, err := p.in.ReadAll()
	if err != nil {
		return err
	}
	defer p.in.Memory.Put(body)
	source := encoding.NewEventBody(body, p.now.UnixMilli(), p.kind == api.NDJSON)
	if err := p.encode(source); err != nil {
		return err
	}
	if e := &source.Last; p.kind == api.JSON && p.a.o.OriginalEvent != nil {
		original.known = true // without an ID an event is never a duplicate
		if e.ID != nil {
			original.offset, original.there, original.known = p.a.o.OriginalEvent(p.in.R.Context(), p.topic, p.appends[0].Partition,
				string(e.Entity), string(e.ID))
		}
	}
	return nil
}

func (p *producing) answerEvent(w http.ResponseWriter, r *broker.Result, original originalEvent) error {
	if r.Err != nil {
		return p.failed([]broker.Result{*r})
	}
	p.countProduced()
	p.a.readHeaders(w)
	// The record has milliseconds.
	out := api.EventStored{Topic: p.topic, Partition: p.appends[0].Partition, Offset: r.Base, Time: time.UnixMilli(r.AppendTime.UnixMilli()).UTC()}
	if original.known {
		out.Duplicate = &original.there
	}
	if original.there {
		out.OriginalOffset = &original.offset
	}
	return p.a.writeJSON(w, http.StatusCreated, &out)
}

// postEvaluate evaluates an expression for the events of the body.
func (a *API) postEvaluate(w http.ResponseWriter, r *http.Request, _ *caller) error {
	out, err := a.evaluator.Evaluate(w, r, budget.Arena{Class: a.produce, Buffers: a.buffers})
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, out)
}
