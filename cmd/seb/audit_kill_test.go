package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// administrator makes random changes over HTTP and Kafka.
type administrator struct {
	http  *client.Client
	kafka *kadm.Client
	close func()
}

func (p *workDir) administrator(key string, http, kafka int) *administrator {
	p.t.Helper()
	h := must.Get(client.New(fmt.Sprintf("http://127.0.0.1:%d", http), client.Options{APIKey: key, RetryTime: -1}))(p.t)
	k, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("127.0.0.1:%d", kafka)), kgo.SASL(plain.Auth{User: "seb", Pass: key}.AsMechanism()), kgo.RequestRetries(0))
	must.NoError(p.t, err)
	return &administrator{h, kadm.NewClient(k), func() { k.Close(); h.Close() }}
}

// change makes the change with number n. It may fail: names are few, and the broker dies.
func (a *administrator) change(ctx context.Context, r *rand.Rand, n int) error {
	name := fmt.Sprint("n", r.IntN(4))
	rules := kadm.NewACLs().Topics(name).Allow("User:" + name).AllowHosts().Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	spec := client.TopicSpec{Settings: map[string]string{"retention-time": fmt.Sprint(24+n, "h")}}
	changes := []func() error{
		func() error { return second(a.http.CreateTopic(ctx, name, spec)) },
		func() error { return second(a.http.PutTopic(ctx, name, spec)) },
		func() error { return second(a.http.UpdateTopic(ctx, name, spec)) },
		func() error { return a.http.DeleteTopic(ctx, name) },
		func() error { return second(a.http.CreateToken(ctx, client.TokenSpec{ID: name})) },
		func() error { return second(a.http.RotateToken(ctx, name, time.Hour)) },
		func() error { return a.http.RevokeToken(ctx, name) },
		func() error {
			return a.http.AddRules(ctx, []client.Rule{{Principal: name, Resource: "topic", Pattern: fmt.Sprint("t", n), Operation: "read"}})
		},
		func() error { return second(a.http.RemoveRules(ctx, client.RuleFilter{Principal: name})) },
		func() error {
			return second(a.http.PutTrigger(ctx, name, client.TriggerSpec{Expr: fmt.Sprint("a", n)}))
		},
		func() error { return second(a.http.PauseTrigger(ctx, name, n%2 == 0)) },
		func() error { return a.http.DeleteTrigger(ctx, name) },
		func() error {
			_ = second(a.http.PutTopic(ctx, name, spec))
			return a.http.CommitOffsets(ctx, name, client.OffsetCommit{Topic: name, Offset: 0})
		},
		func() error { return a.http.DeleteGroup(ctx, name) },
		func() error { return a.http.DeleteOffset(ctx, name, name, 0) },
		func() error {
			_ = second(a.http.ProduceValues(ctx, name, [][]byte{[]byte("v")}, client.ProduceOptions{}))
			return second(a.http.Trim(ctx, name, 0, 1))
		},
		func() error { return second(a.kafka.CreateTopic(ctx, 2, 1, nil, name)) },
		func() error { return second(a.kafka.DeleteTopics(ctx, name)) },
		func() error { return second(a.kafka.UpdatePartitions(ctx, 2+n%30, name)) },
		func() error {
			config := kadm.AlterConfig{Name: "retention.ms", Value: new(fmt.Sprint(n, "000"))}
			return second(a.kafka.AlterTopicConfigs(ctx, []kadm.AlterConfig{config}, name))
		},
		func() error { return second(a.kafka.CreateACLs(ctx, rules)) },
		func() error { return second(a.kafka.DeleteACLs(ctx, rules)) },
		func() error { return second(a.kafka.DeleteGroups(ctx, name)) },
		func() error {
			password := kadm.UpsertSCRAM{User: name, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: canaryPassword}
			return second(a.kafka.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{password}))
		},
	}
	return changes[r.IntN(len(changes))]()
}

func second[T any](_ T, err error) error { return err }

// TestAuditUnderKills makes changes while the broker is killed with some of them in flight. In every
// commit object each change has its audit record, and each record its change.
func TestAuditUnderKills(t *testing.T) {
	sebtest.Long(t, "TestAudit remains, without kills")
	p := newWorkDir(t)
	http, kafka := testenv.PortForTest(t), testenv.PortForTest(t)
	const atOnce = 30
	for round := range 300 / atOnce {
		b := p.launch("--http-port", fmt.Sprint(http), "--kafka-listen", fmt.Sprint("127.0.0.1:", kafka), "--audit-topic", "audit", "--bucket", "./b")
		waitFor(t, b.serves)
		key := must.Get(os.ReadFile(filepath.Join(p.dir, "seb-data", "api-key")))(t)
		a := p.administrator(strings.TrimSpace(string(key)), http, kafka)
		r := rand.New(rand.NewPCG(7, uint64(round)))
		ctx, cancel := context.WithTimeout(t.Context(), sebtest.Limit)
		ended := make(chan error, atOnce)
		var changes sync.WaitGroup
		for i := range atOnce {
			own := rand.New(rand.NewPCG(r.Uint64(), 1))
			changes.Go(func() { ended <- a.change(ctx, own, round*atOnce+i) })
		}
		enough := r.IntN(atOnce) // of them are made, and others in flight
		for range atOnce {
			if enough > 0 && <-ended == nil {
				enough--
			}
		}
		b.kill()
		cancel()
		changes.Wait()
		a.close()
	}
	pairs(t, filepath.Join(p.dir, "b"))
}

// pairs compares the changes of each commit object of a bucket with its audit records.
func pairs(t *testing.T, dir string) {
	t.Helper()
	topics := map[record.ID]string{}
	kinds := map[string]int{}
	keys, bodies := walObjects(t, dir)
	for _, file := range keys {
		o, err := record.DecodeObject(bodies[file])
		must.NoErrorf(t, err, "%s", file)
		records, err := state.DecodeRecords(o.State)
		must.NoErrorf(t, err, "%s", file)
		var made, told []string
		for i := range records {
			if change := changeOf(&records[i], topics); change != "" {
				made = append(made, change)
			}
		}
		for i := range o.Index {
			name := topics[o.Index[i].Topic]
			var r record.Reader
			for r.Reset(o.Batches(i), o.Index[i].Base); r.Next(); {
				switch name {
				case "triggers":
					made = append(made, "trigger "+string(r.Record().Key))
				case "audit":
					told = append(told, toldOf(t, r.Record().Value))
				}
			}
			must.NoErrorf(t, r.Err(), "%s", file)
		}
		slices.Sort(made)
		slices.Sort(told)
		if !slices.Equal(made, told) {
			t.Errorf("%s has the changes %q and the audit records %q", file, made, told)
		}
		for _, change := range made {
			kinds[strings.Fields(change)[0]]++
		}
	}
	t.Logf("changes: %v", kinds)
	for _, kind := range []string{"topic.create", "topic.alter", "topic.delete", "access", "trigger"} {
		if kinds[kind] == 0 {
			t.Errorf("no change is a %s; there are %v", kind, slices.Sorted(maps.Keys(kinds)))
		}
	}
}

// changeOf describes the change of a state record, "" for those of Seb itself, and learns the names of
// topics.
func changeOf(r *state.Record, topics map[record.ID]string) string {
	switch r.Kind {
	case state.TopicCreate:
		if topics[r.Topic] = r.Name; r.Name == "audit" {
			return ""
		}
		return "topic.create " + r.Name
	case state.TopicDelete:
		return "topic.delete " + topics[r.Topic]
	case state.TopicChange:
		return "topic.alter " + topics[r.Topic]
	case state.TopicTrim:
		return "topic.trim " + topics[r.Topic]
	case state.OffsetDelete:
		return "group.delete " + r.Name
	case state.AccessChange:
		switch c := r.Access; {
		case len(c.Put) > 0:
			return "access " + c.Put[0].ID
		case len(c.Delete) > 0:
			return "access " + c.Delete[0]
		case len(c.PutRules)+len(c.DeleteRules) > 0:
			return "access " + slices.Concat(c.PutRules, c.DeleteRules)[0].Principal
		}
	}
	return ""
}

// toldOf describes the change of an audit record.
func toldOf(t *testing.T, value []byte) string {
	t.Helper()
	var r api.AuditRecord
	if err := json.Unmarshal(value, &r); err != nil || r.Outcome != "done" || r.Actor.Principal != "seb" || r.Protocol == "" || strings.Contains(string(value), canaryPassword) {
		t.Fatalf("audit record %s: %v", value, err)
	}
	switch r.Resource.Type {
	case "trigger":
		return "trigger " + r.Resource.Name
	case "principal", "acl":
		return "access " + r.Resource.Name
	case "group":
		return "group.delete " + r.Resource.Name
	}
	return r.Action + " " + r.Resource.Name
}
