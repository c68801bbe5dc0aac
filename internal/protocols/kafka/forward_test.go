package kafka_test

import (
	"crypto/tls"
	"testing"

	"github.com/VictoriaMetrics/metrics"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func createTopic(name string) *kmsg.CreateTopicsRequest {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 2, -1
	r := kmsg.NewPtrCreateTopicsRequest()
	r.TimeoutMillis, r.Topics = 30_000, []kmsg.CreateTopicsRequestTopic{t}
	return r
}

// TestChangesAtAStandby: a standby forwards each change to the leader, and its next answer has it.
func TestChangesAtAStandby(t *testing.T) {
	t.Parallel()
	c := newCrew(t, objstore.NewMemory(), 2)
	raw := dial(t, c.mates[1].served)
	for _, version := range []int16{2, 7} {
		name := string(rune('a' + version))
		created := raw.ask(createTopic(name), version).(*kmsg.CreateTopicsResponse)
		if got := created.Topics[0]; got.ErrorCode != 0 || got.Topic != name || version >= 5 && got.NumPartitions != 2 {
			t.Fatalf("%+v", got)
		}
	}
	const name = "h"
	partitions := func() int {
		t.Helper()
		m := kmsg.NewPtrMetadataRequest()
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		m.Topics = append(m.Topics, topic)
		return len(raw.ask(m, 9).(*kmsg.MetadataResponse).Topics[0].Partitions)
	}
	check.Equalf(t, partitions(), 2, "partitions of a topic that was created here")
	more := kmsg.NewCreatePartitionsRequestTopic()
	more.Topic, more.Count = name, 3
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.TimeoutMillis, grow.Topics = 30_000, []kmsg.CreatePartitionsRequestTopic{more}
	if got := raw.ask(grow, 3).(*kmsg.CreatePartitionsResponse).Topics[0]; got.ErrorCode != 0 {
		t.Errorf("%+v", got)
	}
	check.Equalf(t, partitions(), 3, "partitions")
	set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	set.Name, set.Value = "retention.ms", kmsg.StringPtr("3600000")
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName, of.Configs = kmsg.ConfigResourceTypeTopic, name, []kmsg.IncrementalAlterConfigsRequestResourceConfig{set}
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{of}
	if got := raw.ask(alter, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]; got.ErrorCode != 0 {
		t.Errorf("%+v", got)
	}
	if ref, _ := c.mates[1].b.TopicNamed(name); ref.Settings["retention-time"] != "1h0m0s" {
		t.Errorf("settings %v", ref.Settings)
	}
	ref, _ := c.mates[0].b.TopicNamed(name)
	store(t, c.mates[0].served, ref, 0, batch(t, nil, "v"))
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Offset = -1
	trim := kmsg.NewPtrDeleteRecordsRequest()
	trim.TimeoutMillis, trim.Topics = 30_000, []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{part}}}
	if got := raw.ask(trim, 2).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.LowWatermark != 1 {
		t.Errorf("%+v", got)
	}
	ids := map[int64]bool{}
	for range 3 {
		got := raw.ask(kmsg.NewPtrInitProducerIDRequest(), 5).(*kmsg.InitProducerIDResponse)
		if got.ErrorCode != 0 || got.ProducerID < 0 || ids[got.ProducerID] {
			t.Errorf("%+v", got)
		}
		ids[got.ProducerID] = true
	}
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TimeoutMillis, remove.TopicNames = 30_000, []string{name}
	if got := raw.ask(remove, 5).(*kmsg.DeleteTopicsResponse).Topics[0]; got.ErrorCode != 0 {
		t.Errorf("%+v", got)
	}
	check.Equalf(t, partitions(), 0, "partitions of a deleted topic")
}

// TestTopicsAreCreatedFromAStandby: Metadata creates a missing topic at the leader.
func TestTopicsAreCreatedFromAStandby(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	raw := dial(t, c.mates[1].served)
	m := kmsg.NewPtrMetadataRequest()
	m.AllowAutoTopicCreation = true
	for _, name := range []string{"new", "wrong/name"} {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		m.Topics = append(m.Topics, topic)
	}
	got := raw.ask(m, 9).(*kmsg.MetadataResponse).Topics
	if got[1].ErrorCode != 0 || len(got[1].Partitions) != 1 || got[1].Partitions[0].Leader != 100 || got[0].ErrorCode != 17 {
		t.Errorf("%+v", got)
	}
	if _, ok := c.mates[0].b.TopicNamed("new"); !ok {
		t.Error("the leader does not have the topic")
	}
}

// TestRightsAtAStandby: the leader checks the rights of the client, whose token it knows.
func TestRightsAtAStandby(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	leader, standby := c.mates[0], c.mates[1]
	_, token, err := leader.a.CreateToken(t.Context(), leader.a.Root(), auth.TokenSpec{ID: "ann", Rules: []access.Rule{rule(access.Topic, "mine", access.Create)}})
	must.NoError(t, err)
	raw := unauthenticated(t, standby.served)
	must.Equalf(t, raw.loginAs("ann", token).ErrorCode, 0, "login")
	for name, code := range map[string]int16{"mine": 0, "other": 29} {
		if got := raw.ask(createTopic(name), 7).(*kmsg.CreateTopicsResponse).Topics[0]; got.ErrorCode != code {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := raw.ask(kmsg.NewPtrInitProducerIDRequest(), 5).(*kmsg.InitProducerIDResponse); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	a := admin(t, standby.served)
	acl := kadm.NewACLs().Topics("other").Allow("User:ann").AllowHosts().Operations(kadm.OpCreate).ResourcePatternType(kadm.ACLPatternLiteral)
	if created, err := a.CreateACLs(t.Context(), acl); err != nil || created[0].Err != nil {
		t.Fatalf("%+v, %v", created, err)
	}
	if got := raw.ask(createTopic("other"), 7).(*kmsg.CreateTopicsResponse).Topics[0]; got.ErrorCode != 0 {
		t.Errorf("with the new right: %+v", got)
	}
}

// TestChangesWithoutALeader: a standby that reaches no leader, or one with another root key, refuses
// changes as a broker that is not the controller.
func TestChangesWithoutALeader(t *testing.T) {
	cut := func(c *crew) { c.cutLinks(true) }
	for name, x := range map[string]struct {
		change func(o *kafka.Options)
		cut    func(c *crew)
	}{
		"no link":          {cut: cut},
		"no listener":      {cut: func(c *crew) { c.mates[0].k.Drain() }},
		"another root key": {change: func(o *kafka.Options) { o.RootKey = "other" }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrew(t, objstore.NewMemory(), 2, func(o *kafka.Options) {
				if x.change != nil {
					x.change(o)
				}
			})
			raw := dial(t, c.mates[1].served)
			if x.cut != nil {
				x.cut(c)
			}
			if got := raw.ask(createTopic("t"), 7).(*kmsg.CreateTopicsResponse).Topics[0]; got.ErrorCode != 41 {
				t.Errorf("%+v", got)
			}
			if got := raw.ask(kmsg.NewPtrInitProducerIDRequest(), 5).(*kmsg.InitProducerIDResponse); got.ErrorCode != 14 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestForwardingWithTLS: a standby with TLS verifies the certificate of the leader.
func TestForwardingWithTLS(t *testing.T) {
	authority := testenv.NewAuthority(t)
	for name, x := range map[string]struct {
		trusts *tls.Config
		code   int16
	}{"trusted": {authority.Trusted(), 0}, "unknown authority": {nil, 41}} {
		t.Run(name, func(t *testing.T) {
			c := newCrew(t, objstore.NewMemory(), 2, func(o *kafka.Options) {
				set := metrics.NewSet()
				cert := must.Get(tlsport.Load(authority.Files(t, t.TempDir(), testenv.Leaf{}), quiet, set))(t)
				o.Port = tlsport.NewPort(tlsport.Options{Name: "kafka", Certificate: cert, Logger: quiet, Metrics: set})
				o.ClusterTLS = x.trusts
			})
			conn := must.Get(tls.Dial("tcp", c.mates[1].addr, authority.Trusted()))(t)
			defer conn.Close()
			raw := &raw{t: t, Conn: conn}
			must.Equalf(t, raw.login(apiKey), 0, "login")
			if got := raw.ask(createTopic("t"), 7).(*kmsg.CreateTopicsResponse).Topics[0]; got.ErrorCode != x.code {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestEnvelopes: only the root key may send one, to the leader, and with a request that a standby
// forwards.
func TestEnvelopes(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	leader := c.mates[0]
	ref := topic(t, leader.b, "t", broker.TopicSpec{})
	_, token, err := leader.a.CreateToken(t.Context(), leader.a.Root(), auth.TokenSpec{ID: "ann", Rules: []access.Rule{rule(access.Cluster, access.ClusterName, access.All)}})
	must.NoError(t, err)
	ann := unauthenticated(t, leader.served)
	ann.loginAs("ann", token)
	envelope := func(r kmsg.Request, version int16) *kmsg.EnvelopeRequest {
		e := kmsg.NewPtrEnvelopeRequest()
		e.RequestPrincipal = append(make([]byte, 16), "seb"...)
		e.ClientHostAddress = []byte("1.2.3.4:5")
		e.RequestData = (&raw{t: t}).encode(r, version)[4:]
		return e
	}
	short := envelope(createTopic("u"), 7)
	short.RequestData = short.RequestData[:3]
	for name, x := range map[string]struct {
		c    *raw
		r    *kmsg.EnvelopeRequest
		code int16
	}{
		"root":       {dial(t, leader.served), envelope(createTopic("u"), 7), 0},
		"not root":   {ann, envelope(createTopic("v"), 7), 31},
		"standby":    {dial(t, c.mates[1].served), envelope(createTopic("w"), 7), 41},
		"fetch":      {dial(t, leader.served), envelope(fetchRequest(ref, 0), 11), 42},
		"envelope":   {dial(t, leader.served), envelope(envelope(createTopic("x"), 7), 0), 42},
		"incomplete": {dial(t, leader.served), short, 42},
	} {
		got := x.c.ask(x.r, 0).(*kmsg.EnvelopeResponse)
		if got.ErrorCode != x.code || (len(got.ResponseData) > 0) != (x.code == 0) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, name := range []string{"v", "w", "x"} {
		if _, ok := leader.b.TopicNamed(name); ok {
			t.Errorf("topic %s was created", name)
		}
	}
	alone := serve(t, openBroker(t, objstore.NewMemory(), nil), kafka.Options{})
	raw := dial(t, alone)
	raw.send(envelope(createTopic("u"), 7), 0)
	raw.ended() // without a cluster the key does not exist
}
