package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a broker with its queues.
type fixture struct {
	t   testing.TB
	b   *broker.Broker
	q   *queue.Queues
	log *sebtest.Log // of the queues
	met *metrics.Set // of the queues
}

func open(t *testing.T, s objstore.Store) *fixture { return openFor(t, s) }

func openFor(t testing.TB, s objstore.Store) *fixture {
	return openWith(t, s, func(*broker.Options) {})
}

func options(s objstore.Store) broker.Options {
	return broker.Options{
		Options: log.Options{Store: s, Budget: budget.New(64 << 20), Batch: log.Config{Wait: time.Millisecond}, Logger: slog.New(slog.DiscardHandler)},
	}
}

// openWith opens a broker with other options.
func openWith(t testing.TB, s objstore.Store, change func(*broker.Options)) *fixture {
	t.Helper()
	o := options(s)
	change(&o)
	return serve(t, must.Get(broker.Open(t.Context(), o))(t))
}

// serve opens the queues of a broker.
func serve(t testing.TB, b *broker.Broker) *fixture {
	f := &fixture{t: t, b: b, log: &sebtest.Log{}, met: metrics.NewSet()}
	f.q = queue.Open(queue.Options{Broker: b, Logger: f.log.Logger(), Metrics: f.met})
	t.Cleanup(f.close)
	return f
}

func (f *fixture) close() { _ = f.b.Close(context.Background()) }

func (f *fixture) create(name string, settings ...string) {
	f.t.Helper()
	spec := queue.Spec{Settings: map[string]string{}}
	for i := 0; i < len(settings); i += 2 {
		spec.Settings[settings[i]] = settings[i+1]
	}
	must.Get(f.q.Create(f.t.Context(), name, spec))(f.t)
}

func (f *fixture) send(name string, list ...queue.Message) (ids []queue.Sent) {
	f.t.Helper()
	ids = must.Get(f.q.Send(f.t.Context(), name, list))(f.t)
	for i := range ids {
		must.NoErrorf(f.t, ids[i].Err, "message %d", i)
	}
	return ids
}

func text(s string) queue.Message { return queue.Message{Value: []byte(s)} }

// lease leases up to n messages, and waits for the first.
func (f *fixture) lease(name string, n int) []queue.Leased {
	f.t.Helper()
	l := must.Get(f.q.Lease(f.t.Context(), queue.LeaseRequest{Queue: name, Max: n, Wait: 5 * time.Second, By: "w"}))(f.t)
	defer l.Release()
	return l.List
}

// none checks that a queue gives no message now.
func (f *fixture) none(name string) {
	f.t.Helper()
	l := must.Get(f.q.Lease(f.t.Context(), queue.LeaseRequest{Queue: name, Max: 1}))(f.t)
	if l.Release(); len(l.List) != 0 {
		f.t.Fatalf("%s gives %+v", name, l.List)
	}
}

func (f *fixture) settle(name string, do queue.Do, m queue.Leased, delay ...time.Duration) error {
	f.t.Helper()
	s := queue.Settlement{Receipt: m.Receipt, Do: do, Reason: "because"}
	if len(delay) > 0 {
		s.Delay = &delay[0]
	}
	return must.Get(f.q.Settle(f.t.Context(), name, "w", []queue.Settlement{s}))(f.t)[0]
}

// TestQueue follows messages from a producer to a worker.
func TestQueue(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("mails")
	ids := f.send("mails", text("a"), text("b"), queue.Message{Value: []byte("c"), Key: []byte("k"), Headers: []record.Header{{Key: "h", Value: []byte("v")}}})
	list := f.lease("mails", 10)
	must.Equal(t, len(list), 3)
	for i, want := range []string{"a", "b", "c"} {
		if m := list[i]; string(m.Value) != want || m.ID != ids[i].ID || m.Deliveries != 1 || !m.Until.After(time.Now()) {
			t.Errorf("message %d: %+v", i, m)
		}
	}
	if m := list[2]; string(m.Key) != "k" || len(m.Headers) != 1 || m.Headers[0].Key != "h" {
		t.Errorf("attributes %+v", m)
	}
	f.none("mails")
	must.NoError(t, f.settle("mails", queue.Finish, list[0]))
	must.ErrorIsf(t, f.settle("mails", queue.Finish, list[0]), queue.ErrStale, "settled twice")
	must.ErrorIsf(t, f.settle("mails", queue.Finish, queue.Leased{Receipt: "AAAA" + list[1].Receipt}), queue.ErrReceipt, "foreign receipt")
	must.NoError(t, f.settle("mails", queue.Retry, list[1], 0))
	again := f.lease("mails", 10)
	if len(again) != 1 || string(again[0].Value) != "b" || again[0].Deliveries != 2 {
		t.Fatalf("retry: %+v", again)
	}
	must.ErrorIsf(t, f.settle("mails", queue.Finish, list[1]), queue.ErrStale, "receipt of the first lease")
	must.NoError(t, f.settle("mails", queue.Extend, list[2], time.Hour))
	must.NoError(t, f.settle("mails", queue.Finish, list[2]))
	must.NoError(t, f.settle("mails", queue.Kill, again[0]))
	dead := f.lease("mails.dead", 10)
	if len(dead) != 1 || string(dead[0].Value) != "b" {
		t.Fatalf("dead letters: %+v", dead)
	}
	headers := map[string]string{}
	for _, h := range dead[0].Headers {
		headers[h.Key] = string(h.Value)
	}
	if headers[queue.HeaderQueue] != "mails" || headers[queue.HeaderMessage] != "0-1" || headers[queue.HeaderDeliveries] != "2" ||
		headers[queue.HeaderReason] != "because" || strings.Count(headers[queue.HeaderTries], `"reason":"because"`) != 2 {
		t.Errorf("headers of the letter: %v", headers)
	}
	must.ErrorIsf(t, f.settle("mails.dead", queue.Kill, dead[0]), queue.ErrNoDeadLetter, "a letter of letters")
	i := must.Get(f.q.Info("mails"))(t)
	if i.Ready+i.InFlight+i.Delayed+i.Retrying+i.Dying != 0 || i.Sent != 3 {
		t.Errorf("info %+v", i)
	}
}

// TestRestart: what the log knows survives, and a lease that it does not know is given again.
func TestRestart(t *testing.T) {
	store := objstore.NewMemory()
	f := open(t, store)
	f.create("q", "visibility", "1h")
	f.send("q", text("a"), text("b"), text("c"), queue.Message{Value: []byte("d"), Delay: time.Hour})
	list := f.lease("q", 3)
	must.NoError(t, f.settle("q", queue.Finish, list[0])) // its slot stores the leases of the others
	f.send("q", text("e"))
	unstored := f.lease("q", 1)
	f.close()
	g := open(t, store)
	i := must.Get(g.q.Info("q"))(t)
	if i.InFlight != 2 || i.Delayed != 1 || i.Ready != 1 {
		t.Fatalf("after a restart: %+v", i)
	}
	must.NoErrorf(t, g.settle("q", queue.Finish, list[1]), "receipt of an earlier leader")
	must.NoErrorf(t, g.settle("q", queue.Finish, unstored[0]), "receipt that the log does not know")
	must.NoError(t, g.settle("q", queue.Retry, list[2], 0))
	last := g.lease("q", 5)
	if len(last) != 1 || string(last[0].Value) != "c" || last[0].Deliveries != 2 {
		t.Fatalf("lease %+v", last)
	}
}

// TestTooManyDeliveries: a message that fails too often is a dead letter, once, and comes back by a redrive.
func TestTooManyDeliveries(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q", "max-deliveries", "2", "backoff", "0s")
	f.send("q", text("x"), text("y"))
	for range 4 {
		m := f.lease("q", 1)
		must.NoError(t, f.settle("q", queue.Retry, m[0]))
	}
	f.none("q")
	sebtest.Eventually(t, "two letters", func() bool { return must.Get(f.q.Info("q.dead"))(t).Ready == 2 })
	dead := f.lease("q.dead", 10)
	must.Equal(t, len(dead), 2)
	r := must.Get(f.q.Redrive(t.Context(), queue.RedriveRequest{Queue: "q.dead"}))(t)
	if r.Moved != 0 || r.Skipped != 2 {
		t.Fatalf("redrive of leased letters: %+v", r)
	}
	for _, m := range dead {
		must.NoError(t, f.settle("q.dead", queue.Retry, m, 0))
	}
	if r = must.Get(f.q.Redrive(t.Context(), queue.RedriveRequest{Queue: "q.dead", Text: "y", DryRun: true}))(t); r.Moved != 1 || r.Skipped != 1 {
		t.Fatalf("dry run: %+v", r)
	}
	if r = must.Get(f.q.Redrive(t.Context(), queue.RedriveRequest{Queue: "q.dead", Text: "y"}))(t); r.Moved != 1 || r.Next != nil {
		t.Fatalf("redrive: %+v", r)
	}
	back := f.lease("q", 10)
	if len(back) != 1 || string(back[0].Value) != "y" || len(back[0].Headers) != 0 {
		t.Fatalf("redriven: %+v", back)
	}
	n := must.Get(f.q.Purge(t.Context(), "q.dead"))(t)
	must.Equal(t, n, int64(1))
	f.none("q.dead")
}

// TestAttributes: delay, dedup, expire, priority.
func TestAttributes(t *testing.T) {
	f := open(t, objstore.NewMemory())
	must.Get(f.q.Create(t.Context(), "q", queue.Spec{Priorities: 2}))(t)
	sent := f.send("q",
		queue.Message{Value: []byte("low"), Priority: 1}, queue.Message{Value: []byte("soon"), Delay: 300 * time.Millisecond},
		queue.Message{Value: []byte("once"), Dedup: "id"}, queue.Message{Value: []byte("again"), Dedup: "id"}, queue.Message{Value: []byte("gone"), Expire: time.Millisecond})
	if !sent[3].Duplicate || sent[3].ID != sent[2].ID {
		t.Errorf("duplicate: %+v", sent[3])
	}
	time.Sleep(5 * time.Millisecond)
	var got []string
	for range 3 {
		m := f.lease("q", 1)
		got = append(got, string(m[0].Value))
		must.NoError(t, f.settle("q", queue.Finish, m[0]))
	}
	must.Equal(t, fmt.Sprint(got), "[once low soon]")
	id := f.send("q", queue.Message{Value: []byte("later"), Delay: time.Hour})[0].ID
	list, _, err := f.q.Peek(t.Context(), queue.PeekRequest{Queue: "q", State: queue.Delayed, Max: 5})
	must.NoError(t, err)
	if len(list) != 1 || string(list[0].Value) != "later" || list[0].ID != id {
		t.Errorf("delayed: %+v", list)
	}
	must.NoError(t, f.q.Cancel(t.Context(), "q", id))
	must.ErrorIsf(t, f.q.Cancel(t.Context(), "q", id), queue.ErrUnknownMessage, "cancelled twice")
	bad := must.Get(f.q.Send(t.Context(), "q", []queue.Message{{Priority: 2}, {Delay: 400 * 24 * time.Hour}, {Headers: []record.Header{{Key: "seb-x"}}}}))(t)
	for i, field := range []string{"priority", "delay", "headers"} {
		var invalid *state.InvalidError
		if !errors.As(bad[i].Err, &invalid) || invalid.Field != field {
			t.Errorf("message %d: %v, want an error of %s", i, bad[i].Err, field)
		}
	}
}

// TestOrder: messages of a key come one at a time.
func TestOrder(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q", "key-mode", "order", "backoff", "0s")
	for i := range 3 {
		f.send("q", queue.Message{Key: []byte("a"), Value: fmt.Append(nil, "a", i)}, queue.Message{Key: []byte("b"), Value: fmt.Append(nil, "b", i)})
	}
	var got []string
	for len(got) < 6 {
		list := f.lease("q", 10)
		for _, m := range list {
			got = append(got, string(m.Value))
			must.NoError(t, f.settle("q", queue.Finish, m))
		}
	}
	must.Equal(t, fmt.Sprint(got), "[a0 b0 a1 b1 a2 b2]")
}

// TestOrderOfARequest: messages with and without dedup IDs keep their order.
func TestOrderOfARequest(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q", "key-mode", "order")
	m := func(value, dedup string) queue.Message {
		return queue.Message{Key: []byte("k"), Value: []byte(value), Dedup: dedup}
	}
	for i, s := range f.send("q", m("a", "1"), m("b", ""), m("c", "2"), m("d", "")) {
		must.Equal(t, s.ID.Offset, int64(i))
	}
}

// TestAWorkerWaits: a worker that waits gets a message that is sent later, and one whose lease has ended.
func TestAWorkerWaits(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q", "visibility", "1s")
	got := make(chan []queue.Leased, 1)
	go func() { got <- f.lease("q", 1) }()
	sebtest.Eventually(t, "a worker waits", func() bool { return f.q.Waiting("q") == 1 })
	f.send("q", text("x"))
	first := <-got
	must.Equal(t, string(first[0].Value), "x")
	second := f.lease("q", 1) // after a second
	if second[0].Deliveries != 2 || second[0].ID != first[0].ID {
		t.Errorf("after the lease: %+v", second)
	}
}

// TestRefusals: settings that contradict each other, or a dead-letter queue that cannot be one.
func TestRefusals(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("a")
	must.Get(f.b.CreateTopic(t.Context(), "plain", broker.TopicSpec{}))(t)
	for _, c := range []struct{ name, key, value, want string }{
		{"b", "dead-letter", "missing", `no queue "missing"`},
		{"b", "dead-letter", "plain", "is no queue"},
		{"b", "dead-letter", "b", "circle"},
		{"b", "visibility", "13h", "not between 1s and 12h"},
		{"b", "backoff", "exponential 1s", "exponential 1s..10m"},
		{"b", "nonsense", "1", "unknown setting"},
	} {
		if _, err := f.q.Create(t.Context(), c.name, queue.Spec{Settings: map[string]string{c.key: c.value}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.key, c.value, err, c.want)
		}
	}
	_, err := f.q.Update(t.Context(), "a.dead", queue.Spec{Settings: map[string]string{"dead-letter": "a"}})
	if err == nil || !strings.Contains(err.Error(), "circle: a.dead to a to a.dead") {
		t.Errorf("a circle: %v", err)
	}
	_, err = f.b.UpdateTopic(t.Context(), "a", broker.TopicSpec{Partitions: queue.PrioritiesMax + 1})
	must.ErrorIsf(t, err, state.ErrInvalid, "more partitions than priorities")
	must.ErrorIsf(t, f.q.Delete(t.Context(), "a.dead"), queue.ErrNeeded, "a dead-letter queue in use")
	_, err = f.q.Lease(t.Context(), queue.LeaseRequest{Queue: "plain"})
	must.ErrorIsf(t, err, queue.ErrNotQueue, "lease of a topic")
	must.NoError(t, f.q.Delete(t.Context(), "a"))
	must.NoError(t, f.q.Delete(t.Context(), "a.dead"))
}

// TestATooLargeMessage: the others of its request are stored.
func TestATooLargeMessage(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	must.Get(f.b.UpdateTopic(t.Context(), "q", broker.TopicSpec{Settings: map[string]string{"max-batch-bytes": "1000", "compression": "gzip"}}))(t)
	random := make([]byte, 2000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random)
	sent := must.Get(f.q.Send(t.Context(), "q", []queue.Message{text("a"), {Value: random}, text("b"), text("c")}))(t)
	must.ErrorIsf(t, sent[1].Err, broker.ErrTooLarge, "message of 2,000 bytes")
	for _, i := range []int{0, 2, 3} {
		must.NoErrorf(t, sent[i].Err, "message %d", i)
	}
	must.Equal(t, len(f.lease("q", 5)), 3)
}

// TestSettingsHoldAtOnce: a paused queue gives nothing as soon as the pause is answered.
func TestSettingsHoldAtOnce(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	f.send("q", text("a"))
	for range 20 {
		must.Get(f.q.Update(t.Context(), "q", queue.Spec{Settings: map[string]string{"paused": "true"}}))(t)
		f.none("q")
		must.Get(f.q.Update(t.Context(), "q", queue.Spec{Settings: map[string]string{"paused": ""}}))(t)
		l := must.Get(f.q.Lease(t.Context(), queue.LeaseRequest{Queue: "q"}))(t)
		must.Equal(t, len(l.List), 1)
		l.Return()
		l.Release()
	}
}
