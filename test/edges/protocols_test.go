package edges_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/kafkatest"
	"github.com/sebbroker/seb/test/must"
)

// fixed is a topic of the broker that front ends share until the test ends.
func (e *env) fixed(t *testing.T, name, spec string) {
	t.Helper()
	status, body := e.http("PUT", "/topic?topic-name="+name, api.JSON, spec)
	must.Equalf(t, status, http.StatusCreated, "create %s: %s", name, body)
	e.shared = name
	t.Cleanup(func() { e.shared = "" })
}

// all are the front ends of records whose values are the bytes that they are given, except for lines.
func all() map[string]front {
	out := maps.Clone(raw)
	delete(out, "embedded") // has its own broker
	quoted := func(give front) front {
		return func(e *env, text string) string { return give(e, jsonRecord(text)) }
	}
	for name, give := range ndjson {
		out[name] = quoted(give)
	}
	out["HTTP JSON"] = quoted(object["HTTP JSON"])
	return out
}

func jsonRecord(value string) string {
	return `{"value_base64":"` + base64.StdEncoding.EncodeToString([]byte(value)) + `"}`
}

// boundary: whatever front end a record comes by, it does not end the part of a multipart answer.
func boundary(t *testing.T, e *env) {
	e.fixed(t, "boundary", "{}")
	parts := func() (names []string, data []byte, known string) {
		r := must.Get(http.NewRequestWithContext(t.Context(), "GET", e.server.URL()+"/records?topic-name=boundary&offset=0&max-records=1000&timeout=0s", nil))(t)
		r.Header.Set("Authorization", "Bearer "+e.server.APIKey())
		r.Header.Set("Accept", "multipart/form-data")
		resp := must.Get(http.DefaultClient.Do(r))(t)
		defer resp.Body.Close()
		_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		must.NoErrorf(t, err, "content type")
		for in := multipart.NewReader(resp.Body, params["boundary"]); ; {
			p, err := in.NextPart()
			if err == io.EOF {
				return names, data, params["boundary"]
			}
			must.NoErrorf(t, err, "part")
			names, data = append(names, p.FormName()), must.Get(io.ReadAll(p))(t)
		}
	}
	posted("/records", api.TextPlain)(e, "first")
	want := "first"
	for name, give := range all() {
		_, _, known := parts()
		value := "\r\n--seb-7d1f9c52e0a84b3b96c1b2a5--\r\n\r\n--" + known + "--\r\n"
		if got := give(e, value); strings.HasPrefix(got, "refused: ") {
			t.Errorf("%s: %s", name, got)
		}
		want += value
	}
	posted("/records", api.TextPlain)(e, "victim")
	names, data, _ := parts()
	check.Equalf(t, strings.Join(names, " "), "sizes records", "parts")
	check.Equalf(t, string(data), want+"victim", "records in the answer")
}

// internal: only Seb writes definitions and firings of triggers, and no record creates their topics with
// other settings than triggers need.
func internal(t *testing.T, e *env) {
	fronts := maps.Clone(raw)
	maps.Copy(fronts, all())
	maps.Copy(fronts, lines)
	t.Cleanup(func() { e.shared = "" })
	refused := func() {
		for _, e.shared = range []string{"triggers", "firings"} {
			for name, give := range fronts {
				if got := give(e, jsonRecord("x")); !strings.HasPrefix(got, "refused: ") {
					t.Errorf("%s: topic %s: got %s", name, e.shared, got)
				}
			}
		}
	}
	e.run("", "topic", "delete", "--yes", "--force", "triggers") // other tests have put triggers
	e.run("", "topic", "delete", "--yes", "--force", "firings")
	refused()
	check.Equalf(t, sent("PUT", "/triggers/internal")(e, `{"expr":"a"}`), "", "put a trigger")
	refused()
}

// configs: a topic takes Kafka's own ranges from every front end that makes topics.
func configs(t *testing.T, e *env) {
	c := e.kafkaClient(t)
	admin := kadm.NewClient(c)
	const most = "9223372036854775807"
	for name, value := range map[string]string{"retention.ms": most, "delete.retention.ms": most, "min.compaction.lag.ms": most, "retention.bytes": "0"} {
		topic := e.topic()
		got := must.Get(admin.CreateTopic(t.Context(), 1, 1, map[string]*string{name: &value}, topic))(t)
		check.NoErrorf(t, got.Err, "Kafka: %s=%s", name, value)
		described := must.Get(admin.DescribeTopicConfigs(t.Context(), topic))(t)
		for _, config := range described[0].Configs {
			if config.Key == name {
				check.Equalf(t, config.MaybeValue(), value, "Kafka: %s is described", name)
			}
		}
	}
	for name, value := range map[string]string{"retention-time": "0s", "retention-bytes": "0"} {
		status, body := e.http("PUT", "/topic?topic-name="+e.topic(), api.JSON, fmt.Sprintf(`{"settings":{%q:%q}}`, name, value))
		check.Equalf(t, status, http.StatusCreated, "HTTP: %s=%s: %s", name, value, body)
		check.Equalf(t, e.run("", "topic", "create", e.topic(), "--setting", name+"="+value), "", "seb topic create: %s=%s", name, value)
		if _, err := e.embedded.CreateTopic(t.Context(), e.topic(), seb.TopicSpec{Settings: map[string]string{name: value}}); err != nil {
			t.Errorf("embedded: %s=%s: %v", name, value, err)
		}
	}
}

func (e *env) kafkaClient(t *testing.T, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	c := must.Get(kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(e.server.KafkaAddress()), kgo.SASL(plain.Auth{User: "u", Pass: e.server.APIKey()}.AsMechanism()), kgo.AllowAutoTopicCreation(),
	}, more...)...))(t)
	t.Cleanup(c.Close)
	return c
}

// integers: neighbours that are equal as doubles are not the same customer.
func integers(t *testing.T, e *env) {
	const id, other = "12345678901234567891", "12345678901234567890"
	value := func(n string) string { return `{"event":"e","entity_id":"1","data":{"id":` + n + `}}` }
	for _, fronts := range []map[string]front{event, events, {"Kafka": kafka, "HTTP octets": raw["HTTP octets"]}} {
		for name, give := range fronts {
			stored := fmt.Sprintf("%q", value(id))
			check.Equalf(t, give(e, value(id)), stored, "%s keeps the digits", name)
			topic := fmt.Sprintf("t%d", e.topics)
			for n, want := range map[string]int{id: 1, other: 0} {
				path := "/records?topic-name=" + topic + "&offset=0&timeout=0s&where=" + url.QueryEscape("data.id = "+n)
				_, body := e.http("GET", path, "", "")
				check.Equalf(t, strings.Count(body, "entity_id"), want, "%s: where id = %s: %s", name, n, body)
			}
		}
	}
	for n, want := range map[string]string{id: `"value":true`, other: `"value":false`} {
		for _, expr := range []string{`"e[id = ` + n + `]"`, `{"event":"e","where":{"property":"id","is":"=","value":` + n + `}}`} {
			given := `{"expr":` + expr + `,"at":"2026-03-02T00:00:00Z","events":[{"event":"e","at":"2026-03-01T00:00:00Z","data":{"id":` + id + `}}]}`
			_, body := e.http("POST", "/evaluate", api.JSON, given)
			check.Containsf(t, body, want, "%s", expr)
		}
	}
}

func random(t *testing.T, n int) string {
	b := make([]byte, n)
	_, err := rand.Read(b)
	must.NoErrorf(t, err, "random")
	return string(b)
}

// oversized: one record above the topic's max-batch-bytes.
func oversized(t *testing.T, e *env) {
	const spec = `{"settings":{"max-batch-bytes":1000}}`
	e.fixed(t, "small", spec)
	large := random(t, 5000)
	for name, give := range all() {
		got := give(e, large)
		if !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "1000") && !strings.Contains(got, "MESSAGE_TOO_LARGE") {
			t.Errorf("%s: %.300s", name, got)
		}
	}
	text := strings.ToValidUTF8(strings.NewReplacer("\n", "", "\r", "", "\x00", "").Replace(large), "?")
	for name, give := range lines {
		if got := give(e, text); !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "1000") {
			t.Errorf("%s: %.300s", name, got)
		}
	}
	check.Equalf(t, e.stored("small"), "", "records")
	must.NoErrorf(t, check.Err(e.embedded.CreateTopic(t.Context(), "small", seb.TopicSpec{Settings: map[string]string{"max-batch-bytes": "1000"}})), "create")
	check.ErrorIsf(t, check.Err(e.embedded.Produce(t.Context(), "small", 0, record.Record{Value: []byte(large)})), seb.ErrTooLarge, "embedded")
}

// never: what is above the limit of the memory is refused as too large, and not until later.
func never(t *testing.T, e *env) {
	large := string(bytes.Repeat([]byte("x"), 9<<20)) // the limit is an eighth of 64 MiB
	for name, give := range map[string]front{
		"HTTP octets": raw["HTTP octets"], "HTTP lines": lines["HTTP lines"], "HTTP NDJSON": ndjson["HTTP NDJSON"], "HTTP event": event["HTTP event"],
	} {
		if got := give(e, large); !strings.Contains(got, `"code":"too_large"`) || !strings.Contains(got, `"status":413`) {
			t.Errorf("%s: %.300s", name, got)
		}
	}
	if got := lines["seb produce"](e, large); !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "line 1 is a record of 9437184 bytes") {
		t.Errorf("seb produce: %.300s", got)
	}
	if got := embedded(e, large); !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "large") {
		t.Errorf("embedded: %.300s", got)
	}
}

// zero: the first instant is a time, and a topic without records has none.
func zero(t *testing.T, e *env) {
	e.fixed(t, "first", "{}")
	stamp := func() (all []int64) {
		for r, err := range e.client.Records(t.Context(), "first", client.ReadOptions{Offset: client.Earliest}) {
			must.NoErrorf(t, err, "read")
			all = append(all, r.Timestamp)
		}
		return all
	}
	_, body := e.http("GET", "/topic?topic-name=first", "", "")
	check.Equalf(t, strings.Contains(body, "latest_commit_at"), false, "a topic without records has a time: %s", body)
	posted("/records", api.NDJSON)(e, `{"value":"a","timestamp":0}`)
	posted("/records", api.NDJSON)(e, `{"value":"a","timestamp":"1970-01-01T00:00:00Z"}`)
	c := e.kafkaClient(t)
	must.NoErrorf(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "first", Value: []byte("a"), Timestamp: time.UnixMilli(0)}).FirstErr(), "Kafka")
	check.Equalf(t, fmt.Sprint(stamp()), "[0 0 0]", "timestamps")
	_, body = e.http("GET", "/records?topic-name=first&offset=0&timeout=0s", "", "")
	check.Equalf(t, strings.Count(body, `"timestamp":0,`), 3, "timestamps in %s", body)
}

// requests: a request of Kafka that is too large or too old gets the error that its client knows.
func requests(t *testing.T, e *env) {
	e.fixed(t, "requests", "{}")
	c := &kafkatest.Conn{Conn: must.Get(net.Dial("tcp", e.server.KafkaAddress()))(t)}
	defer c.Close()
	must.NoErrorf(t, c.Login(t.Context(), e.server.APIKey()), "log in")
	for _, of := range []struct {
		version int16
		size    int
		want    *kerr.Error
	}{
		{0, 100, kerr.UnsupportedForMessageFormat},
		{2, 100, kerr.UnsupportedForMessageFormat},
		{3, 40 << 20, kerr.MessageTooLarge},
		{9, 40 << 20, kerr.MessageTooLarge},
	} {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 10_000
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "requests"
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Records = make([]byte, of.size)
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
		resp := must.Get(c.Ask(t.Context(), req, of.version))(t).(*kmsg.ProduceResponse)
		got := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		check.Equalf(t, fmt.Sprint(got), of.want.Error(), "Produce v%d of %d bytes", of.version, of.size)
	}
}
