package node

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/riemann/index"
	"github.com/sebbroker/seb/internal/protocols/riemann/query"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// riemannEvent stores an event, whose data is JSON.
func riemannEvent(t *testing.T, n *Node, host, service, data string) {
	t.Helper()
	value := `{"event":"` + service + `","entity_id":"` + host + `","data":` + data + `}`
	brokertest.Produce(t, n, "riemann", 0, record.Record{Key: []byte(host), Value: []byte(value)})
}

func newRiemannTopic(t *testing.T, n *Node) {
	t.Helper()
	must.Get(n.CreateTopic(t.Context(), "riemann", broker.TopicSpec{Partitions: 1, Settings: rules.EventSettings}))(t)
}

// riemannServices returns the services of the events in the index.
func riemannServices(t *testing.T, n *Node) (list []string) {
	t.Helper()
	q := must.Get(query.Parse("true"))(t)
	must.NoError(t, n.Riemann().CatchUp(t.Context()))
	must.NoError(t, n.Riemann().Query(t.Context(), q, 1<<20, func(e *index.Event) error {
		list = append(list, string(e.Field("service").Text))
		return nil
	}))
	slices.Sort(list)
	return list
}

// expiredRecords returns the IDs of the expired records in the log.
func expiredRecords(t *testing.T, n *Node) (ids []string) {
	t.Helper()
	l := &riemannLog{}
	l.init()
	l.Broker = n.Broker
	topic, _ := l.Topic("riemann")
	pos, _ := l.Position(topic)
	for next := int64(0); next < pos.Topics[0][0].Next; {
		b := must.Get(l.Read(t.Context(), topic, 0, next, 1<<20))(t)
		for one, err := range b.All() {
			must.NoError(t, err)
			var r record.Reader
			for r.Reset(one, next); r.Next(); {
				if e, err := rule.ParseEvent(r.Record().Key, r.Record().Value); err == nil && e.ID != "" {
					ids = append(ids, e.ID)
				}
			}
			next = one.BaseOffset() + one.Span()
		}
		b.Release()
	}
	return ids
}

// TestRiemannEventsExpireOnce: an event expires while a broker leads an idle log, while no broker
// runs, and while another broker takes over. Each has one expired record.
func TestRiemannEventsExpireOnce(t *testing.T) {
	t.Parallel()
	store := objstore.NewMemory()
	o := Options{Store: store, DataDir: t.TempDir(), BatchWait: BatchNone, RiemannTopic: "riemann"}
	n := open(t, o)
	newRiemannTopic(t, n)
	follower := open(t, Options{Store: store, DataDir: t.TempDir(), ReadOnly: true, RiemannTopic: "riemann"})
	riemannEvent(t, n, "a", "stays", `{"ttl":3600}`)
	riemannEvent(t, n, "a", "leading", `{"ttl":0.05}`)
	sebtest.Eventually(t, "the event has expired in an idle log", func() bool { return slices.Equal(riemannServices(t, n), []string{"stays"}) })
	want := []string{"riemann-expired-1"}
	must.EqualSlicesf(t, expiredRecords(t, n), want, "expired records")
	sebtest.Eventually(t, "a follower has read the expired record", func() bool { return slices.Equal(riemannServices(t, follower), []string{"stays"}) })

	riemannEvent(t, n, "a", "down", `{"ttl":0.2}`)
	must.EqualSlicesf(t, riemannServices(t, n), []string{"down", "stays"}, "services")
	shut(t, n)
	want = append(want, "riemann-expired-3")
	for range 2 { // the second time it has expired already
		n = open(t, o)
		sebtest.Eventually(t, "the event has expired after the start", func() bool { return slices.Equal(riemannServices(t, n), []string{"stays"}) })
		must.EqualSlicesf(t, expiredRecords(t, n), want, "expired records")
		shut(t, n)
	}

	n = open(t, o)
	for i := range 20 {
		riemannEvent(t, n, string(rune('a'+i)), "taken", `{"ttl":0.01}`)
	}
	second := open(t, Options{Store: store, DataDir: t.TempDir(), BatchWait: BatchNone, RiemannTopic: "riemann"}) // while they expire
	sebtest.Eventually(t, "the events have expired on the second broker", func() bool { return slices.Equal(riemannServices(t, second), []string{"stays"}) })
	ids := expiredRecords(t, second)
	if slices.Sort(ids); len(ids) != 22 || len(slices.Compact(ids)) != 22 {
		t.Errorf("expired records %q", ids)
	}
}

// TestRiemannIndexContinues: the index is kept in the data folder, and rebuilt without it.
func TestRiemannIndexContinues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone, RiemannTopic: "riemann"}
	n := open(t, o)
	if got := riemannServices(t, n); len(got) != 0 {
		t.Errorf("services %q without a topic", got)
	}
	newRiemannTopic(t, n)
	riemannEvent(t, n, "a", "one", `{"ttl":3600}`)
	if got := riemannServices(t, n); !slices.Equal(got, []string{"one"}) {
		t.Errorf("services %q", got)
	}
	shut(t, n)
	for _, data := range []string{"data", "other", ""} {
		if o.DataDir = data; data != "" {
			o.DataDir = filepath.Join(dir, data)
		}
		n = open(t, o)
		if got := riemannServices(t, n); !slices.Equal(got, []string{"one"}) {
			t.Errorf("services %q with the data folder %q", got, data)
		}
		shut(t, n)
	}
	if o.RiemannTopic = ""; open(t, o).Riemann() != nil {
		t.Error("an index without a topic")
	}
}

// TestASilentHostFiresOnce: the expired record of a heartbeat is no heartbeat, so the trigger that waits
// for one fires a minute after the last one, once. Another trigger fires at the expiry.
func TestASilentHostFiresOnce(t *testing.T) {
	dir := t.TempDir()
	// Packages must create their cached values outside the bubble.
	must.Get(state.DecodeSnapshot(state.EncodeSnapshot(state.Genesis(record.NewID(), 0))))(t)
	synctest.Test(t, func(t *testing.T) {
		clock := func() log.Reading { return log.Reading{Mono: time.Now().UnixNano(), Wall: time.Now().UnixMicro()} }
		n := open(t, Options{Store: objstore.NewMemory(), DataDir: dir, BatchWait: BatchNone, RiemannTopic: "riemann", Clocks: clock})
		newRiemannTopic(t, n)
		for id, text := range map[string]string{
			"silent": "heartbeat THEN (NOT heartbeat WITHIN 60 seconds)", "expired": `expired[service = "heartbeat"]`,
		} {
			expr := must.Get(driplang.Parse(text))(t)
			must.Get(n.Triggers().Put(t.Context(), rule.Definition{ID: id, Expr: expr, Topic: "riemann", Fire: rule.OnReset}, nil))(t)
		}
		var last time.Time
		for range 5 {
			time.Sleep(20 * time.Second)
			last = time.Now()
			riemannEvent(t, n, "web1", "heartbeat", `{"ttl":30}`)
		}
		time.Sleep(time.Hour)
		list := must.Get(n.Triggers().Firings(t.Context(), rules.FiringQuery{Limit: 10}))(t)
		after := map[string]time.Duration{}
		for _, x := range list {
			after[x.Trigger] = time.UnixMilli(x.At).Sub(last).Round(time.Second)
		}
		if len(list) != 2 || after["silent"] != time.Minute || after["expired"] != 30*time.Second {
			t.Errorf("%d firings, %v after the last heartbeat", len(list), after)
		}
	})
}
