package pressure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	foreign  = 5000 // triggers of a broker with more memory
	entities = 15_000
	together = 2500 // lines of a request
)

// TestTriggersGrow: clients create triggers until they are refused, in a bucket that finally has
// more of them than fit. Events of many entities arrive, and records with many keys. The broker
// stays within its limit, lists all triggers, and continues after a restart and without its trigger
// database.
func TestTriggersGrow(t *testing.T) {
	beside(t)
	g := &grown{kafkaVictim: &kafkaVictim{broker: start(t, "--batch-wait-time", "5ms", "--kafka-listen", "127.0.0.1:0")}}
	g.connect()
	defer func() { g.client.Close() }()
	created, err := 0, error(nil)
	for ; err == nil; created++ { // with an expression of nearly maximum size
		var names []string
		for i := range driplang.MaxNames {
			names = append(names, fmt.Sprintf(`"%d-%d-%s"`, created, i, strings.Repeat("n", 235)))
		}
		expr, _ := json.Marshal(map[string]string{"expr": strings.Join(names, " OR "), "fire": "edge"})
		err = g.put(fmt.Sprintf("/triggers/large-%03d", created), string(expr))
	}
	if created--; !errors.Is(err, errStateFull) || created < 20 {
		t.Fatalf("%d triggers, then %v\n%s", created, err, g.Log())
	}
	t.Logf("%d large triggers, then %v; they take %s of %s", created, err,
		mib(int64(g.metric(`seb_memory_reserved_bytes{class="triggers"}`))), mib(int64(g.metric(`seb_memory_limit_bytes{class="triggers"}`))))
	g.moreTriggers()
	check.ErrorIsf(t, g.put("/triggers/one-more", `{"expr":"a"}`), errStateFull, "one more")
	must.NoError(t, g.put("/topic?topic-name=keyed", `{"settings":{"key-index":"true"}}`))
	for n := 0; n < entities; n += together {
		g.events(n)
		g.keys(n)
	}
	g.send("/event", api.NDJSON, []byte(`{"event":"all","entity_id":"e"}`))
	for i, again := range []func(){g.allFired, g.restart, func() { g.forgetTriggers(); g.restart() }} {
		again()
		at := time.Now()
		g.caughtUp()
		read := time.Now()
		g.listTriggers(created+foreign, 1+i%2)
		t.Logf("caught up after %s, listed in %s", read.Sub(at).Round(time.Millisecond), time.Since(read).Round(time.Millisecond))
	}
	g.entity("e", foreign/10-1)
	g.eventNames()
	g.alive()
	g.within(limit)
}

// moreTriggers stores definitions by a broker with more memory, which takes over from the other one.
func (g *grown) moreTriggers() {
	ctx, id := g.t.Context(), record.ID(g.id("events"))
	g.client.Close()
	must.Equalf(g.t, g.Stop(), 0, "exit code\n%s", g.Log())
	store := must.Get(anystore.Open(ctx, g.store.Spec("pressure"), anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey}))(g.t)
	larger := must.Get(node.Open(ctx, node.Options{Store: store}))(g.t)
	topic, ok := larger.EventLog().Topic("triggers")
	must.Equalf(g.t, ok, true, "topic of triggers exists")
	for n := 0; n < foreign; n += together {
		var recs []record.Record
		for i := range together {
			text := fmt.Sprintf("own%d THEN (NOT used%d WITHIN 7 days)", n+i, n+i)
			switch {
			case n+i == 0:
				text = "made THEN (NOT used WITHIN 7 days)"
			case i%10 == 0:
				text = "all OR (" + text + ")"
			}
			expr := must.Get(driplang.Parse(text))(g.t)
			d := rule.Definition{
				ID: fmt.Sprintf("small-%05d", n+i), Version: 1, Expr: expr, Fire: rule.OnEdge, TopicID: id.String(), From: []int64{0},
			}.WithDefaults()
			value := must.Get(d.Encode())(g.t)
			recs = append(recs, record.Record{Key: []byte(d.ID), Value: value, Timestamp: 1})
		}
		must.Get(larger.EventLog().Append(ctx, topic.ID, 0, recs))(g.t)
	}
	must.NoError(g.t, larger.Close(ctx))
	g.stop, g.most = make(chan struct{}), 0
	must.NoErrorf(g.t, g.again(), "start again")
	g.connect()
	g.caughtUp()
}

// events posts events of new entities.
func (g *grown) events(n int) {
	var body bytes.Buffer
	for i := range together {
		fmt.Fprintf(&body, `{"event":"made","entity_id":"entity-%06d","id":"%d"}`+"\n", n+i, n+i)
	}
	g.send("/event", api.NDJSON, body.Bytes())
}

// keys appends records with new keys.
func (g *grown) keys(n int) {
	var recs []record.Record
	for i := range together {
		recs = append(recs, record.Record{Key: fmt.Appendf(nil, "key-%06d", n+i), Value: []byte("v"), Timestamp: 1})
	}
	g.batch("keyed", recs)
}

func (g *grown) batch(topic string, recs []record.Record) {
	g.t.Helper()
	data, _ := recordtest.Encode(recs, record.EncodeOptions{})
	g.send("/records?partition=0&topic-name="+topic, api.RecordBatch, data)
}

func (g *grown) send(path, kind string, body []byte) {
	g.t.Helper()
	resp, answer, err := g.ask(g.t.Context(), g.url+path, request{method: http.MethodPost, kind: kind, body: body, client: &g.http})
	if err != nil || resp.StatusCode != http.StatusCreated {
		g.t.Fatalf("%s: %v %.500s %v\n%s", path, resp, answer, err, g.Log())
	}
}

// caughtUp waits until the engine has read everything and delivered all firings.
func (g *grown) caughtUp() {
	g.t.Helper()
	sebtest.Eventually(g.t, "no records and deliveries are left", func() bool {
		text := g.get(g.url + "/metrics")
		opened := field(g.t, text, `seb_memory_reserved_bytes{class="triggers"} `) > 0 // its database
		return opened && field(g.t, text, "seb_triggers_lag_records ")+field(g.t, text, "seb_deliveries_pending ") == 0
	})
}

// allFired waits until the triggers of the last event have fired.
func (g *grown) allFired() {
	g.t.Helper()
	sebtest.Eventually(g.t, "all triggers have fired", func() bool { return g.metric("seb_triggers_firings_recorded_total") >= foreign/10-1 })
}

// listTriggers lists all triggers several times concurrently.
func (g *grown) listTriggers(want, times int) {
	g.t.Helper()
	for range times {
		g.wg.Go(func() {
			var list struct{ Triggers []struct{ ID string } }
			if err := json.Unmarshal([]byte(g.get(g.url+"/triggers")), &list); err != nil || len(list.Triggers) != want {
				g.t.Errorf("%d triggers are listed, want %d; %v", len(list.Triggers), want, err)
			}
		})
	}
	g.wg.Wait()
}

// forgetTriggers deletes the trigger database. The broker notices it at the next start.
func (g *grown) forgetTriggers() {
	g.t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(g.t.TempDir()), "*", "view", "triggers.db*"))
	if err != nil || len(files) == 0 {
		g.t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		must.NoError(g.t, os.Remove(f))
	}
}
