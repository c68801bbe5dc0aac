package conformance

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/webhook"
)

// inputs are calls whose arguments are odd or wrong. They meet no fault: only the answers are compared.
var inputs []*call

// input adds a call. NAME in its texts is the name of the cell.
func input(name, do string, prepare func(c *cell) error, in args) {
	inputs = append(inputs, &call{
		name: do + ": " + name, do: do, hits: "GET /none", prepare: prepare, input: true,
		args: func(c *cell) args { return named(in, c.name).(args) },
	})
}

// named replaces NAME in all texts.
func named(v any, name string) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "NAME", name)
	case args:
		out := args{}
		for k, value := range v {
			out[k] = named(value, name)
		}
		return out
	case []args:
		out := make([]args, len(v))
		for i := range v {
			out[i] = named(v[i], name).(args)
		}
		return out
	}
	return v
}

func one(value any) []args { return []args{{"value": value}} }

func emptyQueue(c *cell) error { return c.queue() }

func init() {
	opened()
	records()
	eventsAndTriggers()
	queues()
	verified()
	calls = append(calls, inputs...)
}

func opened() {
	bad := map[string][]string{
		"no address": {}, "empty address": {""}, "no scheme": {"localhost:1"}, "another scheme": {"ftp://h"}, "no host": {"http://"},
		"query": {"http://h?x=1"}, "password": {"http://user:" + otherKey + "@h"}, "line break": {"http://h\n"}, "second is bad": {"http://127.0.0.1:1", "x"},
	}
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		input(name, "open", nil, args{"addresses": bad[name]})
	}
	for _, key := range []string{"a\r\nb", otherKey + "\x00", "a\x7f"} {
		input(fmt.Sprintf("key %q", key[len(key)-2:]), "open", nil, args{"addresses": []string{"http://127.0.0.1:1"}, "token": key})
	}
}

func records() {
	input("unknown topic is made", "produce", nil, args{"topic": "NAME", "records": one("v")})
	input("unknown partition", "produce", oldRecord, args{"topic": "NAME", "partition": 7, "records": one("v")})
	input("negative partition", "produce", oldRecord, args{"topic": "NAME", "partition": -1, "records": one("v")})
	input("bad name of the topic", "produce", nil, args{"topic": "a/b", "records": one("v")})
	input("name like a parameter", "produce", nil, args{"topic": "NAME&partition=9#", "records": one("v")})
	input("no name", "produce", nil, args{"topic": "", "records": one("v")})
	input("no record", "produce", oldRecord, args{"topic": "NAME", "partition": 0, "records": []args{}})
	input("too large", "produce", oldRecord, args{"topic": "NAME", "partition": 0, "records": one(strings.Repeat("x", 15<<20))})
	input("expected offset below the end", "produce", oldRecord, args{"topic": "NAME", "partition": 0, "expected_offset": 0, "records": one("v")})
	input("expected offset beyond the end", "produce", oldRecord, args{"topic": "NAME", "partition": 0, "expected_offset": 9, "records": one("v")})
	input("a queue", "produce", emptyQueue, args{"topic": "NAME", "partition": 0, "records": one("v")})
	input("unknown topic", "read", nil, args{"topic": "NAME", "partition": 0, "offset": 0, "max": 1})
	input("unknown topic, earliest", "read", nil, args{"topic": "NAME", "partition": 0, "offset": "earliest", "max": 1})
	input("unknown partition", "read", oldRecord, args{"topic": "NAME", "partition": 7, "offset": 0, "max": 1})
	input("unknown partition, earliest", "read", oldRecord, args{"topic": "NAME", "partition": 7, "offset": "earliest", "max": 1})
	input("at the end", "read", oldRecord, args{"topic": "NAME", "partition": 0, "offset": "latest", "max": 1})
	input("beyond the end", "read", oldRecord, args{"topic": "NAME", "partition": 0, "offset": 99, "max": 1})
	input("below the start", "read", trimmed, args{"topic": "NAME", "partition": 0, "offset": 1, "max": 9})
	input("from the start after a trim", "read", trimmed, args{"topic": "NAME", "partition": 0, "offset": "earliest", "max": 9})
	input("part of the records", "read", func(c *cell) error { return c.fill(1, 9) }, args{"topic": "NAME", "partition": 0, "offset": 3, "max": 4})
	input("large values", "read", large, args{"topic": "NAME", "partition": 0, "offset": 0, "max": 9})
	input("all forms", "read", allForms, args{"topic": "NAME", "partition": 0, "offset": 0, "max": 9})
	input("unknown topic", "consume", nil, args{"group": "g", "topic": "NAME", "max": 1})
	input("no group", "consume", oldRecord, args{"group": "", "topic": "NAME", "max": 1})
	input("nothing committed before a trim", "consume", trimmed, args{"group": "g-NAME", "topic": "NAME", "max": 9})
	input("part of the records", "consume", func(c *cell) error { return c.fill(1, 9) }, args{"group": "g-NAME", "topic": "NAME", "max": 4})
	input("unknown topic", "stream", nil, args{"topic": "NAME", "partition": 0, "offset": 0, "max": 1})
	input("unknown partition", "stream", oldRecord, args{"topic": "NAME", "partition": 7, "offset": 0, "max": 1})
	input("below the start", "stream", trimmed, args{"topic": "NAME", "partition": 0, "offset": 1, "max": 2})
	input("all forms", "stream", allForms, args{"topic": "NAME", "partition": 0, "offset": 0, "max": 5})
	input("exists", "topic_create", oldRecord, args{"topic": "NAME"})
	input("bad name", "topic_create", nil, args{"topic": "a b"})
	input("too many partitions", "topic_create", nil, args{"topic": "NAME", "partitions": 1 << 30})
	input("unknown topic", "topic_get", nil, args{"topic": "NAME"})
}

// trimmed makes a topic whose first five records were removed.
func trimmed(c *cell) error {
	if err := c.fill(1, 9); err != nil {
		return err
	}
	return c.site().do("POST", "/topic/trim?topic-name="+c.name+"&partition=0&offset=5", "", "", nil)
}

func large(c *cell) error {
	if err := c.topic(1); err != nil {
		return err
	}
	return c.site().do("POST", "/records?topic-name="+c.name+"&partition=0", "application/octet-stream", strings.Repeat("0123456789abcde\n", 300<<10/16), nil)
}

// allForms makes a topic with records of all forms.
func allForms(c *cell) error {
	if err := c.topic(1); err != nil {
		return err
	}
	lines := `{"key":"k","value":"v","headers":[{"key":"a","value":"1"},{"key":"a","value":null},{"key":"b","value_base64":"/w=="}]}
{"key_base64":"/w==","value":null}
{"value":""}
{"key":"","value":"data: x\nid: 7\n\nevent: end\n"}
{"value":"\ud83d\ude00\u0000\u2028<&>\"\\"}
`
	return c.site().do("POST", "/records?topic-name="+c.name+"&partition=0", "application/x-ndjson", lines, nil)
}

func eventsAndTriggers() {
	e := func(e args) args { return args{"topic": "NAME", "events": []args{e}} }
	input("no entity", "event", eventTopic, e(args{"event": "a", "entity_id": ""}))
	input("no name", "event", eventTopic, e(args{"event": "", "entity_id": "u"}))
	input("long name", "event", eventTopic, e(args{"event": strings.Repeat("n", 300), "entity_id": "u"}))
	input("data is a list", "event", eventTopic, e(args{"event": "a", "entity_id": "u", "data": []int{1}}))
	input("large number", "event", eventTopic, e(args{"event": "a", "entity_id": "u", "data": args{"n": 1 << 60, "x": 0.1}}))
	input("with a time", "event", eventTopic, e(args{"event": "a", "entity_id": "u", "occurred_at": "2026-01-02T03:04:05.678Z"}))
	input("topic of firings", "event", nil, args{"topic": "firings", "events": []args{{"event": "a", "entity_id": "u"}}})
	input("second is bad", "event", eventTopic, args{"topic": "NAME", "many": true, "events": []args{{"event": "a", "entity_id": "u"}, {"event": "a", "entity_id": ""}}})
	input("no event", "event", eventTopic, args{"topic": "NAME", "many": true, "events": []args{}})
	t := func(spec args) args { spec["topic"] = "NAME"; return args{"id": "NAME", "spec": spec} }
	input("error in the expression", "trigger_put", eventTopic, t(args{"expr": "a AND\n  OR b"}))
	input("expression in JSON", "trigger_put", eventTopic, t(args{"expr": args{"event": "a"}}))
	input("no expression", "trigger_put", eventTopic, t(args{}))
	input("unknown fire", "trigger_put", eventTopic, t(args{"expr": "a", "fire": "sometimes"}))
	input("unknown delivery", "trigger_put", eventTopic, t(args{"expr": "a", "deliver": args{"pigeon": "NAME"}}))
	input("bad ID", "trigger_put", eventTopic, args{"id": "a b", "spec": args{"expr": "a"}})
	for _, do := range []string{"trigger_get", "trigger_delete"} {
		input("unknown", do, nil, args{"id": "NAME"})
		input("slash", do, nil, args{"id": "a/b"})
		input("dots", do, nil, args{"id": ".."})
	}
	input("unknown trigger", "explain", nil, args{"id": "NAME", "entity": "u"})
	input("unknown entity", "explain", trigger, args{"id": "NAME", "entity": "nothing?x=1#"})
	input("unknown trigger", "firings", nil, args{"trigger": "NAME", "limit": 1})
	input("limit", "firings", nil, args{"trigger": "NAME", "limit": 100000})
}

func queues() {
	input("exists", "queue_create", emptyQueue, args{"queue": "NAME", "settings": args{}})
	input("bad name", "queue_create", nil, args{"queue": "a/b", "settings": args{}})
	input("unknown setting", "queue_create", nil, args{"queue": "NAME", "settings": args{"speed": "9"}})
	input("bad value", "queue_create", nil, args{"queue": "NAME", "settings": args{"visibility": "soon"}})
	input("unknown queue", "queue_get", nil, args{"queue": "NAME"})
	input("a topic", "queue_get", oldRecord, args{"queue": "NAME"})
	s := func(messages ...args) args { return args{"queue": "NAME", "messages": messages} }
	input("unknown queue", "send", nil, s(args{"value": "v"}))
	input("a topic", "send", oldRecord, s(args{"value": "v"}))
	input("no message", "send", emptyQueue, s())
	input("bad delay", "send", emptyQueue, s(args{"value": "v", "delay": "soon"}))
	input("second is bad", "send", emptyQueue, s(args{"value": "v"}, args{"value": "v", "priority": 7}))
	input("delay and at", "send", emptyQueue, s(args{"value": "v", "delay": "1s", "at": "2026-01-02T03:04:05Z"}))
	input("with all attributes", "send", emptyQueue, s(args{"value": "v", "key": "k", "headers": []args{{"key": "h", "value": "v"}}, "delay": "1h", "dedup": "d", "priority": 0, "expire": "2h"}))
	l := func(more args) args { more["queue"] = "NAME"; return more }
	input("unknown queue", "lease", nil, l(args{}))
	input("a topic", "lease", oldRecord, l(args{}))
	input("nothing there", "lease", emptyQueue, l(args{"max": 5, "wait": "100ms"}))
	input("too many", "lease", emptyQueue, l(args{"max": 2000}))
	input("long wait", "lease", emptyQueue, l(args{"wait": "2h"}))
	input("bad visibility", "lease", emptyQueue, l(args{"visibility": "1ms"}))
	input("unknown receipt", "settle", emptyQueue, s(args{"receipt": "abc", "do": "done"}))
	input("bad verb", "settle", emptyQueue, s(args{"receipt": "abc", "do": "maybe"}))
	input("nothing", "settle", emptyQueue, s())
	w := func(more args) args { more["queue"], more["until_empty"] = "NAME", true; return more }
	input("unknown queue", "work", nil, w(args{}))
	input("a topic", "work", oldRecord, w(args{}))
	input("concurrency", "work", emptyQueue, w(args{"concurrency": -1}))
	input("visibility", "work", emptyQueue, w(args{"visibility": 0.1}))
	input("grace", "work", emptyQueue, w(args{"grace": -1}))
	input("nothing there", "work", emptyQueue, w(args{}))
}

// verified adds messages of webhooks, as signed, and changed.
func verified() {
	const now = 1_796_000_000
	secret, other := webhook.NewSecret(), webhook.NewSecret()
	body := []byte("{\"a\": \"ü\"}\n\x00")
	add := func(name string, change func(in args, headers map[string]string)) {
		h := http.Header{}
		if err := webhook.Sign(h, "msg-1", time.Unix(now, 0), body, secret); err != nil {
			panic(err) // its arguments are constants
		}
		headers := map[string]string{}
		for k := range h {
			headers[k] = h.Get(k)
		}
		in := args{"secrets": []string{secret.Reveal()}, "headers": headers, "body_base64": base64.StdEncoding.EncodeToString(body), "now": now + 10}
		change(in, headers)
		input(name, "verify", nil, in)
	}
	add("right", func(args, map[string]string) {})
	add("second secret", func(in args, _ map[string]string) { in["secrets"] = []string{other.Reveal(), secret.Reveal()} })
	add("other secret", func(in args, _ map[string]string) { in["secrets"] = []string{other.Reveal()} })
	add("no secret", func(in args, _ map[string]string) { in["secrets"] = []string{} })
	add("nine secrets", func(in args, _ map[string]string) {
		in["secrets"] = strings.Fields(strings.Repeat(secret.Reveal()+" ", 9))
	})
	add("short secret", func(in args, _ map[string]string) { in["secrets"] = []string{"whsec_c2hvcnQ="} })
	add("secret without a prefix", func(in args, _ map[string]string) {
		in["secrets"] = []string{strings.TrimPrefix(secret.Reveal(), "whsec_")}
	})
	add("other body", func(in args, _ map[string]string) { in["body_base64"] = "e30=" })
	add("clock at the tolerance", func(in args, _ map[string]string) { in["now"] = now + 300 })
	add("clock ahead", func(in args, _ map[string]string) { in["now"] = now + 301 })
	add("clock behind", func(in args, _ map[string]string) { in["now"] = now - 301 })
	add("larger tolerance", func(in args, _ map[string]string) { in["now"], in["tolerance"] = now+3000, 3600 })
	add("small tolerance", func(in args, _ map[string]string) { in["tolerance"] = 5 })
	add("any time", func(in args, _ map[string]string) { in["now"], in["tolerance"] = now+90_000_000, -1 })
	for _, name := range []string{webhook.HeaderID, webhook.HeaderTimestamp, webhook.HeaderSignature} {
		add("without "+name, func(_ args, h map[string]string) { delete(h, name) })
		add("empty "+name, func(_ args, h map[string]string) { h[name] = "" })
		add("lower-case "+name, func(_ args, h map[string]string) { h[strings.ToLower(name)] = h[name]; delete(h, name) })
	}
	for _, at := range []string{"1796000000.0", "0x6b0d0c00", "+1796000000", " 1796000000", "-1", "01796000000", "1796000000000000000", "١٧٩٦٠٠٠٠٠٠"} {
		add("time "+at, func(_ args, h map[string]string) { h[webhook.HeaderTimestamp] = at })
	}
	for _, id := range []string{"a.b", "a b", "ü", strings.Repeat("x", 257)} {
		add("ID "+id[:min(9, len(id))], func(_ args, h map[string]string) { h[webhook.HeaderID] = id })
	}
	signature := func(name string, f func(s string) string) {
		add(name, func(_ args, h map[string]string) { h[webhook.HeaderSignature] = f(h[webhook.HeaderSignature]) })
	}
	signature("several signatures", func(s string) string { return "v1a,abc v1,AAAA " + s + " v2,x" })
	signature("signature of another version", func(s string) string { return "v1a" + strings.TrimPrefix(s, "v1") })
	signature("signature without padding", func(s string) string { return strings.TrimRight(s, "=") })
	signature("signature in base64url", func(s string) string { return strings.NewReplacer("+", "-", "/", "_").Replace(s) + "x" })
	signature("part of a signature", func(s string) string { return s[:20] })
	signature("long header", func(s string) string { return strings.Repeat("v2,x ", 1000) + s })
	signature("comma between signatures", func(s string) string { return "v1,AAAA," + s })
}
