package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
)

// postEvent appends events to the topic of events. An event is an ordinary record: its key is the
// entity, so that all events of an entity are in one partition, and its value is the event.
func (a *API) postEvent(w http.ResponseWriter, r *http.Request, by *caller) error {
	p := producing{a: a, by: by, now: time.Now(), partition: -1, expected: -1}
	// Expressions use log time, so no event is older than its predecessor, regardless of the clocks
	// of senders. The key index finds the events of an entity.
	p.spec.Partitions, p.spec.Settings = 1, rules.EventSettings
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
	return identityEncoding(h)
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

const (
	namesDefault = 100
	namesMax     = 1000
	// sampleParts bounds the sampled partitions. The entities of events are spread evenly over them.
	sampleParts = 16
	// sampleWindow is the number of records of the first read of a partition. The log is read
	// forwards, so the newest records come window by window, each twice as large as the one before.
	sampleWindow = 16
)

// getEventNames answers with the names of the events in a topic: those of the newest events, with
// their properties, and the others that the trigger engine has seen.
func (a *API) getEventNames(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	topic := a.o.EventsTopic
	if _, given := q.Text(httpconn.ParamTopic); given {
		topic = q.Topic()
	}
	limit := cmp.Or(int(q.Number(httpconn.ParamLimit, namesDefault, namesMax)), namesDefault)
	prefix, _ := q.Text(httpconn.ParamPrefix)
	if len(prefix) > rule.NameBytesMax {
		q.Fail(httpconn.ParamPrefix, "%d bytes, the limit is %d", len(prefix), rule.NameBytesMax)
	}
	if q.Fault != nil {
		return q.Fault
	}
	ref, ok := a.b.TopicNamed(topic)
	if !ok {
		return state.ErrUnknownTopic
	}
	select { // one sample at a time, which bounds memory and processor time
	case a.sampling <- struct{}{}:
		defer func() { <-a.sampling }()
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	memory, err := a.fetch.Reserve(sampleMemory + 3*answerBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	s := eventSample{prefix: prefix, names: map[string]*sampledName{}}
	if err := a.sampleTopic(r.Context(), &ref, topic, &s); err != nil {
		return err
	}
	out := api.EventNames{Topic: topic, Records: a.b.RecordCount(ref.ID), Sampled: s.records, Names: []api.EventName{}, Truncated: s.full}
	if s.records > 0 {
		out.Since = new(instant(s.oldest))
	}
	list := s.list(out.Records)
	if e := a.triggers.o.Engine; e != nil {
		known, err := e.Names(r.Context(), ref.ID, prefix, limit+len(list)+1)
		if err != nil {
			return triggerFault(err)
		}
		for _, name := range known {
			if s.names[name] == nil {
				list = append(list, api.EventName{Name: name, Properties: []api.EventProperty{}})
			}
		}
	}
	size := 0
	for i := range list {
		if size += nameSize(&list[i]); i == limit || i > 0 && size > answerBytes {
			out.Truncated = true
			break
		}
		out.Names = append(out.Names, list[i])
	}
	return a.writeState(w, http.StatusOK, &out)
}

// nameSize estimates the memory of a name in an answer.
func nameSize(x *api.EventName) int {
	n := 256 + len(x.Name)
	for i := range x.Properties {
		n += 128 + len(x.Properties[i].Path)
	}
	return n
}

// sampleTopic reads the newest records of a topic.
func (a *API) sampleTopic(ctx context.Context, ref *broker.TopicRef, topic string, s *eventSample) error {
	n := min(ref.Partitions, sampleParts)
	for i := range n {
		err := a.samplePartition(ctx, ref, topic, int32(i*ref.Partitions/n), s, n-i)
		if err != nil && !errors.Is(err, broker.ErrBelowStart) { // trimmed meanwhile
			return err
		}
	}
	return nil
}

// samplePartition reads the newest records of a partition, one of parts that share the rest of the
// sample.
func (a *API) samplePartition(ctx context.Context, ref *broker.TopicRef, topic string, partition int32, s *eventSample, parts int) error {
	bounds, err := a.b.Bounds(ref.ID, partition)
	if err != nil {
		return err
	}
	left, bytesEnd := (sampleRecords-s.records)/int64(parts), s.bytes+(sampleBytes-s.bytes)/int64(parts)
	window := int64(sampleWindow)
	for end := bounds.Stable; end > bounds.Start && left > 0 && s.bytes < bytesEnd; window *= 2 {
		from, err := a.b.OffsetBelow(ref.ID, partition, end, min(left, window))
		if err != nil {
			return err
		}
		g := a.source.New(topic, partition)
		g.topicID, g.Offset, g.MaxRecords, g.MaxBytes = ref.ID, from, min(end-from, left), bytesEnd-s.bytes
		err = g.Collect(ctx, s)
		g.Done()
		if err != nil {
			return err
		}
		left, end = left-g.Count, from
	}
	return nil
}

// Bounds of a sample of events. sampleMemory bounds the memory of a sample with the one event that
// is being parsed.
const (
	sampleRecords    = 5000
	sampleBytes      = 1 << 20 // of keys and values
	sampleNames      = 1000
	sampleProperties = 2000 // of all names
	samplePath       = 256  // bytes of a path
	sampleMemory     = 3 << 20
)

// eventSample collects the names and properties of events. It is a Sink that keeps no record.
type eventSample struct {
	prefix     string // only names with it; all records count
	records    int64
	bytes      int64
	oldest     int64 // timestamp (ms)
	names      map[string]*sampledName
	properties int
	full       bool // there are more names
}

type sampledName struct {
	name       string
	count      int
	last       int64
	properties map[string]*sampledProperty // by path
	more       bool                        // there are more properties
}

type sampledProperty struct {
	count int
	types jsonTypes
}

// jsonTypes is a set of JSON types.
type jsonTypes uint8

const (
	jsonString jsonTypes = 1 << iota
	jsonNumber
	jsonBoolean
	jsonNull
	jsonArray
	jsonObject
)

var jsonTypeNames = []string{"string", "number", "boolean", "null", "array", "object"}

func (t jsonTypes) list() (names []string) {
	for i, name := range jsonTypeNames {
		if t&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// ValuesOnly implements encoding.Sink.
func (s *eventSample) ValuesOnly() bool { return false }

// Take implements encoding.Sink.
func (s *eventSample) Take(_ *budget.Arena, rec *record.Record, _ bool) error {
	if s.records == 0 || rec.Timestamp < s.oldest {
		s.oldest = rec.Timestamp
	}
	s.records++
	s.bytes += int64(len(rec.Key) + len(rec.Value))
	e, err := rule.ParseEvent(rec.Key, rec.Value)
	if err != nil || !strings.HasPrefix(e.Name, s.prefix) {
		return nil
	}
	n := s.names[e.Name]
	if n == nil {
		if len(s.names) == sampleNames {
			s.full = true
			return nil
		}
		n = &sampledName{name: e.Name, properties: map[string]*sampledProperty{}}
		s.names[e.Name] = n
	}
	n.count++
	n.last = max(n.last, rec.Timestamp)
	if len(e.Data) > 0 {
		d := json.NewDecoder(bytes.NewReader(e.Data))
		d.UseNumber()
		s.value(n, d, nil)
	}
	return nil
}

// value reads a JSON value, and adds the properties in it. A path ends at a value that is no
// object, at an empty object, and after driplang.MaxPath members.
func (s *eventSample) value(n *sampledName, d *json.Decoder, path []string) {
	token, _ := d.Token() // the event was parsed before
	kind := jsonNull
	switch x := token.(type) {
	case string:
		kind = jsonString
	case json.Number:
		kind = jsonNumber
	case bool:
		kind = jsonBoolean
	case json.Delim:
		if x == '{' && len(path) < driplang.MaxPath && d.More() {
			for d.More() {
				name, _ := d.Token()
				member, _ := name.(string)
				s.value(n, d, append(path, member))
			}
			_, _ = d.Token()
			return
		}
		kind = jsonArray
		if x == '{' {
			kind = jsonObject
		}
		skip(d)
	}
	if len(path) > 0 {
		s.property(n, driplang.FormatPath(path), kind)
	}
}

// skip reads the rest of an array or an object.
func skip(d *json.Decoder) {
	for depth := 1; depth > 0; {
		switch token, err := d.Token(); {
		case err != nil:
			return
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		}
	}
}

func (s *eventSample) property(n *sampledName, path string, kind jsonTypes) {
	p := n.properties[path]
	if p == nil {
		if len(path) > samplePath || s.properties == sampleProperties {
			n.more = true
			return
		}
		p = &sampledProperty{}
		n.properties[path] = p
		s.properties++
	}
	p.count++
	p.types |= kind
}

// list returns the names, the most frequent first. total is the number of records of the topic.
func (s *eventSample) list(total int64) []api.EventName {
	out := make([]api.EventName, 0, len(s.names))
	for _, n := range s.names {
		x := api.EventName{
			Name: n.name, Count: int64(math.Round(float64(n.count) / float64(s.records) * float64(total))), Sampled: n.count, Last: new(instant(n.last)),
			Properties: []api.EventProperty{}, More: n.more,
		}
		for path, p := range n.properties {
			x.Properties = append(x.Properties, api.EventProperty{Path: path, Types: p.types.list(), Sampled: p.count})
		}
		sorting.Sort(x.Properties, func(a, b api.EventProperty) int {
			return cmp.Or(b.Sampled-a.Sampled, cmp.Compare(a.Path, b.Path))
		})
		out = append(out, x)
	}
	sorting.Sort(out, func(a, b api.EventName) int { return cmp.Or(b.Sampled-a.Sampled, cmp.Compare(a.Name, b.Name)) })
	return out
}
