package httpapi

import (
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/problem"
)

// postEvent appends an event, or several, to the topic of events. An event is a record like any
// other: its key is the entity, so that all events of one are in one partition, its value the
// event.
func (a *API) postEvent(w http.ResponseWriter, r *http.Request) error {
	p := producing{a: a, now: time.Now(), partition: -1, expected: -1, keyed: true}
	// Time in expressions is the log's: whatever a sender's clock says, no event is older than the
	// one before it.
	p.spec.Partitions = 1
	p.spec.Settings = map[string]string{"timestamp-type": state.TimestampAppend}
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

func (p *producing) parseEvent(r *http.Request) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	p.topic = p.a.o.EventsTopic
	if _, given := q.Text(httpconn.ParamTopic); given {
		p.topic = q.Topic()
	}
	if p.topic == "triggers" || p.topic == "firings" { // an event is neither, and would make the topic with other settings
		q.Fail(httpconn.ParamTopic, "%s is the engine's own", p.topic)
	}
	if _, given := q.Text(httpconn.ParamPartition); given {
		q.Fail(httpconn.ParamPartition, "not for events: the entity decides")
	}
	p.timeout = q.Duration(httpconn.ParamTimeout, p.a.o.AckTimeout, timeoutMax)
	if q.Fault != nil {
		return q.Fault
	}
	return p.parseEventType(r.Header)
}

// parseEventType reads which form the body has: one event, unless it says that there are more.
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

// originalEvent is where the event is that a request repeats, if it is there, and if that is known.
type originalEvent struct {
	offset       int64
	there, known bool
}

// readEvents makes appends of the events of the body. Of a single one it finds out whether it is
// there already.
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
		original.known = true // without an id two are two
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
	// Milliseconds are what the record has.
	out := api.EventStored{Topic: p.topic, Partition: p.appends[0].Partition, Offset: r.Base, Time: time.UnixMilli(r.AppendTime.UnixMilli()).UTC()}
	if original.known {
		out.Duplicate = &original.there
	}
	if original.there {
		out.OriginalOffset = &original.offset
	}
	return p.a.writeJSON(w, http.StatusCreated, &out)
}

// postEvaluate answers what an expression is worth for the events of the body.
func (a *API) postEvaluate(w http.ResponseWriter, r *http.Request) error {
	out, err := a.evaluator.Evaluate(w, r, budget.Arena{Class: a.produce, Buffers: a.buffers})
	if err != nil {
		return err
	}
	a.readHeaders(w)
	return a.writeJSON(w, http.StatusOK, out)
}
