package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/sebbroker/seb/api"
)

// call is a call of the conformance command, with what it needs and what it must have done.
type call struct {
	name string // in the report
	do   string // of the conformance command
	// hits is the request that meets the fault: a method, and a pattern of paths.
	hits string
	// bounded: the client goes to another broker if this request gets no answer.
	bounded bool
	// many: the call sends several requests that match also without a fault.
	many bool
	// worker: the call repeats what may succeed for as long as it takes.
	worker bool
	// input: the call meets no fault.
	input bool
	// varies: how often records or messages are given depends on time, if the broker is killed.
	varies bool
	// prepare makes what the call needs.
	prepare func(c *cell) error
	args    func(c *cell) args
	// right checks the answer to a call that succeeded; nil: only the answers of languages are compared.
	right func(c *cell, result json.RawMessage) error
	// stored returns how often the broker has what the call writes: the least and the most of its parts. nil:
	// the call writes nothing.
	stored func(c *cell) (least, most int, err error)
	// doubled is how often a repeated call may be stored, if not once.
	doubled int
}

// matches reports whether a request of the call meets the fault.
func (c *call) matches(r *http.Request) bool {
	method, pattern, _ := strings.Cut(c.hits, " ")
	ok, err := path.Match(pattern, r.URL.EscapedPath())
	return r.Method == method && ok && err == nil
}

// calls are the rows of the matrix.
var calls = slices.Concat(recordCalls, triggerCalls, queueCalls)

var recordCalls = []*call{
	{
		name: "produce", do: "produce", hits: "POST /records", bounded: true, prepare: oldRecord,
		args: func(c *cell) args {
			return args{"topic": c.name, "partition": 0, "records": []args{
				{"value": "first", "key": "k", "headers": []args{{"key": "h", "value": "v"}, {"key": "h", "value": ""}}},
				{"value": "ü €\n\u2028"},
				{"value_base64": base64.StdEncoding.EncodeToString([]byte{0, 0xff, 0xfe}), "timestamp": 1_700_000_000_000},
				{"key_base64": "/w==", "value": nil},
			}}
		},
		right: func(c *cell, result json.RawMessage) error {
			return c.same(result, `{"results":[{"partition":0,"first_offset":1,"count":4}]}`)
		},
		stored: func(c *cell) (int, int, error) {
			return c.records(1, func(r *api.Record) string { return text(r.Key, r.KeyBase64) + "=" + text(r.Value, r.ValueBase64) },
				"k=first", "null=ü €\n\u2028", "null=AP/+", "/w===null")
		},
	},
	{
		name: "produce, keys", do: "produce", hits: "POST /records", many: true, bounded: true,
		prepare: func(c *cell) error { return c.topic(3) },
		args: func(c *cell) args {
			var list []args
			for _, k := range manyKeys {
				list = append(list, args{"key": k, "value": k})
			}
			return args{"topic": c.name, "records": list}
		},
		stored: func(c *cell) (int, int, error) {
			return c.records(3, func(r *api.Record) string { return text(r.Value, r.ValueBase64) }, manyKeys...)
		},
	},
	{
		name: "produce, expected offset", do: "produce", hits: "POST /records", bounded: true, prepare: oldRecord,
		args: func(c *cell) args {
			return args{"topic": c.name, "partition": 0, "expected_offset": 1, "records": []args{{"value": "a"}, {"value": "b"}}}
		},
		right: func(c *cell, result json.RawMessage) error {
			return c.same(result, `{"results":[{"partition":0,"first_offset":1,"count":2}]}`)
		},
		stored: func(c *cell) (int, int, error) { return c.values(1, "a", "b") },
	},
	{
		name: "read", do: "read", hits: "GET /records", many: true, prepare: func(c *cell) error { return c.fill(1, 50) },
		args:  func(c *cell) args { return args{"topic": c.name, "partition": 0, "offset": "earliest", "max": 1000} },
		right: func(c *cell, result json.RawMessage) error { return c.all(result, 50) },
	},
	{
		name: "consume, read", do: "consume", hits: "GET /records", many: true, prepare: func(c *cell) error { return c.fill(2, 20) },
		args:  func(c *cell) args { return args{"group": "g-" + c.name, "topic": c.name, "max": 100} },
		right: committed,
	},
	{
		name: "consume, commit", do: "consume", hits: "PUT /offsets", many: true, prepare: func(c *cell) error { return c.fill(2, 20) },
		args:  func(c *cell) args { return args{"group": "g-" + c.name, "topic": c.name, "max": 100} },
		right: committed,
	},
	{
		name: "stream", do: "stream", hits: "GET /records", many: true, prepare: func(c *cell) error { return c.fill(1, 20) },
		args:  func(c *cell) args { return args{"topic": c.name, "partition": 0, "offset": 0, "max": 20} },
		right: func(c *cell, result json.RawMessage) error { return c.all(result, 20) },
	},
	{
		name: "stream, all partitions", do: "stream", hits: "GET /records", many: true, prepare: func(c *cell) error { return c.fill(3, 20) },
		args:  func(c *cell) args { return args{"topic": c.name, "partition": "all", "offset": "earliest", "max": 20} },
		right: func(c *cell, result json.RawMessage) error { return c.all(result, 20) },
	},
	{
		name: "event with ID", do: "event", hits: "POST /event", prepare: eventTopic, doubled: 3,
		args: func(c *cell) args {
			return args{"topic": c.name, "events": []args{{"event": "paid", "entity_id": "u1", "id": "e1", "data": args{"amount": 12.5}}}}
		},
		stored: func(c *cell) (int, int, error) { return c.events("e1") },
	},
	{
		name: "event", do: "event", hits: "POST /event", prepare: eventTopic,
		args: func(c *cell) args {
			return args{"topic": c.name, "events": []args{{"event": "paid", "entity_id": "u1"}}}
		},
		stored: func(c *cell) (int, int, error) { return c.events("u1") },
	},
	{
		name: "events with IDs", do: "event", hits: "POST /event", prepare: eventTopic, doubled: 3,
		args: func(c *cell) args {
			return args{"topic": c.name, "many": true, "events": []args{{"event": "a", "entity_id": "u1", "id": "e1"}, {"event": "b", "entity_id": "u2", "id": "e2"}}}
		},
		stored: func(c *cell) (int, int, error) { return c.events("e1", "e2") },
	},
	{
		name: "topic create", do: "topic_create", hits: "PUT /topic",
		args:   func(c *cell) args { return args{"topic": c.name, "partitions": 3} },
		stored: func(c *cell) (int, int, error) { return c.exists("/topic?topic-name=" + c.name) },
	},
	{
		name: "topic get", do: "topic_get", hits: "GET /topic", prepare: func(c *cell) error { return c.topic(2) },
		args: func(c *cell) args { return args{"topic": c.name} },
	},
}

var manyKeys = []string{"a", "b", "c", "d", "e", "ü", "order-1", "order-2", "user-17", "\u0000", "", "long-key-" + strings.Repeat("x", 90)}

// text returns a key or a value.
func text(plain, encoded *string) string {
	switch {
	case plain != nil:
		return *plain
	case encoded != nil:
		return *encoded
	}
	return "null"
}

func oldRecord(c *cell) error { return c.fill(1, 1) }

func eventTopic(c *cell) error {
	return c.site().send("PUT", "/topic?topic-name="+c.name, args{"settings": args{"timestamp-type": "LogAppendTime", "key-index": true}}, nil)
}

// topic makes the topic of the cell.
func (c *cell) topic(partitions int) error {
	return c.site().send("PUT", "/topic?topic-name="+c.name, args{"partitions": partitions}, nil)
}

// fill makes the topic of the cell with records, which go to its partitions in turns. Their values are "old"
// and a number.
func (c *cell) fill(partitions, records int) error {
	if err := c.topic(partitions); err != nil {
		return err
	}
	for p := range partitions {
		var lines strings.Builder
		for i := p; i < records; i += partitions {
			fmt.Fprintf(&lines, "{\"value\":\"old %d\"}\n", i)
		}
		err := c.site().do("POST", fmt.Sprintf("/records?topic-name=%s&partition=%d", c.name, p), api.NDJSON, lines.String(), nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// read returns all records of the topic of the cell; none if there is no topic.
func (c *cell) read(partitions int) (all []api.Record, err error) {
	for p := range partitions {
		var list []api.Record
		err := c.site().get(fmt.Sprintf("/records?topic-name=%s&partition=%d&offset=0&timeout=0s&max-records=10000", c.name, p), &list)
		if gone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// records counts records by a text of each.
func (c *cell) records(partitions int, of func(*api.Record) string, wanted ...string) (least, most int, err error) {
	all, err := c.read(partitions)
	if err != nil {
		return 0, 0, err
	}
	counts := map[string]int{}
	for i := range all {
		counts[of(&all[i])]++
	}
	least, most = counts[wanted[0]], 0
	for _, w := range wanted {
		least, most = min(least, counts[w]), max(most, counts[w])
	}
	return least, most, nil
}

func (c *cell) values(partitions int, wanted ...string) (least, most int, err error) {
	return c.records(partitions, func(r *api.Record) string { return text(r.Value, r.ValueBase64) }, wanted...)
}

// events counts events by their ID, or, without one, by their entity.
func (c *cell) events(wanted ...string) (least, most int, err error) {
	return c.records(1, func(r *api.Record) string {
		var e struct{ ID, Entity_ID string }
		if json.Unmarshal([]byte(text(r.Value, nil)), &e) != nil {
			return ""
		}
		if e.ID != "" {
			return e.ID
		}
		return e.Entity_ID
	}, wanted...)
}

// all checks that an answer has all records of fill, once each and in the order of their partition.
func (c *cell) all(result json.RawMessage, records int) error {
	var got struct{ Records []struct{ Value string } }
	if err := json.Unmarshal(result, &got); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, r := range got.Records {
		seen[r.Value] = true
	}
	if len(got.Records) != records || len(seen) != records {
		return fmt.Errorf("%d records, %d of them different, want %d", len(got.Records), len(seen), records)
	}
	return nil
}

// committed checks that a consumer has got all 20 records of two partitions, and that they are committed.
func committed(c *cell, result json.RawMessage) error {
	if err := c.all(result, 20); err != nil {
		return err
	}
	var groups struct {
		Offsets []struct{ Offset int64 }
	}
	if err := c.site().get("/groups?group=g-"+c.name, &groups); err != nil {
		return err
	}
	if len(groups.Offsets) != 2 || groups.Offsets[0].Offset != 10 || groups.Offsets[1].Offset != 10 {
		return fmt.Errorf("committed offsets %v, want 10 and 10", groups.Offsets)
	}
	return nil
}

// exists counts something that has a path of its own.
func (c *cell) exists(path string) (least, most int, err error) {
	err = c.site().get(path, nil)
	if gone(err) {
		return 0, 0, nil
	}
	return 1, 1, err
}

// same compares an answer with what it must be.
func (c *cell) same(result json.RawMessage, want string) error {
	got := masked(result)
	if wanted := masked(json.RawMessage(want)); got != wanted {
		return fmt.Errorf("answer %s, want %s", got, wanted)
	}
	return nil
}
