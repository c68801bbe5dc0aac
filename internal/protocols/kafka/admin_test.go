package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestAdminsAtAStandby: an admin client that knows only a standby makes every change, because it finds
// the controller, or the standby forwards what the client sends to any broker.
func TestAdminsAtAStandby(t *testing.T) {
	t.Parallel()
	c := newCrew(t, objstore.NewMemory(), 2)
	k := client(t, c.mates[1].served, kgo.AllowAutoTopicCreation())
	a, ctx, ann := kadm.NewClient(k), t.Context(), "ann"
	settings := []kadm.AlterConfig{{Name: "retention.ms", Value: kadm.StringPtr("3600000")}}
	acl := kadm.NewACLs().Topics("t").Allow("User:ann").AllowHosts().Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	must.NoError(t, must.Get(a.CreateTopic(ctx, 1, -1, nil, "t"))(t).Err)
	for range 4 { // a client chooses the broker of each request at random
		for what, err := range map[string]error{
			"settings":     must.Get(a.AlterTopicConfigs(ctx, settings, "t"))(t)[0].Err,
			"all settings": must.Get(a.AlterTopicConfigsState(ctx, settings, "t"))(t)[0].Err,
			"quota": must.Get(a.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{
				{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &ann}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1e6}}},
			}))(t)[0].Err,
			"rule": must.Get(a.CreateACLs(ctx, acl))(t)[0].Err,
		} {
			check.NoErrorf(t, err, "%s", what)
		}
		deleted := must.Get(a.DeleteACLs(ctx, acl))(t)
		check.Equalf(t, len(deleted[0].Deleted), 1, "deleted rules: %+v", deleted)
	}
	password := must.Get(a.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: ann, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "x"}}))(t)
	check.NoErrorf(t, password[ann].Err, "password")
	check.NoErrorf(t, must.Get(a.CreatePartitions(ctx, 1, "t"))(t).Error(), "partitions")
	for _, name := range []string{"t", "new"} { // with a producer ID; a missing topic is created
		check.NoErrorf(t, k.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("v")}).FirstErr(), "produce to %s", name)
	}
	ends := must.Get(a.ListEndOffsets(ctx, "new"))(t)
	check.NoErrorf(t, must.Get(a.DeleteRecords(ctx, ends.Offsets()))(t).Error(), "records")
	check.NoErrorf(t, must.Get(a.DeleteTopics(ctx, "t", "new"))(t).Error(), "topics")
}

// TestTheControllerIsTheLeader: a standby names the leader as the controller, at the address that the
// leader has registered, which may be another one than that of its listener.
func TestTheControllerIsTheLeader(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	c.mu.Lock()
	c.mates[0].reg.Kafka = "kafka.example.com:1234"
	c.mu.Unlock()
	raw := dial(t, c.mates[1].served)
	meta := raw.ask(kmsg.NewPtrMetadataRequest(), 9).(*kmsg.MetadataResponse)
	if b := meta.Brokers[0]; meta.ControllerID != 100 || b.NodeID != 100 || b.Host != "kafka.example.com" || b.Port != 1234 {
		t.Errorf("%+v", meta)
	}
	cluster := raw.ask(kmsg.NewPtrDescribeClusterRequest(), 0).(*kmsg.DescribeClusterResponse)
	if b := cluster.Brokers[0]; cluster.ControllerID != 100 || b.NodeID != 100 || b.Host != "kafka.example.com" || b.Port != 1234 {
		t.Errorf("%+v", cluster)
	}
}
