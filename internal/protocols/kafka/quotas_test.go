package kafka_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
)

func (g *guarded) limit(q access.Quota) {
	g.t.Helper()
	must.NoError(g.t, g.a.ChangeQuota(g.t.Context(), q.Principal, func(to *access.Quota) error { *to = q; return nil }))
}

// throttled collects the throttle times that a client is told, and passes each on the clock of the
// server, so that the quota of a test does not depend on the time that the test takes.
type throttled struct {
	g     *guarded
	mu    sync.Mutex // guards times
	times []time.Duration
}

func (h *throttled) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, after bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if after {
		h.times = append(h.times, d)
	}
	h.g.wait(d)
}

func (h *throttled) sum() (sum time.Duration, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.times {
		sum += d
	}
	return sum, len(h.times)
}

func (g *guarded) limitedClient(id string, h *throttled, opts ...kgo.Opt) *kgo.Client {
	g.t.Helper()
	token := g.token(id, rule(access.Topic, access.Any, access.All), rule(access.Group, access.Any, access.All))
	return g.clientAs(plain.Auth{User: id, Pass: token}.AsMechanism(), append(opts, kgo.WithHooks(h))...)
}

func values(topic string, n, size int) (list []*kgo.Record) {
	for range n {
		list = append(list, &kgo.Record{Topic: topic, Value: make([]byte, size)})
	}
	return list
}

// TestQuotaOfAProducer: the throttle times that a producer is told add up to the time in which its
// quota pays for its bytes. A producer with another principal is not throttled.
func TestQuotaOfAProducer(t *testing.T) {
	t.Parallel()
	g := guard(t)
	topic(t, g.b, "t", broker.TopicSpec{})
	limited, free := &throttled{g: g}, &throttled{g: g}
	const rate, size, n = 1 << 20, 256 << 10, 16
	c := g.limitedClient("limited", limited, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(size+1<<10))
	other := g.limitedClient("free", free)
	g.limit(access.Quota{Principal: "limited", ProduceBytes: rate})
	for i, r := range values("t", n, size) { // each is a request
		must.NoErrorf(t, c.ProduceSync(t.Context(), r).FirstErr(), "record %d", i)
		must.NoError(t, other.ProduceSync(t.Context(), values("t", 1, size)...).FirstErr())
	}
	sum, times := limited.sum()
	const paid = time.Duration(n*size) * time.Second / rate // 4 s, of which one is the burst
	if sum < paid-time.Second || sum > paid-time.Second+n*10*time.Millisecond || times < 2 {
		t.Errorf("%d throttle times add up to %s, want %s", times, sum, paid-time.Second)
	}
	if sum, _ := free.sum(); sum != 0 {
		t.Errorf("the other producer is throttled for %s", sum)
	}
}

// TestQuotaOfAConsumer: an answer is as large as the quota of some seconds allows, and is charged
// after it was sent.
func TestQuotaOfAConsumer(t *testing.T) {
	g := guard(t)
	topic(t, g.b, "t", broker.TopicSpec{})
	const rate, size, n = 64 << 10, 64 << 10, 30
	must.NoError(t, client(t, g.served, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(size+1<<10)).ProduceSync(t.Context(), values("t", n, size)...).FirstErr())
	g.limit(access.Quota{Principal: access.Any, FetchBytes: rate})
	id := "limited"
	r := g.dialAs(id, g.token(id, rule(access.Topic, "t", access.Read)))
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxBytes = math.MaxInt32
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes = math.MaxInt32
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	at, total := int64(0), time.Duration(0)
	for at < n {
		fetch.Topics[0].Partitions[0].FetchOffset = at
		got := r.ask(fetch, 12).(*kmsg.FetchResponse)
		if len(got.Topics) == 0 {
			t.Fatalf("%+v", got)
		}
		data := len(got.Topics[0].Partitions[0].RecordBatches)
		if data == 0 || data > 11*rate {
			t.Fatalf("an answer of %d bytes", data)
		}
		at += int64(data / size) // a batch per record
		wait := time.Duration(got.ThrottleMillis) * time.Millisecond
		total += wait
		g.wait(wait)
	}
	if want := n*size*time.Second/rate - time.Second; total < want || total > want+time.Second {
		t.Errorf("throttle times add up to %s, want %s", total, want)
	}
}

// TestQuotaOfRequests: every answer with a throttle time tells it, and the next request of the
// connection is read when it is over.
func TestQuotaOfRequests(t *testing.T) {
	g := guard(t)
	token := g.token("limited", rule(access.Cluster, access.ClusterName, access.All))
	r := g.dialAs("limited", token)
	g.limit(access.Quota{Principal: "limited", Requests: 1})
	metadata := func(c *raw) int32 {
		return c.ask(kmsg.NewPtrMetadataRequest(), 9).(*kmsg.MetadataResponse).ThrottleMillis
	}
	for i, want := range []int32{0, 1000} {
		if got := metadata(r); got != want {
			t.Fatalf("request %d: throttle time %d ms, want %d", i, got, want)
		}
	}
	other := g.dialAs("limited", token) // the login is not a request of the principal
	answered := make(chan int32)
	go func() { answered <- metadata(other) }()
	select {
	case <-answered:
		t.Fatal("a muted request was answered")
	case <-time.After(50 * time.Millisecond): // a broken mute shows here, mostly; the next one does not depend on time
	}
	g.limit(access.Quota{Principal: "limited"}) // the removal acts at its commit
	if got := <-answered; got != 0 {
		t.Errorf("throttle time %d ms without a quota", got)
	}
	check.Equalf(t, g.set.GetOrCreateCounter(`seb_quota_throttled_total{kind="requests"}`).Get(), 1, "throttled requests in the metrics")
}

func user(name string) kadm.ClientQuotaEntity {
	if name == "" { // the default
		return kadm.ClientQuotaEntity{{Type: "user"}}
	}
	return kadm.ClientQuotaEntity{{Type: "user", Name: &name}}
}

func set(key string, v float64) kadm.AlterClientQuotaOp {
	return kadm.AlterClientQuotaOp{Key: key, Value: v}
}

func alterQuota(t *testing.T, a *kadm.Client, e kadm.ClientQuotaEntity, ops ...kadm.AlterClientQuotaOp) error {
	t.Helper()
	got, err := a.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{Entity: e, Ops: ops}})
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Entity, e) {
		t.Fatalf("%+v %v", got, err)
	}
	if got[0].Err != nil {
		return errors.Join(got[0].Err, errors.New(got[0].ErrMessage))
	}
	return nil
}

// TestClientQuotas manages quotas as Kafka's tools do.
func TestClientQuotas(t *testing.T) {
	g, ctx := guard(t), t.Context()
	a := admin(t, g.served)
	for _, c := range []struct {
		entity kadm.ClientQuotaEntity
		ops    []kadm.AlterClientQuotaOp
	}{
		{user("ann"), []kadm.AlterClientQuotaOp{set("producer_byte_rate", 1<<20), set("request_rate", 7)}},
		{user("ann"), []kadm.AlterClientQuotaOp{set("consumer_byte_rate", 5), {Key: "request_rate", Remove: true}}},
		{user(""), []kadm.AlterClientQuotaOp{set("request_rate", 100)}},
		{user("bob"), []kadm.AlterClientQuotaOp{set("request_rate", 1)}},
		{user("bob"), []kadm.AlterClientQuotaOp{{Key: "request_rate", Remove: true}}},
		{user("none"), []kadm.AlterClientQuotaOp{{Key: "request_rate", Remove: true}}},
	} {
		check.NoErrorf(t, alterQuota(t, a, c.entity, c.ops...), "%v %v", c.entity, c.ops)
	}
	want := []access.Quota{{Principal: access.Any, Requests: 100}, {Principal: "ann", ProduceBytes: 1 << 20, FetchBytes: 5}}
	if got := g.b.Access().Quotas(); !reflect.DeepEqual(got, want) {
		t.Errorf("quotas %+v, want %+v", got, want)
	}
	valid, err := a.ValidateAlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{
		{Entity: user("carol"), Ops: []kadm.AlterClientQuotaOp{set("producer_byte_rate", 1)}}, {Entity: user("carol"), Ops: []kadm.AlterClientQuotaOp{set("x", 1)}},
	})
	if err != nil || len(valid) != 2 || valid[0].Err != nil || !errors.Is(valid[1].Err, kerr.InvalidRequest) {
		t.Errorf("validated: %+v %v", valid, err)
	}
	if got := g.b.Access().Quotas(); !reflect.DeepEqual(got, want) {
		t.Errorf("quotas after refused and validated changes: %+v", got)
	}
}

func TestRefusedClientQuotas(t *testing.T) {
	g := guard(t)
	a := admin(t, g.served)
	ann, id, ip := "ann", "client-id", "ip"
	for _, c := range []struct {
		name     string
		entity   kadm.ClientQuotaEntity
		op       kadm.AlterClientQuotaOp
		sentence string
	}{
		{"CPU time", user("ann"), set("request_percentage", 50), "request_percentage\" is not supported"},
		{"a fraction", user("ann"), set("producer_byte_rate", 1.5), "want a whole number"},
		{"zero", user("ann"), set("producer_byte_rate", 0), "want a whole number"},
		{"not a number", user("ann"), set("producer_byte_rate", math.NaN()), "want a whole number"},
		{"infinity", user("ann"), set("producer_byte_rate", math.Inf(1)), "want a whole number"},
		{"a client ID", kadm.ClientQuotaEntity{{Type: id, Name: &ann}}, set("producer_byte_rate", 1), `entity type "client-id" is not supported`},
		{"an IP address", kadm.ClientQuotaEntity{{Type: ip}}, set("connection_creation_rate", 1), `entity type "ip" is not supported`},
		{"a user and a client ID", kadm.ClientQuotaEntity{{Type: "user", Name: &ann}, {Type: id}}, set("producer_byte_rate", 1), "client-id"},
		{"the root key", user("seb"), set("producer_byte_rate", 1), "root key has no quota"},
		{"no user", nil, set("producer_byte_rate", 1), "want one user"},
		{"the name of every user", user("*"), set("producer_byte_rate", 1), "want the default entity"},
	} {
		if err := alterQuota(t, a, c.entity, c.op); !errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), c.sentence) {
			t.Errorf("%s: %v, want %q", c.name, err, c.sentence)
		}
	}
	check.Equalf(t, g.b.Access().Version, 0, "changes are stored")
}

// TestDescribeClientQuotas checks the filters.
func TestDescribeClientQuotas(t *testing.T) {
	g, ctx := guard(t), t.Context()
	a := admin(t, g.served)
	g.limit(access.Quota{Principal: access.Any, Requests: 100})
	g.limit(access.Quota{Principal: "ann", ProduceBytes: 1 << 20, FetchBytes: 5})
	g.limit(access.Quota{Principal: "bob", FetchBytes: 9})
	name := func(n string) *string { return &n }
	exact, byDefault, anyName := kmsg.QuotasMatchTypeExact, kmsg.QuotasMatchTypeDefault, kmsg.QuotasMatchTypeAny
	for _, c := range []struct {
		name   string
		strict bool
		filter []kadm.DescribeClientQuotaComponent
		want   string
	}{
		{"every quota", false, nil, "<default> ann bob"},
		{"any user", true, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchType: anyName}}, "<default> ann bob"},
		{"one user", false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: name("ann"), MatchType: exact}}, "ann"},
		{"the default", true, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchType: byDefault}}, "<default>"},
		{"a user called *", false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: name("*"), MatchType: exact}}, ""},
		{"client IDs", false, []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchType: anyName}}, ""},
		{"a user with an address", false, []kadm.DescribeClientQuotaComponent{{Type: "ip", MatchType: byDefault}, {Type: "user", MatchType: anyName}}, ""},
		{"a user with a client ID", false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: name("ann"), MatchType: exact}, {Type: "client-id", MatchType: byDefault}}, ""},
	} {
		got, err := a.DescribeClientQuotas(ctx, c.strict, c.filter)
		check.NoErrorf(t, err, "%s", c.name)
		var names []string
		for _, q := range got {
			if n := q.Entity[0].Name; n != nil {
				names = append(names, *n)
			} else {
				names = append(names, "<default>")
			}
		}
		check.Equalf(t, strings.Join(names, " "), c.want, "%s", c.name)
	}
	got, err := a.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: name("ann"), MatchType: exact}})
	if values := (kadm.ClientQuotaValues{{Key: "producer_byte_rate", Value: 1 << 20}, {Key: "consumer_byte_rate", Value: 5}}); err != nil || !reflect.DeepEqual(got[0].Values, values) {
		t.Errorf("%+v %v, want %v", got, err, values)
	}
	if _, err := a.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: "group", MatchType: anyName}}); !errors.Is(err, kerr.UnsupportedVersion) {
		t.Errorf("an unknown type of entity: %v", err)
	}
	for what, filter := range map[string][]kadm.DescribeClientQuotaComponent{
		"occurs twice":       {{Type: "user", MatchType: anyName}, {Type: "user", MatchType: anyName}},
		"unknown match type": {{Type: "user", MatchType: 3}},
		"has a name":         {{Type: "user", MatchType: exact}},
	} {
		if _, err := a.DescribeClientQuotas(ctx, false, filter); !errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

// TestQuotasNeedTheirLevel: a bucket at a lower format level has no quotas.
func TestQuotasNeedTheirLevel(t *testing.T) {
	store := objstore.NewMemory()
	must.Get(forged.OldBucket(t.Context(), store))(t)
	a := admin(t, serve(t, openBroker(t, store, nil), kafka.Options{}))
	name := "ann"
	entry := kadm.AlterClientQuotaEntry{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &name}}, Ops: []kadm.AlterClientQuotaOp{{Key: "request_rate", Value: 1}},
	}
	for what, f := range map[string]func(context.Context, []kadm.AlterClientQuotaEntry) (kadm.AlteredClientQuotas, error){
		"altered": a.AlterClientQuotas, "validated": a.ValidateAlterClientQuotas,
	} {
		got, err := f(t.Context(), []kadm.AlterClientQuotaEntry{entry})
		if err != nil || !errors.Is(got[0].Err, kerr.UnsupportedVersion) || !strings.Contains(got[0].ErrMessage, "format level 4 needed") {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
}
