package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// audited opens a broker with an audit topic, on a bucket at the newest format level.
func audited(t testing.TB, s objstore.Store) *broker.Broker {
	o := options(s)
	o.AuditTopic = "audit"
	return open(t, o)
}

// shop is the client of changes.
var shop = broker.Client{Origin: audit.Origin{Principal: "shop", Secret: 10, From: "192.0.2.1:5", Protocol: "http", Request: "r1"}}

// told reads the audit topic: a line for each record.
func told(t testing.TB, b *broker.Broker) (lines []string) {
	t.Helper()
	for _, v := range consume(t, b, "audit", 0, 0) {
		var r api.AuditRecord
		must.NoErrorf(t, json.Unmarshal([]byte(v), &r), "%s", v)
		line := fmt.Sprintf("%s %s %s %s by %q", r.Outcome, r.Action, r.Resource.Type, r.Resource.Name, r.Actor.Principal)
		if len(r.Details) > 0 {
			line += strings.TrimPrefix(fmt.Sprint(r.Details), "map")
		}
		if r.Count > 0 {
			line += fmt.Sprint(" count ", r.Count)
		}
		lines = append(lines, line)
	}
	return lines
}

func wantTold(t testing.TB, got []string, want string) {
	t.Helper()
	if s := strings.Join(got, "\n"); s != strings.TrimSpace(want) {
		t.Errorf("audit records:\n%s\nwant:\n%s", s, want)
	}
}

func TestAuditRecordsOfChanges(t *testing.T) {
	b := audited(t, objstore.NewMemory())
	ctx := broker.WithClient(t.Context(), shop)
	must := func(err error) {
		t.Helper()
		must.NoError(t, err)
	}
	spec := broker.TopicSpec{Settings: map[string]string{"retention-time": "1h", "key-index": "true"}}
	_, err := b.CreateTopic(ctx, "orders", spec)
	must(err)
	_, err = b.UpdateTopic(ctx, "orders", broker.TopicSpec{Partitions: 2, Settings: map[string]string{"retention-time": "2h", "key-index": ""}})
	must(err)
	mustProduce(t, b, "orders", 0, "a", "b")
	_, err = b.Trim(ctx, "orders", 0, 1)
	must(err)
	_, err = b.Trim(ctx, "orders", 0, 1) // changes nothing
	must(err)
	must(b.CommitOffsets(ctx, "g", []broker.OffsetCommit{{Topic: "orders", Offset: 1}, {Topic: "orders", Partition: 1}})[0])
	must(b.DeleteOffset(ctx, "g", "orders", 0))
	must(b.DeleteGroup(ctx, "g"))
	rule := access.Rule{Principal: "ann", Resource: access.Topic, Name: "orders", Operation: access.Read, Host: access.Any}
	must(b.ChangeAccess(ctx, func(*access.Table) (access.Change, error) {
		return access.Change{Put: []access.Principal{{ID: "ann", Secrets: []access.Secret{{ID: 1, Hash: [32]byte{0xca, 0xfe}}}}}, PutRules: []access.Rule{rule}}, nil
	}))
	must(b.ChangeAccess(ctx, func(*access.Table) (access.Change, error) {
		return access.Change{DeleteRules: []access.Rule{rule}}, nil
	}))
	must(b.ChangeAccess(ctx, func(*access.Table) (access.Change, error) {
		return access.Change{PutQuotas: []access.Quota{{Principal: "ann", Requests: 5}}}, nil
	}))
	must(b.ChangeAccess(ctx, func(*access.Table) (access.Change, error) {
		return access.Change{DeleteQuotas: []string{"ann"}}, nil
	}))
	_, err = b.Raise(ctx) // the bucket has the level
	must(err)
	must(b.DeleteTopic(ctx, "orders"))
	check.ErrorIs(t, b.AppendChange(ctx, data(t, "missing", 0, "x"), &audit.Change{Action: "trigger.put"}).Err, state.ErrUnknownTopic)
	create(t, b, "own", 1)
	check.ErrorIs(t, check.Err(b.CreateTopic(ctx, "own", broker.TopicSpec{})), state.ErrTopicExists)
	must(b.AppendChange(ctx, data(t, "own", 0, "x"), &audit.Change{Action: "trigger.put", Resource: audit.Resource{Type: "trigger", Name: "t"}}).Err)
	wantTold(t, told(t, b), `
done topic.create topic orders by "shop"[key-index:true partitions:1 retention-time:1h0m0s]
done topic.alter topic orders by "shop"[key-index: partitions:2 retention-time:2h0m0s]
done topic.trim topic orders by "shop"[offset:1 partition:0]
done group.delete-offset group g by "shop"[partition:0 topic:orders]
done group.delete group g by "shop"
done token.create principal ann by "shop"[rules:allow ann read on topic "orders"]
done acl.remove acl ann by "shop"[removed-rules:allow ann read on topic "orders"]
done quota.set quota ann by "shop"[requests:5]
done quota.remove quota ann by "shop"
done topic.delete topic orders by "shop"
done topic.create topic own by ""[partitions:1]
done trigger.put trigger t by "shop"`)
	if v := consume(t, b, "audit", 0, 0)[0]; !strings.Contains(v, `"from":"192.0.2.1:5","protocol":"http","request":"r1"`) || !strings.Contains(v, `"secret":"a"`) {
		t.Error(v)
	}
	if all := strings.Join(consume(t, b, "audit", 0, 0), ""); strings.Contains(all, "cafe") {
		t.Errorf("a record has a hash: %s", all)
	}
	if _, settings, err := b.Resolved("audit"); err != nil || settings.RetentionTime != 90*24*time.Hour || settings.TimestampType != "LogAppendTime" {
		t.Errorf("settings %+v, %v", settings, err)
	}
}

// TestAuditRecordOfAnAccessConflict plans a change again, because another came first.
func TestAuditRecordOfAnAccessConflict(t *testing.T) {
	b := audited(t, objstore.NewMemory())
	put := func(id string) access.Change { return access.Change{Put: []access.Principal{{ID: id}}} }
	plans := 0
	err := b.ChangeAccess(t.Context(), func(*access.Table) (access.Change, error) {
		plans++
		if plans == 1 {
			check.NoError(t, b.ChangeAccess(t.Context(), func(*access.Table) (access.Change, error) { return put("first"), nil }))
		}
		return put(fmt.Sprint("plan", plans)), nil
	})
	if err != nil || plans != 2 {
		t.Fatalf("%d plans, %v", plans, err)
	}
	wantTold(t, told(t, b), `
done password.set principal first by ""
done password.set principal plan2 by ""`)
}

func TestOnlySebWritesTheAuditTopic(t *testing.T) {
	b := audited(t, objstore.NewMemory())
	must.ErrorIs(t, check.Err(b.CreateTopic(t.Context(), "audit", broker.TopicSpec{})), state.ErrTopicExists)
	for _, c := range []struct {
		name string
		do   func() error
		want error
	}{
		{"append", func() error { return produce(t, b, "audit", 0, "x").Err }, broker.ErrInternalTopic},
		{"change", func() error { return b.AppendChange(t.Context(), data(t, "audit", 0, "x"), nil).Err }, broker.ErrInternalTopic},
		{"delete", func() error { return b.DeleteTopic(t.Context(), "audit") }, state.ErrAuditTopic},
		{"delete by force", func() error { return b.ForceDeleteTopic(t.Context(), "audit") }, state.ErrAuditTopic},
	} {
		check.ErrorIsf(t, c.do(), c.want, "%s", c.name)
	}
	if _, err := b.UpdateTopic(t.Context(), "audit", broker.TopicSpec{Settings: map[string]string{"retention-time": "1h"}}); err != nil {
		t.Error(err)
	}
	wantTold(t, told(t, b), `done topic.alter topic audit by ""[retention-time:1h0m0s]`)
}

// requestCount counts the requests of a store.
type requestCount struct {
	objstore.Store
	puts atomic.Int64
}

func (c *requestCount) Put(ctx context.Context, key string, body objstore.Body) error {
	c.puts.Add(1)
	return c.Store.Put(ctx, key, body)
}

// TestSampledAuditRecords guesses keys and makes forbidden requests for minutes. The store gets few
// objects because of that, and none afterwards.
func TestSampledAuditRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &requestCount{Store: objstore.NewMemory()}
		b := audited(t, s)
		o := shop.Origin
		each := sebtest.Runs(3*60*1000, 3*60*100) // events of each kind
		for range each {
			b.FailedLogin("kafka", "192.0.2.1:7", "192.0.2.0/24")
			b.Denied(o, access.Write, access.Topic, "orders")
			time.Sleep(3 * time.Minute / time.Duration(each))
		}
		time.Sleep(5 * time.Minute)
		lines := told(t, b)
		first := slices.Sorted(slices.Values(lines[:min(2, len(lines))])) // they come at once
		if len(lines) < 6 || len(lines) > 8 || !slices.Equal(first, []string{`denied topic.write topic orders by "shop"`, `failed-login login network 192.0.2.0/24 by ""`}) {
			t.Errorf("audit records: %q", lines)
		}
		events := 0
		for _, v := range consume(t, b, "audit", 0, 0) {
			var r api.AuditRecord
			must.NoError(t, json.Unmarshal([]byte(v), &r))
			events += max(1, r.Count)
		}
		if events != 2*each {
			t.Errorf("the records stand for %d events", events)
		}
		before := s.puts.Load()
		time.Sleep(time.Hour)
		if n := s.puts.Load() - before; n != 0 || before > 20 {
			t.Errorf("%d requests before, %d while idle", before, n)
		}
		kill(b)
	})
}

func TestWithoutAuditTopicNothingIsAudited(t *testing.T) {
	s := objstore.NewMemory()
	b := open(t, options(s))
	create(t, b, "audit", 1)
	b.Denied(shop.Origin, access.Write, access.Topic, "audit")
	b.FailedLogin("http", "192.0.2.1:7", "192.0.2.0/24")
	mustProduce(t, b, "audit", 0, "x")
	if b.Audits() || len(consume(t, b, "audit", 0, 0)) != 1 {
		t.Error("there are audit records")
	}
	check.NoError(t, b.DeleteTopic(t.Context(), "audit"))
	o := options(s)
	o.AuditTopic, o.Core = "audit", core.Config{ReadOnly: true}
	f := open(t, o)
	f.Denied(shop.Origin, access.Write, access.Topic, "audit") // a follower writes nothing
}
