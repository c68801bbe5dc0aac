// Package edges_test gives the inputs at the edges of protocols and formats to every front end that
// takes such an input: HTTP, NDJSON, events, Kafka, seb with standard input and files, and the embedded
// broker. One kind of input must be accepted, refused and stored the same by all of them. The web
// console has no row, because its pages send what HTTP takes.
package edges_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// env is a broker with all front ends, and an embedded one.
type env struct {
	t        *testing.T
	server   *server.Server
	client   *client.Client
	embedded *seb.Broker
	program  string
	topics   int
	shared   string // "": each input has its own topic
}

func open(t *testing.T) *env {
	t.Helper()
	c := config.Default()
	c.Bucket, c.DataDir, c.HTTP.Port, c.Batch.WaitTime = "mem:", t.TempDir(), 0, 0
	c.Kafka.Listen, c.MemoryLimit = "127.0.0.1:0", 64<<20
	quiet := slog.New(slog.DiscardHandler)
	e := &env{t: t, program: testenv.Program(t)}
	e.server = must.Get(server.Start(t.Context(), c, quiet))(t)
	t.Cleanup(func() { _ = e.server.Close(context.Background()) })
	e.client = must.Get(client.New(e.server.URL(), client.Options{APIKey: e.server.APIKey(), RetryTime: -1}))(t)
	t.Cleanup(e.client.Close)
	e.embedded = must.Get(seb.Open(t.Context(), seb.Options{Bucket: "mem:", MemoryLimit: 64 << 20, Logger: quiet}))(t)
	t.Cleanup(func() { _ = e.embedded.Close(context.Background()) })
	return e
}

// topic returns the name of a new topic, or of the one that the front ends share.
func (e *env) topic() string {
	if e.shared != "" {
		return e.shared
	}
	e.topics++
	return fmt.Sprintf("t%d", e.topics)
}

// http sends a request, and returns the status and the body.
func (e *env) http(method, path, kind, body string) (int, string) {
	e.t.Helper()
	r := must.Get(http.NewRequestWithContext(e.t.Context(), method, e.server.URL()+path, strings.NewReader(body)))(e.t)
	r.Header.Set("Authorization", "Bearer "+e.server.APIKey())
	r.Header.Set("Accept", "application/json, "+api.ProblemJSON)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	resp := must.Get(http.DefaultClient.Do(r))(e.t)
	defer resp.Body.Close()
	return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body))(e.t))
}

// run runs seb, and returns why it failed, or "".
func (e *env) run(stdin string, args ...string) (failure string) {
	e.t.Helper()
	cmd := exec.CommandContext(e.t.Context(), e.program, args...)
	cmd.Env = append(os.Environ(), "SEB_ADDRESS="+e.server.URL(), "SEB_API_KEY="+e.server.APIKey())
	var out bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &out
	if err := cmd.Run(); err != nil {
		return "refused: " + out.String()
	}
	return ""
}

// stored returns the values in a topic of the broker.
func (e *env) stored(topic string) string {
	e.t.Helper()
	var values []string
	for r, err := range e.client.Records(e.t.Context(), topic, client.ReadOptions{Offset: client.Earliest}) {
		must.NoErrorf(e.t, err, "read %s", topic)
		values = append(values, fmt.Sprintf("%q", r.Value))
	}
	return strings.Join(values, "|")
}

// front gives a text to a front end, and returns the values that are stored, or "refused: why".
type front func(e *env, text string) string

func posted(path, kind string) front {
	return func(e *env, text string) string {
		topic := e.topic()
		status, body := e.http("POST", path+"?topic-name="+topic, kind, text)
		if status != http.StatusCreated {
			return "refused: " + body
		}
		return e.stored(topic)
	}
}

func piped(args ...string) front {
	return func(e *env, text string) string {
		topic := e.topic()
		all := append(append([]string{}, args...), topic)
		if failure := e.run(text, all...); failure != "" {
			return failure
		}
		return e.stored(topic)
	}
}

func kafka(e *env, text string) string {
	topic := e.topic()
	c := must.Get(kgo.NewClient(kgo.SeedBrokers(e.server.KafkaAddress()), kgo.SASL(plain.Auth{User: "u", Pass: e.server.APIKey()}.AsMechanism()), kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(30<<20), kgo.ProducerBatchCompression(kgo.NoCompression())))(e.t)
	defer c.Close()
	if err := c.ProduceSync(e.t.Context(), &kgo.Record{Topic: topic, Value: []byte(text)}).FirstErr(); err != nil {
		return "refused: " + err.Error()
	}
	return e.stored(topic)
}

func embedded(e *env, text string) string {
	topic := e.topic()
	if _, err := e.embedded.Produce(e.t.Context(), topic, 0, record.Record{Value: []byte(text)}); err != nil {
		return "refused: " + err.Error()
	}
	var values []string
	for r, err := range e.embedded.Records(e.t.Context(), topic, seb.ReadOptions{}) {
		must.NoErrorf(e.t, err, "read %s", topic)
		values = append(values, fmt.Sprintf("%q", r.Value))
	}
	return strings.Join(values, "|")
}

// The front ends of records, by the kind of their input.
var (
	raw       = map[string]front{"HTTP octets": posted("/records", api.OctetStream), "Kafka": kafka, "embedded": embedded}
	lines     = map[string]front{"HTTP lines": posted("/records", api.TextPlain), "seb produce": piped("produce")}
	ndjson    = map[string]front{"HTTP NDJSON": posted("/records", api.NDJSON), "seb produce --format json": piped("produce", "--format", "json")}
	object    = map[string]front{"HTTP JSON": posted("/records", api.JSON)}
	events    = map[string]front{"HTTP events": posted("/event", api.NDJSON), "seb event -f": piped("event", "-f", "-", "--topic-name")}
	eventFile = map[string]front{"seb event -f": events["seb event -f"]}
	event     = map[string]front{"HTTP event": posted("/event", api.JSON)}
)

// eventFlag gives the time of an event.
var eventFlag = map[string]front{"seb event --occurred-at": func(e *env, text string) string {
	topic := e.topic()
	if failure := e.run("", "event", "e", "1", "--topic-name", topic, "--occurred-at", text); failure != "" {
		return failure
	}
	return e.stored(topic)
}}

// instants are times that Seb compares with others.
var instants = map[string]front{
	"POST /evaluate": func(e *env, text string) string { return sent("POST", "/evaluate")(e, `{"expr":"a","at":"`+text+`"}`) },
	"seb drip eval":  func(e *env, text string) string { return e.run("", "drip", "eval", "a", "--at", text) },
	"GET /topic/offsets": func(e *env, text string) string {
		return sent("GET", "/topic/offsets?topic-name=fixed&time="+url.QueryEscape(text))(e, "")
	},
	"dry run": func(e *env, text string) string {
		return sent("POST", "/triggers/dry-run?since="+url.QueryEscape(text))(e, `{"expr":"a"}`)
	},
	"seb consume --since": func(e *env, text string) string { return e.run("", "consume", "fixed", "--since", text) },
}

// file gives a text as a file to seb trigger apply.
func file(name string) front {
	return func(e *env, text string) string {
		path := filepath.Join(e.t.TempDir(), name)
		must.NoError(e.t, os.WriteFile(path, []byte(text), 0o600))
		return e.run("", "trigger", "apply", "--yes", "-f", path)
	}
}

func sent(method, path string) front {
	return func(e *env, text string) string {
		if status, body := e.http(method, path, api.JSON, text); status >= 300 {
			return "refused: " + body
		}
		return ""
	}
}

// The front ends that manage the broker, by the kind of their input.
var (
	triggerJSON = map[string]front{
		"PUT /triggers": sent("PUT", "/triggers/x"), "dry run": sent("POST", "/triggers/dry-run"), "seb trigger apply JSON": file("x.json"),
	}
	triggerYAML = map[string]front{"seb trigger apply YAML": file("y.yaml")}
	tokenJSON   = map[string]front{"POST /tokens": sent("POST", "/tokens")}
	offsetJSON  = map[string]front{"PUT /offsets": sent("PUT", "/offsets?group=g&topic-name=fixed&partition=0")}
	exprJSON    = map[string]front{
		"POST /drip/parse": func(e *env, text string) string { return sent("POST", "/drip/parse")(e, `{"expr":`+text+`}`) },
		"POST /evaluate": func(e *env, text string) string {
			return sent("POST", "/evaluate")(e, `{"at":"2026-03-01T12:00:00Z","expr":`+text+`}`)
		},
		"seb drip fmt": func(e *env, text string) string { return e.run("", "drip", "fmt", text) },
	}
	expressions = map[string]front{"seb drip fmt -f": func(e *env, text string) string { return e.run(text, "drip", "fmt", "-f", "-") }}
)

// row is one input at an edge.
type row struct {
	name, text string
	fronts     map[string]front
	want       string // what is stored, or "refused: " and a part of the reason
}

func (r *row) check(t *testing.T, e *env) {
	for name, give := range r.fronts {
		got := give(e, r.text)
		if reason, refused := strings.CutPrefix(r.want, "refused: "); refused && strings.HasPrefix(got, "refused: ") && strings.Contains(got, reason) {
			continue
		}
		if got != r.want {
			t.Errorf("%s: %s: %.60q: got %s, want %s", r.name, name, r.text, got, r.want)
		}
	}
}

func TestEdges(t *testing.T) {
	e := open(t)
	e.http("PUT", "/topic?topic-name=fixed", api.JSON, "{}")
	e.http("POST", "/event", api.JSON, `{"event":"e","entity_id":"1"}`) // creates the topic of events
	for _, rows := range [][]row{repeatedMembers, encodings, times} {
		for i := range rows {
			rows[i].check(t, e)
		}
	}
	for name, check := range map[string]func(t *testing.T, e *env){
		"boundary": boundary, "configs": configs, "integers": integers, "record above max-batch-bytes": oversized,
		"request that never fits": never, "first instant": zero, "request of Kafka": requests, "internal topic": internal,
	} {
		t.Run(name, func(t *testing.T) { check(t, e) })
	}
}
