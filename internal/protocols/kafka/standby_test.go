package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestBootstrapAtAStandby: clients that know only a standby produce and consume, alone and as
// members of a group.
func TestBootstrapAtAStandby(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 3)
	leader, standby := c.mates[0], c.mates[1]
	topic(t, leader.b, "t", broker.TopicSpec{Partitions: 2})
	p := client(t, standby.served, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 4 {
		r := &kgo.Record{Topic: "t", Partition: int32(i % 2), Value: strconv.AppendInt(nil, int64(i), 10)}
		must.NoError(t, p.ProduceSync(t.Context(), r).FirstErr())
	}
	check.Equalf(t, len(consume(t, client(t, standby.served, kgo.ConsumeTopics("t")), 4)), 4, "records")
	member := client(t, standby.served, kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"))
	consume(t, member, 4)
	must.NoError(t, member.CommitUncommittedOffsets(t.Context()))
	a := admin(t, standby.served)
	if listed, err := a.ListGroups(t.Context()); err != nil || !slices.Equal(listed.Groups(), []string{"g"}) {
		t.Errorf("groups %v, %v", listed, err)
	}
	if offsets, err := a.FetchOffsets(t.Context(), "g"); err != nil || len(offsets["t"]) != 2 || offsets["t"][0].At != 2 {
		t.Errorf("offsets %v, %v", offsets, err)
	}
	if ends, err := a.ListEndOffsets(t.Context(), "t"); err != nil || ends["t"][1].Offset != 2 {
		t.Errorf("end offsets %v, %v", ends, err)
	}
}

// TestBrokersOfACluster: each broker names the same brokers, leader and replicas.
func TestBrokersOfACluster(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 3)
	topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	c.lead(c.mates[1])
	if err := c.mates[0].b.EnsureTopic(t.Context(), "u"); err == nil { // it learns that it was deposed
		t.Fatal("a deposed leader created a topic")
	}
	for i, m := range c.mates {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			raw := dial(t, m.served)
			meta := raw.ask(kmsg.NewPtrMetadataRequest(), 1).(*kmsg.MetadataResponse)
			if len(meta.Brokers) != 3 || meta.ControllerID != 101 || meta.Brokers[0].NodeID != 100 || meta.Brokers[2].NodeID != 102 {
				t.Fatalf("%+v", meta)
			}
			for j, b := range meta.Brokers {
				check.Equalf(t, fmt.Sprintf("%s:%d", b.Host, b.Port), c.mates[j].addr, "broker %d at", j)
			}
			p := meta.Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.Leader != 101 || !slices.Equal(p.Replicas, []int32{101, 100, 102}) || !slices.Equal(p.ISR, []int32{100, 101, 102}) {
				t.Errorf("partition %+v", p)
			}
			cluster := raw.ask(kmsg.NewPtrDescribeClusterRequest(), 0).(*kmsg.DescribeClusterResponse)
			if len(cluster.Brokers) != 3 || cluster.ControllerID != 101 || cluster.Brokers[1].NodeID != 101 {
				t.Errorf("%+v", cluster)
			}
			ask := kmsg.NewPtrDescribeTopicPartitionsRequest()
			ask.ResponsePartitionLimit = 10
			pages := raw.ask(ask, 0).(*kmsg.DescribeTopicPartitionsResponse)
			if p := pages.Topics[0].Partitions[0]; p.LeaderID != 101 || p.LeaderEpoch != 2 || len(p.Replicas) != 3 || len(p.ISR) != 3 {
				t.Errorf("%+v", p)
			}
			find := kmsg.NewPtrFindCoordinatorRequest()
			find.CoordinatorKey = "g"
			if got := raw.ask(find, 3).(*kmsg.FindCoordinatorResponse); got.ErrorCode != 0 || got.NodeID != 101 || fmt.Sprintf("%s:%d", got.Host, got.Port) != c.mates[1].addr {
				t.Errorf("%+v", got)
			}
			list := raw.ask(kmsg.NewPtrListConfigResourcesRequest(), 1).(*kmsg.ListConfigResourcesResponse)
			var brokers []string
			for _, r := range list.ConfigResources {
				if kmsg.ConfigResourceType(r.Type) == kmsg.ConfigResourceTypeBroker {
					brokers = append(brokers, r.Name)
				}
			}
			check.EqualSlicesf(t, brokers, []string{"100", "101", "102"}, "brokers with configs")
		})
	}
}

// TestNoLeader: without a leader a standby names itself and no leader, and clients wait.
func TestNoLeader(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	ref := topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	c.cutLinks(true)
	raw := dial(t, c.mates[1].served)
	meta := raw.ask(kmsg.NewPtrMetadataRequest(), 5).(*kmsg.MetadataResponse)
	if len(meta.Brokers) != 1 || meta.Brokers[0].NodeID != 101 || meta.ControllerID != -1 {
		t.Fatalf("%+v", meta)
	}
	p := meta.Topics[0].Partitions[0]
	if p.ErrorCode != 5 || p.Leader != -1 || !slices.Equal(p.Replicas, []int32{100, 101}) || !slices.Equal(p.OfflineReplicas, []int32{100}) {
		t.Errorf("%+v", p)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	if got := raw.ask(find, 3).(*kmsg.FindCoordinatorResponse); got.ErrorCode != 15 || got.NodeID != -1 {
		t.Errorf("%+v", got)
	}
	if p := produced(raw.ask(produceRequest(ref, -1, batch(t, nil, "v")), 10)); p.ErrorCode != 6 || p.CurrentLeader.LeaderID != -1 {
		t.Errorf("%+v", p)
	}
}

// TestALostBrokerIsNamedForAWhile: librdkafka waits if the leader that it knows is not named together with
// the next one.
func TestALostBrokerIsNamedForAWhile(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 3)
	topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	c.lead(c.mates[1])
	raw := dial(t, c.mates[1].served)
	c.silence = time.Second
	c.cutLinks(true)
	for _, offline := range [][]int32{{100, 102}, nil} {
		meta := raw.ask(kmsg.NewPtrMetadataRequest(), 5).(*kmsg.MetadataResponse)
		p := meta.Topics[0].Partitions[0]
		if len(meta.Brokers) != 3 || p.Leader != 101 || !slices.Equal(p.ISR, []int32{101}) || !slices.Equal(p.OfflineReplicas, offline) {
			t.Errorf("%+v", meta)
		}
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
	}
}

// TestMetadataWaitsForALeader: clients ask for metadata as soon as the leader has died. A standby whose
// link to it has ended does not name it any more.
func TestMetadataWaitsForALeader(t *testing.T) {
	t.Parallel()
	for _, end := range []func(*crew){(*crew).endLinks, func(c *crew) { c.cutLinks(true) }} {
		c := newCrew(t, objstore.NewMemory(), 3, func(o *kafka.Options) { o.LeaderWait = time.Minute })
		topic(t, c.mates[0].b, "t", broker.TopicSpec{})
		standby := c.mates[1]
		raw := dial(t, standby.served)
		end(c)
		answered := make(chan *kmsg.MetadataResponse, 1)
		before := standby.asks.Load()
		go func() { answered <- raw.ask(kmsg.NewPtrMetadataRequest(), 5).(*kmsg.MetadataResponse) }()
		sebtest.Eventually(t, "the request waits, or is answered", func() bool {
			return standby.asks.Load() > before+3 || len(answered) > 0
		})
		if len(answered) > 0 {
			t.Fatalf("an answer without a leader: %+v", <-answered)
		}
		c.lead(standby)
		if meta := <-answered; meta.ControllerID != 101 || meta.Topics[0].Partitions[0].Leader != 101 {
			t.Errorf("%+v", meta)
		}
	}
}

// TestProduceAtAStandby: from v10 on the answer names the leader and its address, also for a topic
// that the standby does not know yet.
func TestProduceAtAStandby(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	ref := topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	raw := dial(t, c.mates[1].served)
	for _, version := range []int16{3, 9, 10, 13} {
		resp := raw.ask(produceRequest(ref, -1, batch(t, nil, "v")), version).(*kmsg.ProduceResponse)
		p := produced(resp)
		if p.ErrorCode != 6 || p.BaseOffset != -1 {
			t.Errorf("v%d: %+v", version, p)
		}
		if version >= 10 && (p.CurrentLeader.LeaderID != 100 || p.CurrentLeader.LeaderEpoch != 1 || len(resp.Brokers) != 1 ||
			resp.Brokers[0].NodeID != 100 || fmt.Sprintf("%s:%d", resp.Brokers[0].Host, resp.Brokers[0].Port) != c.mates[0].addr) {
			t.Errorf("v%d: leader %+v at %+v", version, p.CurrentLeader, resp.Brokers)
		}
	}
	raw.send(produceRequest(ref, 0, batch(t, nil, "v")), 9)
	raw.ended()
}

// TestProduceWaitsAtADeposedLeader: a produce that waits while another broker takes over is refused,
// and the answer names the new leader.
func TestProduceWaitsAtADeposedLeader(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	ref := topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	raw := dial(t, c.mates[0].served)
	c.lead(c.mates[1])
	for {
		resp := raw.ask(produceRequest(ref, -1, batch(t, nil, "v")), 10).(*kmsg.ProduceResponse)
		p := produced(resp)
		if p.ErrorCode == 7 { // it was sent before the broker found the SEAL: its outcome is unknown (rule R6)
			continue
		}
		if p.ErrorCode != 6 || p.CurrentLeader.LeaderID != 101 || p.CurrentLeader.LeaderEpoch != 2 || len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 101 {
			t.Errorf("%+v, %+v", p, resp.Brokers)
		}
		return
	}
}

// TestFetchAtAStandby: a standby serves its committed prefix. An offset above its end waits for the
// record, and is never out of range.
func TestFetchAtAStandby(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	leader, standby := c.mates[0], c.mates[1]
	ref := topic(t, leader.b, "t", broker.TopicSpec{})
	one, two, three := batch(t, nil, "1"), batch(t, nil, "2"), batch(t, nil, "3")
	store(t, leader.served, ref, 0, one, two)
	must.Get(leader.b.Trim(t.Context(), "t", 0, 1))(t)
	must.NoError(t, standby.b.Confirm(t.Context()))
	raw := dial(t, standby.served)
	for _, version := range []int16{4, 10, 11, 15, 16, 18} {
		p := fetched(raw.ask(fetchRequest(ref, 1), version))
		if version < 11 {
			check.Equalf(t, p.ErrorCode, 6, "v%d: %+v", version, p)
			continue
		}
		if p.ErrorCode != 0 || p.HighWatermark != 2 || len(p.RecordBatches) != len(two) {
			t.Errorf("v%d: %+v", version, p)
		}
		if p := fetched(raw.ask(fetchRequest(ref, 7), version)); p.ErrorCode != 0 || p.HighWatermark != 2 || len(p.RecordBatches) != 0 {
			t.Errorf("v%d above the end: %+v", version, p)
		}
		if p := fetched(raw.ask(fetchRequest(ref, 0), version)); p.ErrorCode != 1 || p.HighWatermark != -1 {
			t.Errorf("v%d below the start: %+v", version, p)
		}
	}
	r := fetchRequest(ref, 3)
	r.MinBytes, r.MaxWaitMillis = 1, 50_000
	raw.send(r, 11)
	standby.asked(t, "Fetch", 1)
	four := batch(t, nil, "4")
	store(t, leader.served, ref, 0, three, four) // the standby did not have offset 2 when the client had 3
	if p := fetched(raw.receive(r, 11, raw.last)); p.ErrorCode != 0 || len(p.RecordBatches) != len(four) || p.HighWatermark != 4 {
		t.Errorf("above the end: %+v", p)
	}
}

// broken is a store that answers no GET and no LIST while it is down.
type broken struct {
	objstore.Store
	down atomic.Bool
}

var errDown = errors.New("store is down")

func (s *broken) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if s.down.Load() {
		return objstore.Object{}, errDown
	}
	return s.Store.Get(ctx, key, r)
}

func (s *broken) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	if s.down.Load() {
		return nil, false, errDown
	}
	return s.Store.List(ctx, o)
}

// TestStaleStandby: a standby that knows neither from its leader nor from the store how old its state
// is serves no records. It reads the store when it has no link.
func TestStaleStandby(t *testing.T) {
	t.Parallel() // it waits for the age
	bucket := &broken{Store: objstore.NewMemory()}
	c := newCrew(t, bucket, 2)
	ref := topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	raw := dial(t, c.mates[1].served)
	must.NoError(t, c.mates[1].b.Fresh(t.Context()))
	c.cutLinks(true)
	bucket.down.Store(true)
	ask := func() int16 { return fetched(raw.ask(fetchRequest(ref, 0), 11)).ErrorCode }
	check.Equalf(t, ask(), 0, "after it has read the log")
	sebtest.Eventually(t, "NOT_LEADER_OR_FOLLOWER without a link and a store", func() bool { return ask() == 6 })
	bucket.down.Store(false)
	sebtest.Eventually(t, "records without a link", func() bool { return ask() == 0 })
}

// TestFetchBeyondTheEndOfAReadOnlyBroker: a read-only broker that is behind reads the log before it
// answers that an offset is out of range.
func TestFetchBeyondTheEndOfAReadOnlyBroker(t *testing.T) {
	bucket := objstore.NewMemory()
	leader := memoryOn(t, bucket, nil)
	ref := topic(t, leader.b, "t", broker.TopicSpec{})
	follower := memoryOn(t, bucket, func(o *broker.Options) { o.Core.ReadOnly = true })
	store(t, leader, ref, 0, batch(t, nil, "1"), batch(t, nil, "2"))
	raw := dial(t, follower)
	if p := fetched(raw.ask(fetchRequest(ref, 2), 11)); p.ErrorCode != 0 || p.HighWatermark != 2 {
		t.Errorf("at the end of the log: %+v", p)
	}
	if p := fetched(raw.ask(fetchRequest(ref, 3), 11)); p.ErrorCode != 1 {
		t.Errorf("above the end of the log: %+v", p)
	}
}

// TestTakeoversOfStandbys: while an idempotent producer and a consumer run, standbys take over.
func TestTakeoversOfStandbys(t *testing.T) {
	t.Parallel()
	c := newCrew(t, objstore.NewMemory(), 3)
	topic(t, c.mates[0].b, "t", broker.TopicSpec{Partitions: 2})
	opts := []kgo.Opt{kgo.RetryTimeout(time.Minute), kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }), kgo.RequestRetries(1000)}
	p := client(t, c.mates[2].served, append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2<<10), kgo.MaxBufferedRecords(200))...)
	reader := client(t, c.mates[1].served, append(opts, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	throughTakeovers(t, p, reader, 1000, func(i int) { c.lead(c.mates[(i+1)%3]) })
}

// TestALeaderThatIsNoMore: a client has read from the next leader, and asks the earlier one, which does
// not know yet that it leads no more. Neither its offset nor its leader epoch is refused for good: the
// client would start from the beginning.
func TestALeaderThatIsNoMore(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	ref := topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	for i, ask := range []func(*raw, int32) int16{
		func(raw *raw, epoch int32) int16 {
			r := kmsg.NewPtrOffsetForLeaderEpochRequest()
			r.ReplicaID = -1
			top := kmsg.NewOffsetForLeaderEpochRequestTopic()
			top.Topic = "t"
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.CurrentLeaderEpoch, p.LeaderEpoch = -1, epoch
			top.Partitions = append(top.Partitions, p)
			r.Topics = append(r.Topics, top)
			got := raw.ask(r, 4).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			if got.ErrorCode == 0 && got.EndOffset < 0 {
				return -1 // the epoch does not exist
			}
			return got.ErrorCode
		},
		func(raw *raw, _ int32) int16 { return fetched(raw.ask(fetchRequest(ref, 2), 11)).ErrorCode },
	} {
		earlier, next := c.mates[i%2], c.mates[(i+1)%2]
		raw := dial(t, earlier.served)
		c.lead(next)
		store(t, next.served, ref, 0, batch(t, nil, "1"))
		if code := ask(raw, int32(next.b.Epoch())); code != 6 && code != 0 {
			t.Errorf("request %d: %d, want NOT_LEADER_OR_FOLLOWER or no error", i, code)
		}
	}
}

// TestFetchNamesTheLeader: a client with an old leader epoch gets the leader and its address from a
// standby, from v16 on.
func TestFetchNamesTheLeader(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 3)
	ref := topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	c.lead(c.mates[1])
	must.NoError(t, c.mates[2].b.Confirm(t.Context()))
	raw := dial(t, c.mates[2].served)
	for _, version := range []int16{15, 16, 18} {
		r := fetchRequest(ref, 0)
		r.Topics[0].Partitions[0].CurrentLeaderEpoch = 1
		more := r.Topics[0].Partitions[0]
		more.CurrentLeaderEpoch = -1
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, more)
		resp := raw.ask(r, version).(*kmsg.FetchResponse)
		old, current := resp.Topics[0].Partitions[0], resp.Topics[0].Partitions[1]
		if old.ErrorCode != 6 || current.ErrorCode != 0 || current.CurrentLeader.LeaderID != -1 || current.HighWatermark != 0 {
			t.Fatalf("v%d: %+v, %+v", version, old, current)
		}
		if version < 16 {
			if old.CurrentLeader.LeaderID != -1 || len(resp.Brokers) != 0 {
				t.Errorf("v%d: %+v", version, resp)
			}
			continue
		}
		if old.CurrentLeader.LeaderID != 101 || old.CurrentLeader.LeaderEpoch != 2 || len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 101 ||
			resp.Brokers[0].Rack != nil || fmt.Sprintf("%s:%d", resp.Brokers[0].Host, resp.Brokers[0].Port) != c.mates[1].addr {
			t.Errorf("v%d: %+v, %+v", version, old, resp.Brokers)
		}
	}
}

// TestAReadOnlyBrokerServesAlone: a read-only broker of a cluster names only itself, and serves any
// version of Fetch; the others do not name it.
func TestAReadOnlyBrokerServesAlone(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	ref := topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	store(t, c.mates[0].served, ref, 0, batch(t, nil, "1"))
	reader := c.add(func(o *broker.Options) { o.Core.ReadOnly = true })
	for i, m := range []*mate{c.mates[1], reader} {
		meta := dial(t, m.served).ask(kmsg.NewPtrMetadataRequest(), 1).(*kmsg.MetadataResponse)
		var ids []int32
		for _, b := range meta.Brokers {
			ids = append(ids, b.NodeID)
		}
		want, leader := [][]int32{{100, 101}, {102}}[i], []int32{100, 102}[i]
		if p := meta.Topics[0].Partitions[0]; !slices.Equal(ids, want) || meta.ControllerID != leader || p.Leader != leader || !slices.Equal(p.ISR, want) {
			t.Errorf("%+v", meta)
		}
	}
	raw := dial(t, reader.served)
	if p := fetched(raw.ask(fetchRequest(ref, 0), 4)); p.ErrorCode != 0 || p.HighWatermark != 1 {
		t.Errorf("%+v", p)
	}
	if p := produced(raw.ask(produceRequest(ref, -1, batch(t, nil, "v")), 10)); p.ErrorCode != 6 || p.CurrentLeader.LeaderID != -1 {
		t.Errorf("%+v", p)
	}
}

// TestListOffsetsAtAStandby: a standby waits for what its leader is known to have committed before it
// answers with its end offset, and knows no end of a leader epoch.
func TestListOffsetsAtAStandby(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	leader, standby := c.mates[0], c.mates[1]
	ref := topic(t, leader.b, "t", broker.TopicSpec{})
	must.NoError(t, standby.b.Confirm(t.Context()))
	store(t, leader.served, ref, 0, batch(t, nil, "1", "2"))
	raw := dial(t, standby.served)
	at := func(times ...int64) *kmsg.ListOffsetsRequest {
		top := kmsg.NewListOffsetsRequestTopic()
		top.Topic = "t"
		for _, at := range times {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Timestamp, p.CurrentLeaderEpoch = at, -1
			top.Partitions = append(top.Partitions, p)
		}
		r := kmsg.NewPtrListOffsetsRequest()
		r.Topics = []kmsg.ListOffsetsRequestTopic{top}
		return r
	}
	end := at(-1)
	raw.send(end, 7)
	standby.asked(t, "ListOffsets", 1)
	if err := standby.b.Confirm(t.Context()); err != nil { // as its leader feeds it
		t.Fatal(err)
	}
	if p := raw.receive(end, 7, raw.last).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != 2 || p.LeaderEpoch != 1 {
		t.Errorf("%+v", p)
	}
	all := raw.ask(at(-2, 1001, -3), 7).(*kmsg.ListOffsetsResponse).Topics[0].Partitions
	for i, want := range []int64{0, 1, 1} {
		if all[i].ErrorCode != 0 || all[i].Offset != want {
			t.Errorf("%+v, want offset %d", all[i], want)
		}
	}
	epoch := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	epoch.CurrentLeaderEpoch, epoch.LeaderEpoch = -1, 1
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{epoch}}}
	if p := raw.ask(r, 4).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]; p.ErrorCode != 6 {
		t.Errorf("%+v", p)
	}
}

// TestGroupsAtAStandby: a standby coordinates no group.
func TestGroupsAtAStandby(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	topic(t, c.mates[0].b, "t", broker.TopicSpec{})
	must.NoError(t, c.mates[1].b.Confirm(t.Context()))
	raw := dial(t, c.mates[1].served)
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Group = "g"
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation, commit.Topics = "g", -1, offsets("t", [16]byte{}, 1)
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.SubscribedTopicNames = "g", "m", []string{"t"}
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"g"}
	for name, code := range map[string]int16{
		"join":         raw.ask(join("", "range"), 5).(*kmsg.JoinGroupResponse).ErrorCode,
		"heartbeat":    raw.ask(beat, 0).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode,
		"offset fetch": raw.ask(fetch, 7).(*kmsg.OffsetFetchResponse).ErrorCode,
		"commit":       raw.ask(commit, 7).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode,
		"delete":       raw.ask(remove, 2).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode,
	} {
		check.Equalf(t, code, 16, "%s: code", name)
	}
	if got := raw.ask(kmsg.NewPtrListGroupsRequest(), 4).(*kmsg.ListGroupsResponse); got.ErrorCode != 0 || len(got.Groups) != 0 {
		t.Errorf("%+v", got)
	}
}
