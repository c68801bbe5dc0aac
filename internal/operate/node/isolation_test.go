package node

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestKeysOfTransactions: the key index has no record of an open or aborted transaction, and no request waits for one.
func TestKeysOfTransactions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone})
	topic := createKeyed(t, n, "t", 1)
	put(t, n, "t", 0, "k", "first")
	x := brokertest.NewTransactor(t, n, "x")
	caughtUp := func(what string, next int64) {
		t.Helper()
		sebtest.Eventually(t, "the key index has "+what, func() bool { return n.Keys().Lag(topic) == 0 })
		ends := must.Get(n.Topic(t.Context(), "t", false))(t)
		must.Equalf(t, ends.Partitions[0].Stable, next, "last stable offset with %s", what)
	}
	change := func(commit bool) {
		x.Send(t, "t", 0, record.Record{Key: []byte("k"), Value: []byte("second")})
		put(t, n, "t", 0, "other", "behind it")
		stable := must.Get(n.Topic(t.Context(), "t", false))(t).Partitions[0].Stable
		caughtUp("all below an open transaction", stable)
		must.Equal(t, n.Keys().Lag(topic), 0)
		x.End(t, commit)
		caughtUp("what was hidden", stable+3)
	}
	change(false)
	must.Equal(t, newest(t, n, topic, "k", 0, 0), "0/0 false true")
	must.Equal(t, newest(t, n, topic, "other", 0, 2), "0/2 false true")
	change(true)
	must.Equal(t, newest(t, n, topic, "k", 0, 4), "0/4 false true")
	x.Send(t, "t", 0, record.Record{Key: []byte("k")})
	must.Equal(t, newest(t, n, topic, "k", 0, 4), "0/4 false true")
}

// eventOf returns an event of an entity.
func eventOf(t *testing.T, entity, name string) record.Record {
	t.Helper()
	return record.Record{Key: []byte(entity), Value: must.Get(json.Marshal(rule.Event{Name: name, EntityID: entity}))(t)}
}

// TestTriggersOfTransactions: the events of an open transaction count from its commit on, and no deadline passes that one
// of them may prevent.
func TestTriggersOfTransactions(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		dir := t.TempDir()
		n := open(t, Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone})
		for _, topic := range []string{"held", "free"} {
			must.Get(n.CreateTopic(t.Context(), topic, broker.TopicSpec{Settings: rules.EventSettings}))(t)
			expr := must.Get(driplang.Parse("a THEN (NOT c WITHIN 1 second)"))(t)
			must.Get(n.Triggers().Put(t.Context(), rule.Definition{ID: topic, Topic: topic, Expr: expr}, nil))(t)
		}
		x := brokertest.NewTransactor(t, n, "x")
		// In one slot, so that both have the same time.
		for _, r := range n.Submit(t.Context(), []broker.Append{
			brokertest.Append("held", 0, eventOf(t, "e", "a")), x.Append("held", 0, eventOf(t, "e", "c")),
		}).Wait(t.Context()) {
			must.NoError(t, r.Err)
		}
		brokertest.Produce(t, n, "free", 0, eventOf(t, "e", "a"))
		fired(t, n, "free") // the deadline of the other topic was earlier
		must.Equalf(t, len(firings(t, n, "held")), 0, "firings within the transaction")
		x.End(t, commit)
		brokertest.Produce(t, n, "held", 0, eventOf(t, "later", "a"))
		fired(t, n, "held")
		sebtest.Eventually(t, "the later event's deadline", func() bool { return slices.Contains(firings(t, n, "held"), "later") })
		must.Equalf(t, slices.Contains(firings(t, n, "held"), "e"), !commit, "the event fired")
		shut(t, n)
	}
}

// firings returns the entities of a trigger's firings.
func firings(t *testing.T, n *Node, trigger string) (entities []string) {
	t.Helper()
	for _, f := range must.Get(n.Triggers().Firings(t.Context(), rules.FiringQuery{Limit: 10}))(t) {
		if f.Trigger == trigger {
			entities = append(entities, f.Entity)
		}
	}
	return entities
}
