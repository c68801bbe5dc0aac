package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// atomic posts lines as one atomic request.
func (s *server) atomic(kind, body string, header ...string) *answered {
	s.t.Helper()
	h := map[string]string{"Content-Type": kind}
	for i := 0; i < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	return s.do(call{method: "POST", path: "/records?atomic=true", body: strings.NewReader(body), header: h})
}

// frame returns a frame of an atomic request with batches.
func frame(topic string, partition int, batches []byte) string {
	return fmt.Sprintf("{\"topic\":%q,\"partition\":%d,\"bytes\":%d}\n%s", topic, partition, len(batches), batches)
}

func TestAtomicRequest(t *testing.T) {
	s := start(t)
	newTopic(s, "orders", 4)
	s.must(201, s.send("PUT", "/queues/mails", `{"priorities":2}`), nil)
	s.mustPost("topic-name=orders&partition=1", api.TextPlain, "earlier")
	lines := `{"topic":"orders","partition":1,"value":"a","headers":{"h":"1"}}

 {"queue":"mails","value":"urgent"}
{"queue":"mails","value":"second","priority":1}
{ "event" : "order_placed", "entity_id": "ö", "data": {"total": 10} }
{"topic":"orders","key":"k","value_base64":"/w=="}
{"topic":"orders","partition":1,"value":"b"}
{"queue":"mails","value":"late","delay":"1h"}
{"topic":"notes","value":null}
`
	k := record.PartitionOf([]byte("k"), 4)
	want := fmt.Sprintf(`{"records":[{"topic":"orders","partition":1,"offset":1},{"queue":"mails","id":"0-0"},{"queue":"mails","id":"1-0"},`+
		`{"topic":"events","partition":0,"offset":0},{"topic":"orders","partition":%d,"offset":0},{"topic":"orders","partition":1,"offset":2},`+
		`{"queue":"mails","id":"0-1"},{"topic":"notes","partition":0,"offset":0}]}`, k)
	a := s.atomic(api.NDJSON, lines)
	check.Equal(t, a.String(), "201 "+want)
	check.EqualSlicesf(t, s.values("orders", 1), []string{"earlier", "a", "b"}, "orders")
	check.EqualSlicesf(t, s.values("orders", int(k)), []string{"base64:/w=="}, "orders")
	check.EqualSlicesf(t, s.values("events", 0), []string{`{"event":"order_placed","entity_id":"ö","data":{"total":10}}`}, "events")
	check.EqualSlicesf(t, s.values("notes", 0), []string{"null"}, "notes")
	check.Equal(t, valuesOf(s.lease("mails", `{"max":10}`)), "urgent second")
	must.Equalf(t, s.queue("mails").Delayed, int64(1), "delayed messages")

	frames := frame("orders", 2, batch(t, record.EncodeOptions{}, value("x"), value("y"))) + frame("notes", 0, batch(t, record.EncodeOptions{Compression: record.Zstd}, value("z")))
	a = s.atomic(api.RecordBatch, frames)
	check.Equal(t, a.String(), `201 {"results":[{"topic":"orders","partition":2,"first_offset":0,"count":2},{"topic":"notes","partition":0,"first_offset":1,"count":1}]}`)
	check.EqualSlicesf(t, s.values("notes", 0), []string{"null", "z"}, "notes")
}

// grown returns the ends of all topics, which are also those of queues and events. Denials are audited.
func (s *server) grown() string {
	s.t.Helper()
	var list api.Topics
	s.must(200, s.get("/topics"), &list)
	text := ""
	for i := range list.Topics {
		for _, p := range list.Topics[i].Partitions {
			if list.Topics[i].Name == "audit" {
				continue
			}
			text += fmt.Sprintf("%s/%d:%d ", list.Topics[i].Name, p.Partition, p.Next)
		}
	}
	return text
}

// TestAtomicRequestWithOneBadPart: a request of which one record, message or event is refused stores nothing,
// wherever that one is, and creates no topic.
func TestAtomicRequestWithOneBadPart(t *testing.T) {
	s := start(t, func(c *setup) {
		c.broker.AuditTopic, c.broker.Internal = "audit", []string{"triggers", "firings"}
		c.http.RecordsMax = 8
	})
	newTopic(s, "orders", 2)
	newTopic(s, "small", 1)
	s.must(200, s.send("PUT", "/topic?topic-name=small", `{"settings":{"max-batch-bytes":"1024"}}`), nil)
	newQueue(s, "mails", `{"dead-letter":"none"}`)
	newQueue(s, "keyed", `{"dead-letter":"none","key-mode":"order"}`)
	newQueue(s, "full", `{"dead-letter":"none"}`)
	s.must(200, s.send("PUT", "/topic?topic-name=full", `{"settings":{"retention-bytes":"1"}}`), nil)
	s.must(201, s.sendOne("full", "", "x"), nil)
	s.must(201, s.send("POST", "/event", `{"event":"e","entity_id":"1"}`), nil)
	long := strings.Repeat("x", 2000)
	for name, c := range map[string]struct {
		line string
		code api.Code
		text string // in the answer
	}{
		"bad topic name":          {`{"topic":"a/b","value":""}`, api.BadRequest, `"record":2`},
		"no topic name":           {`{"topic":null,"value":""}`, api.BadRequest, `record 2: topic: want a string`},
		"topic is a number":       {`{"topic":7,"value":""}`, api.BadRequest, `record 2: topic: want a string`},
		"unknown partition":       {`{"topic":"orders","partition":2,"value":""}`, api.UnknownPartition, `record 2: topic orders has 2 partitions`},
		"partition of a new one":  {`{"topic":"new","partition":1,"value":""}`, api.UnknownPartition, `topic new has 1 partitions`},
		"negative partition":      {`{"topic":"orders","partition":-1,"value":""}`, api.BadRequest, `partition: want a number`},
		"no value":                {`{"topic":"orders"}`, api.BadRequest, `record 2: value: missing`},
		"null as queue":           {`{"queue":null,"value":"x"}`, api.BadRequest, `queue: want a string`},
		"no target":               {`{"value":"x"}`, api.BadRequest, `a line without topic (a record)`},
		"two targets":             {`{"topic":"orders","queue":"mails","value":"x"}`, api.BadRequest, `a line has only one of topic`},
		"target twice":            {`{"topic":"orders","\u0074opic":"small","value":"x"}`, api.BadRequest, `a line has only one of topic`},
		"hidden target":           {`{"topic":"orders","\u0071ueue":"mails","value":"x"}`, api.BadRequest, `a line has only one of topic`},
		"delay of a record":       {`{"topic":"orders","value":"x","delay":"1s"}`, api.BadRequest, `unknown member`},
		"not an object":           {`["a"]`, api.BadRequest, `record 2: body: `},
		"not JSON":                {`{"topic":"orders","value":"x"`, api.BadRequest, `record 2: body: `},
		"two objects":             {`{"topic":"orders","value":"x"} {}`, api.BadRequest, `record 2: body: `},
		"not UTF-8":               {"{\"topic\":\"orders\",\"value\":\"\xff\"}", api.BadRequest, `not valid UTF-8`},
		"too large for its topic": {`{"topic":"small","value":"` + long + `"}`, api.TooLarge, `"topic":"small","partition":0`},
		"audit topic":             {`{"topic":"audit","value":"x"}`, api.Forbidden, `"audit"`},
		"topic of triggers":       {`{"topic":"triggers","value":"x"}`, api.Forbidden, `"triggers"`},
		"topic of firings":        {`{"topic":"firings","value":"x"}`, api.Forbidden, `"firings"`},
		"unknown queue":           {`{"queue":"other","value":"x"}`, api.UnknownTopic, `record 2: `},
		"no queue":                {`{"queue":"orders","value":"x"}`, api.NotAQueue, `orders`},
		"dedup":                   {`{"queue":"mails","value":"x","dedup":"d"}`, api.BadRequest, `record 2: dedup: `},
		"long delay":              {`{"queue":"mails","value":"x","delay":"366d"}`, api.BadRequest, `record 2: delay: `},
		"bad delay":               {`{"queue":"mails","value":"x","delay":"soon"}`, api.BadRequest, `record 2: delay: `},
		"delay and time":          {`{"queue":"mails","value":"x","delay":"1s","at":"2030-01-01T00:00:00Z"}`, api.BadRequest, `record 2: at: `},
		"delay of ordered keys":   {`{"queue":"keyed","key":"k","value":"x","delay":"1s"}`, api.BadRequest, `keeps the order of keys`},
		"unknown priority":        {`{"queue":"mails","value":"x","priority":1}`, api.BadRequest, `record 2: priority: `},
		"header of Seb":           {`{"queue":"mails","value":"x","headers":{"seb-expire":"1"}}`, api.BadRequest, `record 2: headers: `},
		"full queue":              {`{"queue":"full","value":"x"}`, api.QueueFull, `"topic":"full"`},
		"partition of a queue":    {`{"topic":"mails","value":"x"}`, api.BadRequest, `record 1: queue: mails has messages of priority 0, and its partition 0 has records`},
		"event without entity":    {`{"event":"e"}`, api.BadRequest, `record 2: entity_id: missing`},
		"event with a topic":      {`{"event":"e","entity_id":"1","partition":0}`, api.BadRequest, `unknown member of an event`},
		"data is no object":       {`{"event":"e","entity_id":"1","data":[]}`, api.BadRequest, `record 2: data: `},
		"large event":             {`{"event":"e","entity_id":"1","data":{"x":"` + strings.Repeat("x", 256<<10) + `"}}`, api.TooLarge, `record 2: event: at most`},
	} {
		before := s.grown()
		good := []string{`{"topic":"orders","value":"x"}`, `{"queue":"mails","value":"x"}`, `{"event":"e","entity_id":"1"}`, `{"topic":"created","value":"x"}`}
		lines := slices.Insert(good, 2, c.line)
		a := s.atomic(api.NDJSON, strings.Join(lines, "\n"))
		if p := a.problem(t); p.Code != c.code || !strings.Contains(string(a.body), strings.ReplaceAll(c.text, `"audit"`, `\"audit\"`)) && !strings.Contains(p.Detail, c.text) {
			t.Errorf("%s: %s, want %s, %q", name, a, c.code, c.text)
		}
		must.Equalf(t, s.grown(), before, "%s: ends of topics", name)
	}
	nine := strings.Repeat(`{"topic":"orders","value":"x"}`+"\n", 9)
	check.Equal(t, s.atomic(api.NDJSON, nine).problem(t).Code, api.TooLarge)
	check.Equal(t, s.atomic(api.NDJSON, "\n").problem(t).Detail, "body: no records")
}

// TestAtomicBatchesWithOneBadFrame is TestAtomicRequestWithOneBadPart for RecordBatches.
func TestAtomicBatchesWithOneBadFrame(t *testing.T) {
	s := start(t, func(c *setup) { c.limit = 64 << 20 })
	newTopic(s, "orders", 1000)
	newTopic(s, "small", 1)
	s.must(200, s.send("PUT", "/topic?topic-name=small", `{"settings":{"max-batch-bytes":"1024"}}`), nil)
	good := batch(t, record.EncodeOptions{}, value("x"))
	foreign := batch(t, record.EncodeOptions{Producer: &record.Producer{ID: 7, Sequence: 1}}, value("x"))
	broken := append(good[:len(good)-1:len(good)-1], 'y')
	large := batch(t, record.EncodeOptions{}, value(strings.Repeat("x", 2000)))
	for name, c := range map[string]struct {
		frame string
		code  api.Code
		text  string // in the detail
	}{
		"same partition":      {frame("orders", 1, good), api.BadRequest, "record 1: partition: two frames for partition 1 of topic orders"},
		"unknown partition":   {frame("orders", 1000, good), api.UnknownPartition, "record 1: "},
		"bad topic name":      {frame("a/b", 0, good), api.BadRequest, "record 1: topic: "},
		"no partition":        {"{\"topic\":\"orders\",\"bytes\":1}\nx", api.BadRequest, "record 1: partition: "},
		"no topic":            {"{\"partition\":0,\"bytes\":1}\nx", api.BadRequest, "record 1: topic: missing"},
		"no bytes":            {"{\"topic\":\"orders\",\"partition\":0}\n", api.BadRequest, "record 1: bytes: "},
		"negative bytes":      {"{\"topic\":\"orders\",\"partition\":0,\"bytes\":-1}\n", api.BadRequest, "record 1: bytes: "},
		"unknown member":      {"{\"topic\":\"orders\",\"partition\":0,\"bytes\":1,\"key\":1}\nx", api.BadRequest, "record 1: body: "},
		"not JSON":            {"orders\n", api.BadRequest, "record 1: body: "},
		"no line feed":        {"{}", api.BadRequest, "record 1: body: ends in the line"},
		"long line":           {strings.Repeat(" ", 1<<20) + "\n", api.BadRequest, "record 1: body: the line before the batches has more than 1024 bytes"},
		"cut":                 {frame("orders", 2, good)[:60], api.BadRequest, ""},
		"claims too much":     {"{\"topic\":\"orders\",\"partition\":2,\"bytes\":1000000000000}\nx", api.TooLarge, "record 1: body: at most"},
		"wrong checksum":      {frame("orders", 2, broken), api.BadRequest, "record 1: "},
		"too large":           {frame("small", 0, large), api.TooLarge, "record 1: "},
		"another producer":    {frame("orders", 2, foreign), api.BadRequest, "Seb-Producer-Id: "},
		"sequence of its own": {frame("orders", 2, foreign), api.BadRequest, "Seb-Producer-Id: "},
	} {
		before := s.grown()
		a := s.atomic(api.RecordBatch, frame("orders", 1, good)+c.frame, api.HeaderProducerID, "1", api.HeaderProducerEpoch, "0", api.HeaderSequence, "0")
		if p := a.problem(t); p.Code != c.code || !strings.Contains(p.Detail, c.text) {
			t.Errorf("%s: %s, want %s, %q", name, a, c.code, c.text)
		}
		must.Equalf(t, s.grown(), before, "%s: ends of topics", name)
	}
	var all strings.Builder
	for i := range 1000 {
		all.WriteString(frame("orders", i, good))
	}
	before := s.grown()
	check.Equal(t, s.atomic(api.RecordBatch, all.String()+frame("small", 0, good)).problem(t).Detail, "record 1000: partitions: at most 1000, given 1001")
	must.Equalf(t, s.grown(), before, "ends of topics")
	check.Equal(t, s.atomic(api.RecordBatch, "").problem(t).Code, api.BadRequest)
	check.Equalf(t, s.atomic(api.RecordBatch, all.String()).status, 201, "1,000 partitions")
}

func TestArgumentsOfAtomicRequests(t *testing.T) {
	s := start(t)
	line := `{"topic":"t","value":"x"}`
	for query, detail := range map[string]string{
		"atomic=true&topic-name=t":      "topic-name: not with atomic: each record names its topic",
		"atomic=true&partition=0":       "partition: not with atomic: each record names its topic",
		"atomic=true&expected-offset=0": "expected-offset: not with atomic: each record names its topic",
		"%61tomic=true&topic-name=t":    "topic-name: not with atomic: each record names its topic",
		"atomic=yes&topic-name=t":       "atomic: want true or false, given \"yes\"",
		"atomic=false":                  "topic-name: required",
		"":                              "topic-name: required",
	} {
		check.Equalf(t, s.post(query, api.NDJSON, line).problem(t).Detail, detail, "%s", query)
	}
	for _, kind := range []string{api.JSON, api.TextPlain, api.OctetStream, api.Multipart, ""} {
		check.Equalf(t, s.post("atomic=true", kind, line).problem(t).Code, api.UnsupportedMediaType, "%s", kind)
	}
	check.Equal(t, s.atomic(api.NDJSON, line, "Content-Encoding", "gzip").problem(t).Code, api.UnsupportedMediaType)
	check.Equal(t, s.atomic(api.NDJSON, line, api.HeaderProducerID, "1", api.HeaderSequence, "1").problem(t).Detail,
		"Seb-Sequence: want 0 with atomic, given 1: the next request of a producer has the next epoch")
	check.Equal(t, s.atomic(api.NDJSON, line, api.HeaderProducerID, "1", api.HeaderSequence, "0").problem(t).Detail,
		"Seb-Producer-Epoch: required with atomic: it is the number of the request")
	if a := s.get("/topics"); strings.Contains(string(a.body), `"t"`) {
		t.Errorf("a refused request made a topic: %s", a)
	}
	s.must(201, s.post("atomic=false&topic-name=t", api.NDJSON, `{"value":"x"}`), nil)
}

func TestRepeatedAtomicRequest(t *testing.T) {
	s := start(t)
	newQueue(s, "mails", "")
	send := func(epoch int, lines ...string) *answered {
		return s.atomic(api.NDJSON, strings.Join(lines, "\n"), api.HeaderProducerID, "5", api.HeaderProducerEpoch, fmt.Sprint(epoch), api.HeaderSequence, "0")
	}
	order := []string{`{"topic":"orders","value":"o"}`, `{"queue":"mails","value":"m"}`, `{"queue":"mails","value":"later","delay":"1h"}`, `{"event":"e","entity_id":"1"}`}
	first := send(0, order...)
	s.must(201, first, nil)
	grown := s.grown()
	again := send(0, order...)
	check.Equal(t, again.String(), strings.TrimSuffix(first.String(), "}")+`,"duplicate":true}`)
	// of a repetition that lacks a part, or has another one, nothing is stored
	check.Equal(t, send(0, append(order, `{"topic":"other","value":"x"}`)...).problem(t).Code, api.SequenceGap)
	check.Equal(t, strings.ReplaceAll(s.grown(), "other/0:0 ", ""), grown)
	// the next request may leave partitions out, and others need not know its epochs
	s.must(201, send(1, order[0]), nil)
	s.must(201, send(2, order[3]), nil)
	s.must(201, send(3, order...), nil)
	check.Equal(t, send(2, order...).problem(t).Code, api.ProducerFenced)
	check.EqualSlicesf(t, s.values("orders", 0), []string{"o", "o", "o"}, "orders")

	batches := frame("orders", 0, batch(t, record.EncodeOptions{}, value("x"))) + frame("other", 0, batch(t, record.EncodeOptions{}, value("y")))
	sendBatches := func() *answered {
		return s.atomic(api.RecordBatch, batches, api.HeaderProducerID, "6", api.HeaderProducerEpoch, "0", api.HeaderSequence, "0")
	}
	first = sendBatches()
	s.must(201, first, nil)
	check.Equal(t, sendBatches().String(), strings.TrimSuffix(first.String(), "}")+`,"duplicate":true}`)
}

// TestRepeatedAtomicRequestOfMorePartitions: the partition of a key changes with the number of partitions.
func TestRepeatedAtomicRequestOfMorePartitions(t *testing.T) {
	s := start(t)
	newTopic(s, "orders", 1)
	send := func(epoch string) *answered {
		return s.atomic(api.NDJSON, `{"topic":"orders","key":"abc","value":"v"}`, api.HeaderProducerID, "5", api.HeaderProducerEpoch, epoch, api.HeaderSequence, "0")
	}
	s.must(201, send("0"), nil)
	s.must(200, s.send("PUT", "/topic?topic-name=orders", `{"partitions":8}`), nil)
	grown := s.grown()
	check.Equal(t, send("0").problem(t).Code, api.SequenceGap)
	must.Equalf(t, s.grown(), grown, "ends of topics")
	s.must(201, send("1"), nil)
}

// TestRightsOfAtomicRequests: a client needs the rights to all that it writes to, and no answer tells what
// exists.
func TestRightsOfAtomicRequests(t *testing.T) {
	s := start(t, func(c *setup) { c.broker.AuditTopic = "audit" })
	newTopic(s, "orders", 1)
	newTopic(s, "secret", 1)
	newQueue(s, "mails", `{"dead-letter":"none"}`)
	write := func(name string) access.Rule { return permit(access.Write, access.Topic, name) }
	lines := []string{`{"topic":"orders","value":"o"}`, `{"queue":"mails","value":"m"}`, `{"event":"e","entity_id":"1"}`}
	key := s.token("client", time.Time{})
	send := func(lines ...string) *answered {
		return s.matrix("POST", "/records?atomic=true", api.NDJSON, strings.Join(lines, "\n"), authorization("Bearer "+key))
	}
	all := []access.Rule{write("orders"), write("mails"), write("events"), permit(access.Create, access.Topic, "events")}
	for i, missing := range []string{"write on topic \"orders\"", "write on topic \"mails\"", "write on topic \"events\"", "create on topic \"events\""} {
		s.allow("client", slices.Delete(slices.Clone(all), i, i+1)...)
		before := s.grown()
		p := send(lines...).problem(t)
		if p.Code != api.Forbidden || !strings.Contains(p.Detail, missing) || p.Record == nil || int(*p.Record) != min(i, 2) {
			t.Errorf("%+v, want a refusal of %s", p, missing)
		}
		must.Equalf(t, s.grown(), before, "without %s", missing)
	}
	s.allow("client", all...)
	for _, pair := range [][2]string{
		{`{"topic":"secret","value":"x"}`, `{"topic":"absent","value":"x"}`},
		{`{"topic":"secret","partition":9,"value":"x"}`, `{"topic":"absent","partition":9,"value":"x"}`},
		{`{"queue":"secret","value":"x"}`, `{"queue":"absent","value":"x"}`},
	} {
		known, unknown := send(lines[0], pair[0]), send(lines[0], pair[1])
		check.Equal(t, known.status, 403)
		check.Equal(t, strings.ReplaceAll(known.String(), "secret", "absent"), unknown.String())
	}
	s.must(201, send(lines...), nil)
	// denials are audited after their answer
	for _, want := range []string{`"topic.write","resource":{"type":"topic","name":"orders"},"outcome":"denied"`, `"topic.create","resource":{"type":"topic","name":"events"},"outcome":"denied"`} {
		a := s.get("/records?topic-name=audit&partition=0&offset=0&timeout=20s&contains=" + url.QueryEscape(want))
		if s.must(200, a, nil); string(a.body) == "[]" {
			t.Errorf("the audit topic has no %s", want)
		}
	}
}

// TestStandbyForwardsAtomicRequests: a client that knows only a standby stores all of a request, or none.
func TestStandbyForwardsAtomicRequests(t *testing.T) {
	t.Parallel()
	leads, standby, _ := pair(t)
	newQueue(standby, "mails", "")
	lines := `{"topic":"orders","value":"o"}` + "\n" + `{"queue":"mails","value":"m"}` + "\n" + `{"event":"e","entity_id":"1"}`
	a := standby.atomic(api.NDJSON, lines, api.HeaderProducerID, "1", api.HeaderProducerEpoch, "0", api.HeaderSequence, "0")
	check.Equal(t, a.String(), `201 {"records":[{"topic":"orders","partition":0,"offset":0},{"queue":"mails","id":"0-0"},{"topic":"events","partition":0,"offset":0}]}`)
	a = leads.atomic(api.NDJSON, lines, api.HeaderProducerID, "1", api.HeaderProducerEpoch, "0", api.HeaderSequence, "0")
	check.Equal(t, a.String(), `201 {"records":[{"topic":"orders","partition":0,"offset":0},{"queue":"mails","id":"0-0"},{"topic":"events","partition":0,"offset":0}],"duplicate":true}`)
	before := leads.grown()
	check.Equal(t, standby.atomic(api.NDJSON, lines+"\n"+`{"queue":"mails","value":"m","dedup":"d"}`).problem(t).Code, api.BadRequest)
	check.Equal(t, leads.grown(), before)
	check.Equal(t, valuesOf(standby.lease("mails", "")), "m")
	frames := frame("orders", 0, batch(t, record.EncodeOptions{}, value("x")))
	check.Equal(t, standby.atomic(api.RecordBatch, frames).String(), `201 {"results":[{"topic":"orders","partition":0,"first_offset":1,"count":1}]}`)
}

func TestAtomicRequestOfAReadOnlyBroker(t *testing.T) {
	store := objstore.NewMemory()
	start(t, func(c *setup) { c.store = store })
	s := start(t, func(c *setup) { c.store, c.broker.Core.ReadOnly = store, true })
	check.Equal(t, s.atomic(api.NDJSON, `{"topic":"t","value":"x"}`).problem(t).Code, api.ReadOnly)
}
