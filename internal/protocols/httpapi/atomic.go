package httpapi

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/record"
)

// lineOverhead bounds the memory of a record of an atomic request, besides its bytes.
const lineOverhead = 384

// partOverhead bounds the memory of a part from its first line until it is answered, besides its batches: of
// this package, and of packages broker and log.
const partOverhead = 1 << 10

// atomicProducing is one POST /records with atomic. The appends of producing are its parts: first those of
// topics, then those of queues.
type atomicProducing struct {
	producing
	logTime time.Time

	topics map[string]*atomicTopic
	queues map[string]*atomicQueue
	order  []*atomicQueue
	groups []*atomicGroup // in the order of the parts
	lines  []atomicLine
}

// atomicTopic is a topic of an atomic request.
type atomicTopic struct {
	name       string
	known      bool
	keyed      bool // keys choose partitions
	partitions int
	settings   state.Settings
	spec       broker.TopicSpec // of the topic, if it does not exist
	check      *access.Check
	create     *access.Check // of its creation
	groups     map[int32]*atomicGroup
}

// atomicGroup is the records for one partition. It is a Source of them.
type atomicGroup struct {
	topic     *atomicTopic
	partition int32
	part      int
	recs      []record.Record
	next      int
}

// Next implements encoding.Source.
func (g *atomicGroup) Next() (*record.Record, *api.Problem) {
	if g.next == len(g.recs) {
		return nil, nil
	}
	g.next++
	return &g.recs[g.next-1], nil
}

// atomicQueue is a queue of an atomic request.
type atomicQueue struct {
	name     string
	check    *access.Check
	list     []queue.Message
	lines    []int // of the messages
	prepared *queue.Prepared
	part     int // the first
}

// atomicLine is a record or a message: the one at a position of its group or its queue.
type atomicLine struct {
	group *atomicGroup
	queue *atomicQueue
	at    int
}

// postAtomic stores all of the records, messages and events of a request in one slot of the log, or none.
func (a *API) postAtomic(w http.ResponseWriter, r *http.Request, by *caller, q *httpconn.Params) error {
	p := atomicProducing{topics: map[string]*atomicTopic{}, queues: map[string]*atomicQueue{}}
	p.a, p.by, p.now, p.expected = a, by, time.Now(), -1
	p.logTime, _ = a.b.Now()
	p.in = httpconn.Body{W: w, R: r, Timeout: a.pace, Max: a.requestMax, Memory: budget.Arena{Class: a.produce, Buffers: a.buffers}}
	if err := p.parse(q, r); err != nil {
		return err
	}
	if a.b.ReadOnly() {
		return state.ErrReadOnly
	}
	defer p.in.Memory.Release()
	ctx, cancel := context.WithTimeout(r.Context(), p.timeout)
	defer cancel()
	if err := p.prepare(ctx); err != nil {
		return p.withdraw(err)
	}
	results, err := p.submit(ctx)
	if err != nil {
		return err
	}
	return p.answer(w, results)
}

// parse reads the parameters and headers.
func (p *atomicProducing) parse(q *httpconn.Params, r *http.Request) error {
	for _, name := range []string{httpconn.ParamTopic, httpconn.ParamPartition, httpconn.ParamExpectedOffset} {
		if _, given := q.Text(name); given {
			q.Fail(name, "not with %s: each record names its topic", httpconn.ParamAtomic)
		}
	}
	p.timeout = q.Duration(httpconn.ParamTimeout, p.a.o.AckTimeout, timeoutMax)
	p.producer = q.Producer(r.Header, 0)
	if p.producer != nil && p.producer.Sequence != 0 {
		q.Fail(api.HeaderSequence, "want 0 with %s, given %d: the next request of a producer has the next epoch", httpconn.ParamAtomic, p.producer.Sequence)
	}
	if p.producer != nil && r.Header.Get(api.HeaderProducerEpoch) == "" {
		q.Fail(api.HeaderProducerEpoch, "required with %s: it is the number of the request", httpconn.ParamAtomic)
	}
	if q.Fault != nil {
		return q.Fault
	}
	given := r.Header.Get("Content-Type")
	var err error
	if p.kind, _, err = contentType(given); err != nil || p.kind != api.NDJSON && p.kind != api.RecordBatch {
		return problem.New(api.UnsupportedMediaType, "%s is not one of application/x-ndjson and application/vnd.seb.recordbatch, which %s takes",
			problem.Quote(given), httpconn.ParamAtomic)
	}
	return identityEncoding(r.Header)
}

// prepare reads the body and makes the parts of it.
func (p *atomicProducing) prepare(ctx context.Context) error {
	if p.kind == api.RecordBatch {
		if err := p.readFrames(); err != nil {
			return err
		}
		return p.identify()
	}
	if err := cmp.Or(p.in.Declared(), p.checkCopied(p.in.R.ContentLength)); err != nil {
		return err
	}
	if err := p.in.Open(); err != nil {
		return err
	}
	body, err := p.in.ReadAll()
	if err != nil {
		return err
	}
	defer p.in.Memory.Put(body)
	if err := p.readLines(body); err != nil {
		return err
	}
	for _, g := range p.groups {
		t := g.topic
		p.topic, p.partition, p.partitions, p.settings = t.name, g.partition, t.partitions, t.settings
		g.part = len(p.appends)
		if err := p.encode(g); err != nil {
			return err
		}
		p.appends[g.part].Check = t.check
	}
	if err := p.identify(); err != nil {
		return err
	}
	return p.prepareMessages(ctx)
}

// readLines reads the lines of the body.
func (p *atomicProducing) readLines(body []byte) error {
	source := encoding.NewAtomic(body, p.now.UnixMilli(), attributes)
	for {
		rec, fault := source.Next()
		i := len(p.lines)
		switch {
		case fault != nil:
			return problem.AtRecord(fault, int64(i))
		case rec == nil && i == 0:
			return problem.BadField("body", "no records")
		case rec == nil:
			return nil
		case i == p.a.o.RecordsMax:
			return problem.New(api.TooLarge, "records: at most %d in a request", i)
		}
		size := int64(lineOverhead + len(rec.Key))
		for j := range rec.Headers {
			size += int64(messageOverhead/4 + len(rec.Headers[j].Key))
		}
		if source.Kind == encoding.MessageLine { // with its batch
			size += int64(messageOverhead + len(rec.Value))
		}
		if err := p.in.Memory.Hold(size); err != nil {
			return err
		}
		kept := *rec
		kept.Headers = slices.Clone(rec.Headers)
		var line atomicLine
		var err error
		if source.Kind == encoding.MessageLine {
			line, err = p.addMessage(source, &kept)
		} else {
			line, err = p.addRecord(source, kept)
		}
		if err != nil {
			return atLine(err, i)
		}
		p.lines = append(p.lines, line)
	}
}

// addRecord adds a record or an event.
func (p *atomicProducing) addRecord(source *encoding.Atomic, rec record.Record) (line atomicLine, err error) {
	var t *atomicTopic
	to, text := int32(-1), ""
	if source.Kind == encoding.EventLine {
		t, err = p.topicNamed(p.a.o.EventsTopic, true)
	} else {
		text = source.Partition()
		t, err = p.topicNamed(source.Target(), false)
	}
	if err != nil {
		return line, err
	}
	if text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return line, problem.BadField(httpconn.ParamPartition, "want a number from 0 to %d, given %s", math.MaxInt32, problem.Quote(text))
		}
		to = int32(n)
	} else {
		to, t.keyed = record.PartitionOf(rec.Key, t.partitions), t.keyed || rec.Key != nil
	}
	line.group, err = p.groupOf(t, to)
	if err != nil {
		return line, err
	}
	line.at = len(line.group.recs)
	line.group.recs = append(line.group.recs, rec)
	return line, nil
}

// addMessage adds a message.
func (p *atomicProducing) addMessage(source *encoding.Atomic, rec *record.Record) (line atomicLine, err error) {
	name := source.Target()
	q := p.queues[name]
	if q == nil {
		q = &atomicQueue{name: name}
		if err := state.CheckTopicName(name); err != nil {
			return line, problem.BadField("queue", "%v", err)
		}
		if q.check, err = p.by.checked(access.Write, access.Topic, name); err != nil {
			return line, err
		}
		if _, known := p.a.b.TopicNamed(name); !known {
			return line, unknownTopic(name)
		}
		p.queues[name], p.order = q, append(p.order, q)
	}
	if len(q.list) == sendMax {
		return line, problem.New(api.TooLarge, "messages: at most %d for a queue", sendMax)
	}
	m := queue.Message{Key: rec.Key, Value: rec.Value, Headers: rec.Headers}
	for i, name := range attributes {
		if text := source.Attribute(i); text != "" {
			if err := setAttribute(&m, p.logTime, name, text); err != nil {
				return line, err
			}
		}
	}
	line.queue, line.at = q, len(q.list)
	q.list, q.lines = append(q.list, m), append(q.lines, len(p.lines))
	return line, p.checkParts()
}

// topicNamed returns a topic of the request, to which the client may write. A missing topic is created only
// after the whole request was checked.
func (p *atomicProducing) topicNamed(name string, events bool) (*atomicTopic, error) {
	if t := p.topics[name]; t != nil {
		return t, nil
	}
	if err := state.CheckTopicName(name); err != nil {
		return nil, problem.BadField("topic", "%v", err)
	}
	t := &atomicTopic{name: name, groups: map[int32]*atomicGroup{}}
	var err error
	if t.check, err = p.by.checked(access.Write, access.Topic, name); err != nil {
		return nil, err
	}
	t.partitions, t.settings, err = p.a.b.Resolved(name)
	t.known = err == nil
	if errors.Is(err, state.ErrUnknownTopic) {
		if !p.a.b.AutoCreates() {
			return nil, unknownTopic(name)
		}
		t.spec.Partitions = p.a.b.DefaultPartitions()
		if events {
			t.spec = broker.TopicSpec{Partitions: 1, Settings: rules.EventSettings}
		}
		t.partitions, t.settings = t.spec.Partitions, state.Resolve(t.spec.Settings)
		t.create, err = p.by.checked(access.Create, access.Topic, name)
	}
	p.topics[name] = t
	return t, err
}

// groupOf returns the records for a partition.
func (p *atomicProducing) groupOf(t *atomicTopic, partition int32) (*atomicGroup, error) {
	g := t.groups[partition]
	if g != nil {
		return g, nil
	}
	if int(partition) >= t.partitions {
		fault := UnknownPartition(t.name, partition, t.partitions)
		fault.Topic = t.name
		return nil, fault
	}
	if err := p.in.Memory.Hold(partOverhead); err != nil {
		return nil, err
	}
	g = &atomicGroup{topic: t, partition: partition, part: -1}
	t.groups[partition], p.groups = g, append(p.groups, g)
	return g, p.checkParts()
}

// checkParts returns an error if the request has too many parts. A queue counts as one until its messages are
// prepared.
func (p *atomicProducing) checkParts() error {
	if n := len(p.groups) + len(p.order); n > broker.PartsMax {
		return problem.OverLimit("partitions", broker.PartsMax, int64(n))
	}
	return nil
}

// prepareMessages makes the parts of queues.
func (p *atomicProducing) prepareMessages(ctx context.Context) error {
	if len(p.order) == 0 {
		return nil
	}
	queues, err := p.a.queues()
	if err != nil {
		return err
	}
	for _, q := range p.order {
		q.prepared, err = queues.Prepare(broker.WithClient(ctx, broker.Client{Check: q.check}), q.name, q.list, p.producer)
		if wrong, ok := errors.AsType[*queue.MessageError](err); ok {
			return atLine(wrong.Err, q.lines[wrong.Index])
		}
		if err != nil {
			return p.atQueue(err, q)
		}
		q.part = len(p.appends)
		for i := range q.prepared.Parts {
			part := &q.prepared.Parts[i]
			if t := p.topics[q.name]; t != nil && t.groups[part.Partition] != nil {
				return atLine(problem.BadField("queue", "%s has messages of priority %d, and its partition %d has records: give one of these in a request",
					q.name, part.Partition, part.Partition), q.lines[0])
			}
			if err := p.in.Memory.Hold(partOverhead); err != nil {
				return err
			}
			data, err := p.in.Memory.Get(len(part.Data))
			if err != nil {
				return err
			}
			copy(data, part.Data)
			p.topic = q.name
			p.add(part.Partition, data, part.Summary, false)
			p.appends[len(p.appends)-1].Check = part.Check
		}
	}
	return nil
}

// unknownTopic is the problem of a missing topic or queue.
func unknownTopic(name string) *api.Problem {
	p := problem.New(api.UnknownTopic, "there is no topic %s", problem.Quote(name))
	p.Topic = name
	return p
}

// atQueue adds the queue to the problem of all of its messages.
func (p *atomicProducing) atQueue(err error, q *atomicQueue) error {
	c := *problemOf(err)
	c.Topic = q.name
	return &c
}

// atLine returns the problem of an invalid line.
func atLine(err error, i int) error {
	c := *problemOf(err)
	if c.Detail == "" {
		c.Detail = api.Titles[c.Code]
	}
	at := problem.AtRecord(&c, int64(i))
	if d, ok := errors.AsType[*denial](err); ok {
		return &denial{at, d.right}
	}
	return at
}

// submit creates missing topics, and submits the parts.
func (p *atomicProducing) submit(ctx context.Context) ([]broker.Result, error) {
	for i := range p.appends {
		if err := p.a.b.CheckAppend(&p.appends[i]); err != nil && !p.creates(i, err) {
			return nil, p.withdraw(p.atPartition(problemOf(err), i))
		}
	}
	for _, t := range p.topics {
		if t.known {
			continue
		}
		err := p.a.b.EnsureTopicAs(p.by.acting(ctx, t.create), t.name, t.spec)
		if n, unknown := p.a.b.Partitions(t.name); err == nil && (unknown != nil || n != t.partitions) {
			err = problem.New(api.StoreUnavailable, "topic %s was created by another request just now; try again", t.name)
		}
		if err != nil {
			return nil, p.withdraw(err)
		}
	}
	parts := make([]broker.Part, len(p.appends))
	for i := range parts {
		parts[i].Append = p.appends[i]
	}
	for _, g := range p.groups {
		parts[g.part].Keyed, g.topic.keyed = g.topic.keyed, false // one of a topic's
	}
	for _, q := range p.order {
		for i := range q.prepared.Parts {
			parts[q.part+i].Update = q.prepared.Parts[i].Update
		}
	}
	ticket := p.a.b.SubmitAtomic(ctx, parts)
	for _, q := range p.order {
		q.prepared.Watch(ticket, q.part)
	}
	return ticket.Wait(ctx), nil
}

// creates reports whether an append was refused because its topic will be created.
func (p *atomicProducing) creates(i int, err error) bool {
	t := p.topics[p.appends[i].Topic]
	return t != nil && !t.known && errors.Is(err, state.ErrUnknownTopic)
}
