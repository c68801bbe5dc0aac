package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestAuditOverKafka: records of changes and of denials name the client and its request. A client that
// may read the audit topic consumes them, and no client produces to it.
func TestAuditOverKafka(t *testing.T) {
	g := &guarded{t: t, now: time.Now()}
	b := openBroker(t, objstore.NewMemory(), func(o *broker.Options) {
		o.AuditTopic = "audit"
		o.Batch = log.Config{Wait: time.Millisecond, DeferWait: time.Millisecond}
	})
	g.a = auth.New(auth.Options{Broker: b, RootKey: apiKey, Internal: []string{"audit"}, Now: g.clock})
	t.Cleanup(g.a.Close)
	g.served = serve(t, b, kafka.Options{Auth: g.a})
	ctx, cancel := context.WithTimeout(t.Context(), sebtest.Limit)
	defer cancel()
	wide := rule(access.Topic, access.Any, access.All)
	shop := g.clientAs(plain.Auth{User: "shop", Pass: g.token("shop", wide)}.AsMechanism(), kgo.ClientID("till"))
	a := admin(t, g.served)
	if r, err := a.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": new("3600000")}, "orders"); err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	if r, err := a.DeleteTopics(ctx, "audit"); err != nil || r["audit"].Err == nil {
		t.Error("the audit topic was deleted", err)
	}
	for range 3 {
		if err := shop.ProduceSync(ctx, &kgo.Record{Topic: "audit", Value: []byte("v")}).FirstErr(); err == nil || !strings.Contains(err.Error(), "AUTHORIZATION") {
			t.Errorf("produce to the audit topic: %v", err)
		}
	}
	writer := g.clientAs(plain.Auth{User: "writer", Pass: g.token("writer", rule(access.Topic, "audit", access.Write))}.AsMechanism(), kgo.DisableIdempotentWrite())
	check.Error(t, writer.ProduceSync(ctx, &kgo.Record{Topic: "audit", Value: []byte("v")}).FirstErr(), "a client with a rule produces to the audit topic")
	reader := g.clientAs(plain.Auth{User: "reader", Pass: g.token("reader", rule(access.Topic, "audit", access.Read))}.AsMechanism(), kgo.ConsumeTopics("audit"))
	found := map[string]bool{}
	for !found["reader"] || !found["shop"] {
		for _, r := range consume(t, reader, 1) {
			var of api.AuditRecord
			must.NoError(t, json.Unmarshal(r.Value, &of))
			line := fmt.Sprintf("%s %s %s %s", of.Protocol, of.Outcome, of.Action, of.Resource.Name)
			switch {
			case of.Actor.Principal == "shop" && strings.HasPrefix(of.Request, "till ") && of.Actor.Secret != "" && strings.HasPrefix(of.From, "127.0.0.1:"):
				found["shop"] = found["shop"] || strings.HasPrefix(line, "kafka denied topic.") && of.Resource.Name == "audit"
			case of.Actor.Principal == access.RootID && line == "kafka done topic.create orders" && of.Details["partitions"] == "2" && of.Details["retention-time"] == "1h0m0s":
				found["root"] = true
			case line == " done token.create reader":
				found["reader"] = found["root"]
			}
		}
	}
}
