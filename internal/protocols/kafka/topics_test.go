package kafka_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func str(s string) *string { return &s }

// TestAdmin: kadm creates, describes, grows, trims and deletes topics, and finds offsets.
func TestAdmin(t *testing.T) {
	s := memory(t)
	a, ctx := admin(t, s), t.Context()
	made, err := a.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": str("86400000"), "segment.bytes": str("1048576"), "cleanup.policy": str("delete,compact")}, "t")
	if err != nil || made.NumPartitions != 3 || made.ReplicationFactor != 1 || *made.Configs["retention.ms"].Value != "86400000" {
		t.Fatalf("%+v %v", made, err)
	}
	check.ErrorIsf(t, check.Err(a.CreateTopic(ctx, 1, 1, nil, "t")), kerr.TopicAlreadyExists, "again")
	for name, want := range map[string]error{"with space": kerr.InvalidTopicException, "..": kerr.InvalidTopicException} {
		check.ErrorIsf(t, check.Err(a.CreateTopic(ctx, 1, 1, nil, name)), want, "%q", name)
	}
	for config, value := range map[string]string{"no.such": "1", "retention.ms": "x", "compression.type": "brotli"} {
		check.ErrorIsf(t, check.Err(a.CreateTopic(ctx, 1, 1, map[string]*string{config: &value}, "u")), kerr.InvalidConfig, "%s=%s", config, value)
	}
	check.ErrorIsf(t, check.Err(a.CreateTopic(ctx, 0, 1, nil, "u")), kerr.InvalidPartitions, "no partitions")
	if got, err := a.ValidateCreateTopics(ctx, 2, 1, nil, "dry", "t"); err != nil || got["dry"].Err != nil || !errors.Is(got["t"].Err, kerr.TopicAlreadyExists) {
		t.Errorf("%+v %v", got, err)
	}
	meta, err := a.Metadata(ctx)
	if err != nil || len(meta.Topics) != 1 || len(meta.Topics["t"].Partitions) != 3 || len(meta.Brokers) != 1 || meta.Controller != 1 || meta.Cluster != s.b.Cluster().String() {
		t.Errorf("%+v %v", meta, err)
	}
	configs, err := a.DescribeTopicConfigs(ctx, "t")
	if err != nil || len(configs) != 1 || len(configs[0].Configs) != 10 {
		t.Fatalf("%+v %v", configs, err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "cleanup.policy" && (c.MaybeValue() != "compact,delete" || c.Source != kmsg.ConfigSourceDynamicTopicConfig) ||
			c.Key == "max.message.bytes" && (c.MaybeValue() != "1048588" || c.Source != kmsg.ConfigSourceDefaultConfig) {
			t.Errorf("%+v", c)
		}
	}
	if got, err := a.UpdatePartitions(ctx, 5, "t"); err != nil || !errors.Is(got["t"].Err, kerr.InvalidPartitions) {
		t.Errorf("a compacted topic grows: %+v %v", got, err)
	}
	if got, err := a.ValidateUpdatePartitions(ctx, 5, "t"); err != nil || !errors.Is(got["t"].Err, kerr.InvalidPartitions) {
		t.Errorf("a compacted topic would grow: %+v %v", got, err)
	}
	must.Get(a.CreateTopic(ctx, -1, -1, nil, "u"))(t)
	if got, err := a.ValidateUpdatePartitions(ctx, 3, "u"); err != nil || got["u"].Err != nil {
		t.Errorf("would grow: %+v %v", got, err)
	}
	if n, err := s.b.Partitions("u"); n != 1 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
	if got, err := a.CreatePartitions(ctx, 2, "u"); err != nil || got["u"].Err != nil {
		t.Errorf("grow: %+v %v", got, err)
	}
	if n, err := s.b.Partitions("u"); n != 3 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
	if got, err := a.DeleteTopics(ctx, "t", "no"); err != nil || got["t"].Err != nil || !errors.Is(got["no"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("delete: %+v %v", got, err)
	}
	check.Equalf(t, len(s.b.Topics(ctx)), 1, "the deleted topic still exists")
}

// TestOffsetsByTime: start, end, by timestamp and the largest timestamp, over several objects with
// times out of order, before and after a trim.
func TestOffsetsByTime(t *testing.T) {
	for name, open := range map[string]func() objstore.Store{
		"memory": func() objstore.Store { return objstore.NewMemory() },
		"disk": func() objstore.Store {
			d := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
			t.Cleanup(func() { d.Close() })
			return d
		},
	} {
		t.Run(name, func(t *testing.T) { offsetsByTime(t, serve(t, openBroker(t, open(), nil), kafka.Options{})) })
	}
}

func offsetsByTime(t *testing.T, s *served) {
	a, ctx := admin(t, s), t.Context()
	topic(t, s.b, "t", broker.TopicSpec{})
	p := client(t, s, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	times := []int64{100, 300, 200, 250, 900, 50, 900, 400}
	for i := 0; i < len(times); i += 2 { // two records an object
		must.NoError(t, p.ProduceSync(ctx, &kgo.Record{Topic: "t", Timestamp: time.UnixMilli(times[i])}, &kgo.Record{Topic: "t", Timestamp: time.UnixMilli(times[i+1])}).FirstErr())
	}
	verify := func(start int64) {
		t.Helper()
		for at := int64(0); at <= 1000; at += 50 {
			want := int64(len(times))
			for o := len(times) - 1; o >= int(start); o-- {
				if times[o] >= at {
					want = int64(o)
				}
			}
			got, err := a.ListOffsetsAfterMilli(ctx, at, "t")
			if o, _ := got.Lookup("t", 0); err != nil || o.Offset != want {
				t.Errorf("at %d: %+v %v, want %d", at, o, err, want)
			}
		}
		first, err := a.ListStartOffsets(ctx, "t")
		last, err2 := a.ListEndOffsets(ctx, "t")
		most, err3 := a.ListMaxTimestampOffsets(ctx, "t")
		f, _ := first.Lookup("t", 0)
		l, _ := last.Lookup("t", 0)
		m, _ := most.Lookup("t", 0)
		if err := errors.Join(err, err2, err3); err != nil || f.Offset != start || l.Offset != 8 || l.LeaderEpoch != int32(s.b.Epoch()) {
			t.Errorf("%+v %+v %v", f, l, err)
		}
		if want := max(4, start); m.Offset != want && start != 5 || m.Timestamp != 900 {
			t.Errorf("largest: %+v, want %d", m, want)
		}
	}
	verify(0)
	var trim kadm.Offsets
	trim.Add(kadm.Offset{Topic: "t", At: 5})
	if got, err := a.DeleteRecords(ctx, trim); err != nil || got["t"][0].LowWatermark != 5 {
		t.Errorf("%+v %v", got, err)
	}
	verify(5)
}

// TestEpochs: the end of a leader epoch is known after a restart, and requests with an old epoch
// are refused.
func TestEpochs(t *testing.T) {
	t.Parallel()
	mem := objstore.NewMemory()
	b := openBroker(t, mem, nil)
	s := serve(t, b, kafka.Options{})
	ref := topic(t, b, "t", broker.TopicSpec{})
	store(t, s, ref, 0, batch(t, nil, "a"), batch(t, nil, "b"))
	before := int32(b.Epoch())
	must.NoError(t, b.Close(t.Context()))
	s = serve(t, openBroker(t, mem, nil), kafka.Options{})
	store(t, s, ref, 0, batch(t, nil, "c"))
	c := dial(t, s)
	now := int32(s.b.Epoch())
	for _, f := range []struct {
		current, ask int32
		code         int16
		epoch        int32
		end          int64
	}{{-1, before, 0, before, 2}, {now, now, 0, now, 3}, {before, before, 74, -1, -1}, {now + 1, before, 75, -1, -1}, {-1, now + 5, 0, -1, -1}, {-1, -1, 0, -1, -1}} {
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LeaderEpoch = f.current, f.ask
		top := kmsg.NewOffsetForLeaderEpochRequestTopic()
		top.Topic, top.Partitions = "t", []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}
		r := kmsg.NewPtrOffsetForLeaderEpochRequest()
		r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{top}
		for version := int16(2); version <= 4; version++ {
			got := c.ask(r, version).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			if got.ErrorCode != f.code || got.LeaderEpoch != f.epoch || got.EndOffset != f.end {
				t.Errorf("v%d %+v: %+v", version, f, got)
			}
		}
	}
}

// TestMetadata: in every version all topics, none, by name, by ID, and created on demand. A name
// that is repeated a thousand times is answered once.
func TestMetadata(t *testing.T) {
	s := serve(t, openBroker(t, objstore.NewMemory(), nil), kafka.Options{Advertised: "broker.example:4711"})
	ref := topic(t, s.b, "t", broker.TopicSpec{Partitions: 2})
	topic(t, s.b, "u", broker.TopicSpec{})
	c := dial(t, s)
	for version := int16(0); version <= 13; version++ {
		ask := func(create bool, names ...string) *kmsg.MetadataResponse {
			r := kmsg.NewPtrMetadataRequest()
			r.AllowAutoTopicCreation = create
			if names != nil {
				r.Topics = []kmsg.MetadataRequestTopic{}
			}
			for _, n := range names {
				top := kmsg.NewMetadataRequestTopic()
				top.Topic = &n
				r.Topics = append(r.Topics, top)
			}
			return c.ask(r, version).(*kmsg.MetadataResponse)
		}
		all := ask(false)
		if len(all.Brokers) != 1 || all.Brokers[0].Host != "broker.example" || all.Brokers[0].Port != 4711 || version >= 1 && all.ControllerID != 1 {
			t.Fatalf("v%d: %+v", version, all)
		}
		partitions := 0
		for i := range all.Topics {
			partitions += len(all.Topics[i].Partitions)
		}
		if len(all.Topics) != len(s.b.Topics(t.Context())) || partitions != len(all.Topics)+1 {
			t.Fatalf("v%d: %+v", version, all.Topics)
		}
		if none := ask(false, []string{}...); len(none.Topics) != 0 && version >= 1 || len(none.Topics) != len(all.Topics) && version == 0 {
			t.Fatalf("v%d: %+v", version, none.Topics)
		}
		names := make([]string, 1000)
		for i := range names {
			names[i] = "t"
		}
		one := ask(false, names...)
		if len(one.Topics) != 1 || len(one.Topics[0].Partitions) != 2 || version >= 10 && one.Topics[0].TopicID != ref.ID {
			t.Fatalf("v%d: %+v", version, one.Topics)
		}
		for _, p := range one.Topics[0].Partitions {
			if p.Leader != 1 || len(p.Replicas) != 1 || len(p.ISR) != 1 || version >= 7 && p.LeaderEpoch != int32(s.b.Epoch()) {
				t.Fatalf("v%d: %+v", version, p)
			}
		}
		name := fmt.Sprintf("made-%d", version)
		if got := ask(false, name).Topics[0]; version >= 4 && got.ErrorCode != 3 {
			t.Errorf("v%d: %+v", version, got)
		}
		if got := ask(true, name).Topics[0]; got.ErrorCode != 0 || len(got.Partitions) != 1 {
			t.Errorf("v%d: %+v", version, got)
		}
		if got := ask(true, "no good").Topics[0]; got.ErrorCode != 17 {
			t.Errorf("v%d: %+v", version, got)
		}
	}
	r := kmsg.NewPtrMetadataRequest()
	r.Topics = make([]kmsg.MetadataRequestTopic, 2)
	r.Topics[0].TopicID, r.Topics[1].TopicID = ref.ID, [16]byte{1}
	if got := c.ask(r, 12).(*kmsg.MetadataResponse).Topics; len(got) != 2 || got[0].ErrorCode != 100 || *got[1].Topic != "t" {
		t.Errorf("%+v", got)
	}
	// The Java client sends an empty name with each ID.
	r.Topics[0].Topic, r.Topics[1].Topic = str(""), str("")
	if got := c.ask(r, 13).(*kmsg.MetadataResponse).Topics; len(got) != 2 || got[0].ErrorCode != 100 || got[0].Topic != nil || *got[1].Topic != "t" {
		t.Errorf("with empty names: %+v", got)
	}
}

// TestDescribeCluster: every version; requests for controllers are refused.
func TestDescribeCluster(t *testing.T) {
	s := memory(t)
	c := dial(t, s)
	for version := range int16(3) {
		got := c.ask(kmsg.NewPtrDescribeClusterRequest(), version).(*kmsg.DescribeClusterResponse)
		if got.ErrorCode != 0 || got.ClusterID != s.b.Cluster().String() || got.ControllerID != 1 || len(got.Brokers) != 1 || got.Brokers[0].Host != "127.0.0.1" {
			t.Errorf("v%d: %+v", version, got)
		}
	}
	r := kmsg.NewPtrDescribeClusterRequest()
	r.EndpointType = 2
	if got := c.ask(r, 1).(*kmsg.DescribeClusterResponse); got.ErrorCode == 0 {
		t.Errorf("%+v", got)
	}
}
