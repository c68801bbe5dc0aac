package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// riemannEvent is an event with every field that a Riemann client can send. It is a line of the file
// that the programs in testdata/riemann send, and of their answers to a query.
type riemannEvent struct {
	Host        string            `json:"host"`
	Service     string            `json:"service"`
	State       string            `json:"state"`
	Description string            `json:"description"`
	Time        int64             `json:"time"` // in seconds; 0 in an expected event: that of the test
	TTL         float64           `json:"ttl"`
	Tags        []string          `json:"tags"`
	Attributes  map[string]string `json:"attributes"`
	Kind        string            `json:"kind"` // sint64, d or f: the field of the metric
	Metric      string            `json:"metric"`
}

const riemannCount = 1000

// riemannQuery matches a tenth of the events.
const riemannQuery = `host = "host-3" and not state = "expired"`

// riemannEvents returns the events of a test.
func riemannEvents() []riemannEvent {
	var list []riemannEvent
	for n := range riemannCount {
		e := riemannEvent{
			Host: fmt.Sprintf("host-%d", n%10), Service: fmt.Sprintf("service %d", n), State: []string{"ok", "warning", "critical"}[n%3],
			Description: fmt.Sprintf("The value of \"%d\" is %d%% übermäßig", n, n%100), Time: 1_700_000_000 + int64(n), TTL: 3600.5 + float64(n%4),
			Tags: []string{"interop", "größe"}, Attributes: map[string]string{"rack": fmt.Sprintf("r%d", n%7), "note": "a b, c"},
		}
		switch n % 3 {
		case 0:
			e.Kind, e.Metric = "sint64", strconv.FormatInt((int64(n)-500)*9_007_199_254_740_993, 10) // not exact as a double
		case 1:
			e.Kind, e.Metric = "d", strconv.FormatFloat((float64(n)-500)/7, 'g', -1, 64)
		default:
			e.Kind, e.Metric = "f", strconv.FormatFloat((float64(n)-500)/7, 'g', -1, 32)
		}
		list = append(list, e)
	}
	return list
}

// difference describes how an event differs from the wanted one, "" if it does not.
func (e *riemannEvent) difference(got *riemannEvent, began time.Time) string {
	same := *got
	same.Kind = e.Kind
	if e.sameMetric(got.Metric) {
		same.Metric = e.Metric
	}
	if e.Time == 0 && got.Time >= began.Unix() && got.Time <= time.Now().Unix() {
		same.Time = 0
	}
	if reflect.DeepEqual(*e, same) {
		return ""
	}
	return fmt.Sprintf("got %+v\nwant %+v", *got, *e)
}

func (e *riemannEvent) sameMetric(text string) bool {
	size := 64
	switch e.Kind {
	case "sint64":
		return text == e.Metric
	case "f":
		size = 32
	}
	want, err1 := strconv.ParseFloat(e.Metric, size)
	got, err2 := strconv.ParseFloat(text, size)
	return err1 == nil && err2 == nil && want == got
}

// riemannRecord returns the event in a record.
func riemannRecord(r *kgo.Record) (*riemannEvent, error) {
	var record struct {
		Event      string                     `json:"event"`
		Entity     string                     `json:"entity_id"`
		OccurredAt time.Time                  `json:"occurred_at"`
		Data       map[string]json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(r.Value, &record); err != nil {
		return nil, err
	}
	if string(r.Key) != record.Entity {
		return nil, fmt.Errorf("the key is %q, the entity %q", r.Key, record.Entity)
	}
	e := &riemannEvent{Host: record.Entity, Service: record.Event, Attributes: map[string]string{}}
	if !record.OccurredAt.IsZero() {
		e.Time = record.OccurredAt.Unix()
	}
	for name, raw := range record.Data {
		var err error
		switch name {
		case "state":
			err = json.Unmarshal(raw, &e.State)
		case "description":
			err = json.Unmarshal(raw, &e.Description)
		case "tags":
			err = json.Unmarshal(raw, &e.Tags)
		case "ttl":
			err = json.Unmarshal(raw, &e.TTL)
		case "metric":
			e.Metric = string(raw)
		default:
			var value string
			err = json.Unmarshal(raw, &value)
			e.Attributes[name] = value
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return e, nil
}

// riemannBroker is a broker with a listener for Riemann clients.
type riemannBroker struct {
	*testenv.InteropBroker
	port    string
	options []string // of riemann-c-client
}

func serveRiemann(t *testing.T, args ...string) *riemannBroker {
	t.Helper()
	address := must.Get(testenv.FreeAddress())(t)
	_, port, _ := net.SplitHostPort(address)
	args = append([]string{"--riemann-listen", address, "--riemann-udp", address}, args...)
	return &riemannBroker{InteropBroker: testenv.ServeInterop(t, args...), port: port, options: []string{"--tcp"}}
}

// riemannClient is a client that sends the events of a test.
type riemannClient struct {
	name  string
	serve func(t *testing.T) *riemannBroker // nil: serveRiemann
	// adapt changes an event to what the client can express.
	adapt func(n int, e *riemannEvent)
	// answer changes an event to what the client shows of an answer.
	answer func(e *riemannEvent)
	start  func(t *testing.T, b *riemannBroker) riemannCalls
}

// riemannCalls are the calls of an installed client.
type riemannCalls struct {
	send  func(events []riemannEvent)
	query func(text string) []byte // nil: the client only writes
}

// riemannProgram returns the calls of a program in testdata/riemann: send FILE and query TEXT.
func riemannProgram(t *testing.T, b *riemannBroker, env []string, command ...string) riemannCalls {
	t.Helper()
	run := func(args ...string) []byte {
		all := append(slices.Clone(command), args...)
		c := exec.CommandContext(t.Context(), all[0], all[1:]...)
		c.Env = append(append(os.Environ(), "PORT="+b.port), env...)
		var out, said bytes.Buffer
		c.Stdout, c.Stderr = &out, &said
		if err := c.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", strings.Join(all, " "), err, out.String(), said.String())
		}
		return out.Bytes()
	}
	return riemannCalls{
		send: func(events []riemannEvent) {
			file := filepath.Join(t.TempDir(), "events")
			writeRiemannEvents(t, file, events)
			run("send", file)
		},
		query: func(text string) []byte { return run("query", text) },
	}
}

func writeRiemannEvents(t *testing.T, file string, events []riemannEvent) {
	t.Helper()
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	for _, e := range events {
		must.NoError(t, to.Encode(e))
	}
	must.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
}

// TestRiemannClients: each client sends 1,000 events with every field, which the topic has, and the
// answer to its query has a tenth of them.
func TestRiemannClients(t *testing.T) {
	testenv.InteropWanted(t)
	for _, c := range riemannClients {
		t.Run(c.name, func(t *testing.T) {
			serve := c.serve
			if serve == nil {
				serve = func(t *testing.T) *riemannBroker { return serveRiemann(t) }
			}
			b := serve(t)
			calls := c.start(t, b)
			began := time.Now().Truncate(time.Second)
			sent := riemannEvents()
			calls.send(sent)
			want := make(map[string]*riemannEvent)
			for n, e := range sent {
				e.Attributes = maps.Clone(e.Attributes)
				if c.adapt != nil {
					c.adapt(n, &e)
				}
				want[e.Host+"\x00"+e.Service] = &e
			}
			must.Equalf(t, len(want), riemannCount, "different events")
			missing := maps.Clone(want)
			stored(t, b.InteropBroker, "riemann", riemannCount, func(r *kgo.Record) {
				got, err := riemannRecord(r)
				if err != nil {
					t.Fatalf("%v: %s", err, r.Value)
				}
				id := got.Host + "\x00" + got.Service
				e := missing[id]
				if e == nil {
					t.Fatalf("read twice, or not sent: %s", r.Value)
				}
				delete(missing, id)
				must.Equalf(t, e.difference(got, began), "", "record %s", r.Value)
			})
			query := calls.query
			if query == nil {
				query = cRiemann(t, b).query
			}
			for _, e := range want {
				if c.answer != nil {
					c.answer(e)
				}
			}
			checkRiemannAnswer(t, query(riemannQuery), want, began)
			report(t, c.name, "1,000 Riemann events with every field, and a query", time.Since(began))
		})
	}
}

// checkRiemannAnswer compares the answer to riemannQuery, a JSON text for each event.
func checkRiemannAnswer(t *testing.T, answer []byte, want map[string]*riemannEvent, began time.Time) {
	t.Helper()
	count := 0
	for from := json.NewDecoder(bytes.NewReader(answer)); from.More(); count++ {
		got := riemannEvent{}
		if err := from.Decode(&got); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		e := want[got.Host+"\x00"+got.Service]
		if e == nil || got.Host != "host-3" {
			t.Fatalf("the answer has %+v", got)
		}
		must.Equalf(t, e.difference(&got, began), "", "an event of the answer")
	}
	if count != riemannCount/10 {
		t.Fatalf("the answer has %d events, want %d: %s", count, riemannCount/10, answer)
	}
}
