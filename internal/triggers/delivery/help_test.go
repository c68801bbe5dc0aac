package delivery_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/triggers/delivery"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"

	inner "github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secretText = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

// fixture is a broker on a disk with a dispatcher.
type fixture struct {
	t    *testing.T
	dir  string
	node *node.Node
	disp *delivery.Dispatcher
	set  *metrics.Set // of the dispatcher

	hooks inner.Options // further options
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t, dir: t.TempDir()}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *fixture) options() node.Options {
	return node.Options{Bucket: filepath.Join(w.dir, "bucket"), DataDir: filepath.Join(w.dir, "data"), BatchWait: node.BatchNone}
}

func (w *fixture) open() {
	w.t.Helper()
	w.openWith(w.options())
}

// deliver opens a dispatcher.
func (w *fixture) deliver() {
	w.t.Helper()
	policy := must.Get(inner.ParsePolicy([]string{"127.0.0.0/8"}))(w.t)
	w.set = metrics.NewSet()
	hooks := w.hooks
	hooks.Policy, hooks.Timeout, hooks.HeaderTimeout = policy, 5*time.Minute, 5*time.Minute
	w.disp = must.Get(delivery.Open(w.t.Context(), delivery.Options{
		Engine: w.node.Triggers(), Log: w.node.EventLog(), Queues: w.node.Queues(), Lost: w.node.Done(), Metrics: w.set, Webhooks: hooks,
	}))(w.t)
}

func (w *fixture) close() {
	if w.node == nil {
		return
	}
	w.disp.Close()
	check.NoError(w.t, w.node.Close(context.Background()))
	w.node = nil
}

// forget deletes the engine's file.
func (w *fixture) forget() {
	w.t.Helper()
	files, _ := filepath.Glob(filepath.Join(w.dir, "data", "view", "triggers.db*"))
	if len(files) == 0 {
		w.t.Error("the engine has no file")
	}
	for _, f := range files {
		must.NoError(w.t, os.Remove(f))
	}
}

// put creates a trigger; deliver is the JSON of its deliver section.
func (w *fixture) put(id, expr, deliver string, change func(d *rule.Definition)) {
	w.t.Helper()
	e := must.Get(driplang.Parse(expr))(w.t)
	d := rule.Definition{ID: id, Expr: e, Deliver: json.RawMessage(deliver)}
	if change != nil {
		change(&d)
	}
	must.Get(w.node.Triggers().Put(w.t.Context(), d, nil))(w.t)
}

func to(url, more string) string {
	return `{"url": "` + url + `", "secrets": ["` + secretText + `"]` + more + `}`
}

// event appends an event of an entity, and returns its offset.
func (w *fixture) event(entity, name string) int64 {
	w.t.Helper()
	return appendEvent(w.t, w.node.EventLog(), entity, name)
}

func appendEvent(t *testing.T, l rules.Log, entity, name string) int64 {
	t.Helper()
	topic, ok := l.Topic("events")
	if !ok {
		t.Fatal("the topic events does not exist")
	}
	value := must.Get(json.Marshal(rule.Event{Name: name, EntityID: entity, Data: json.RawMessage(`{"for":"` + entity + `"}`)}))(t)
	base := must.Get(l.Append(t.Context(), topic.ID, 0, []record.Record{{Key: []byte(entity), Value: value}}))(t)
	return base
}

// firings waits for a condition of the engine's firings.
func (w *fixture) firings(ok func(list []rules.Firing) bool) []rules.Firing {
	w.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		changed := w.node.Triggers().Changed()
		list, err := w.node.Triggers().Firings(w.t.Context(), rules.FiringQuery{Limit: rules.LimitMax})
		if err == nil && ok(list) {
			return list
		}
		select {
		case <-changed:
		case <-deadline.C:
			w.t.Fatalf("%d firings, %v; the first are %+v", len(list), err, list[:min(len(list), 4)])
		}
	}
}

// all is the condition of n firings, all in a state.
func all(n int, state rule.State) func([]rules.Firing) bool {
	return func(list []rules.Firing) bool {
		for i := range list {
			if list[i].State != state {
				return false
			}
		}
		return len(list) == n
	}
}

// receiver is an HTTP receiver that keeps verified messages.
type receiver struct {
	*httptest.Server
	t    *testing.T
	came chan struct{} // capacity 1: a message has arrived
	mu   sync.Mutex    // guards the fields below
	got  []received
}

type received struct {
	id string
	at time.Time
	webhook.Firing
}

// receive starts a receiver. answer, if not nil, answers the nth message, from 0.
func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	secret := must.Get(webhook.ParseSecret(secretText))(t)
	verifier := webhook.Verifier{Secrets: []webhook.Secret{secret}}
	x := &receiver{t: t, came: make(chan struct{}, 1)}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, err := verifier.Receive(r)
		if err != nil {
			t.Errorf("not verified: %v", err)
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		d := received{id: m.ID, at: time.Now()}
		check.NoError(t, json.Unmarshal(m.Body, &d.Firing))
		x.mu.Lock()
		n := len(x.got)
		x.got = append(x.got, d)
		x.mu.Unlock()
		select {
		case x.came <- struct{}{}:
		default:
		}
		if answer != nil {
			answer(n, w, r)
		}
	}))
	t.Cleanup(x.Close)
	return x
}

// wait waits for n messages, and returns all that have arrived.
func (x *receiver) wait(n int) []received {
	x.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		if list := x.list(); len(list) >= n {
			return list
		}
		select {
		case <-x.came:
		case <-deadline.C:
			x.t.Fatalf("%d messages have arrived, want %d", len(x.list()), n)
		}
	}
}

func (x *receiver) list() []received {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]received(nil), x.got...)
}

// openWith is open with other options.
func (w *fixture) openWith(o node.Options) {
	w.t.Helper()
	var err error
	if w.node, err = node.Open(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.deliver()
}

// bare passes the log of a broker without an engine to use.
func (w *fixture) bare(use func(l rules.Log)) {
	w.t.Helper()
	n := must.Get(node.Open(w.t.Context(), w.options()))(w.t)
	check.NoError(w.t, n.Triggers().Close())
	use(n.EventLog())
	check.NoError(w.t, n.Close(context.Background()))
}
