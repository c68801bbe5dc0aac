package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/kafka/conn"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Metadata (3), v0 to v13: the topics and where to find them, by name or id. The one broker leads every partition and is the
// controller; its address is what is advertised. Topics that are not there are made if the client and the broker allow it. A topic
// for whose partitions there is no memory is LEADER_NOT_AVAILABLE. No racks. Authorized operations are all that there are.
var metadataAPI = api{
	key: kmsg.Metadata, min: 0, max: 13,
	shape: conn.Shape{Flexible: 9, Fields: []conn.Field{
		conn.Array(conn.UUID.Since(10), conn.Text), conn.Bool.Since(4), conn.Bool.Since(8).Until(10), conn.Bool.Since(8),
	}},
	begin: serving((*call).metadata),
}

// freshWait bounds the confirmation of a read-only broker. Clients ask for metadata again, so an older answer is better than none.
const freshWait = 5 * time.Second

// confirm makes a read-only broker read the log up to its end, so that topics created up to a second ago are in the answer. If the
// store does not confirm in time, the answer is what the broker knows: its log has the error.
func (c *call) confirm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	_ = c.b.Fresh(ctx)
}

func (c *call) metadata(ctx context.Context, r *kmsg.MetadataRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrMetadataResponse()
	h := c.host()
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = nodeID, h.host, h.port
	resp.Brokers, resp.ControllerID = []kmsg.MetadataResponseBroker{b}, nodeID
	cluster := c.b.Cluster().String()
	resp.ClusterID = &cluster
	if r.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	c.confirm(ctx)
	var found []broker.TopicRef
	if r.Topics == nil || c.version == 0 && len(r.Topics) == 0 {
		found = c.b.TopicRefs()
	}
	ctx, cancel := context.WithTimeout(ctx, commitTime) // for all topics that are made
	defer cancel()
	create := r.AllowAutoTopicCreation || c.version < 4
	seen := map[string]bool{} // a name that comes again would be answered again, with all its partitions
	ids := map[record.ID]bool{}
	for i := range r.Topics {
		t := &r.Topics[i]
		switch {
		case t.Topic == nil || t.TopicID != record.ID{}: // the Java client sends an empty name beside an id
			if ids[t.TopicID] {
				continue
			}
			ids[t.TopicID] = true
			ref, ok := c.b.TopicOf(t.TopicID)
			if ok {
				found = append(found, ref)
				continue
			}
			m := kmsg.NewMetadataResponseTopic()
			m.ErrorCode, m.TopicID = kerr.UnknownTopicID.Code, t.TopicID
			resp.Topics = append(resp.Topics, m)
		case !seen[*t.Topic]:
			seen[*t.Topic] = true
			ref, code := c.named(ctx, *t.Topic, create)
			if code == none {
				found = append(found, ref)
				continue
			}
			m := kmsg.NewMetadataResponseTopic()
			m.ErrorCode, m.Topic = code, t.Topic
			resp.Topics = append(resp.Topics, m)
		}
	}
	for i := range found {
		ref := &found[i]
		if c.chargeTopics(found[i:i+1]) == nil {
			t := c.describeTopic(ref)
			if r.IncludeTopicAuthorizedOperations {
				t.AuthorizedOperations = topicOperations
			}
			resp.Topics = append(resp.Topics, t)
			continue
		}
		if err := c.frame.Charge(partitionBytes); err != nil {
			return nil, err
		}
		m := kmsg.NewMetadataResponseTopic() // its name is there; the partitions come when it is asked for by itself
		m.ErrorCode, m.Topic, m.TopicID = kerr.LeaderNotAvailable.Code, &ref.Name, ref.ID
		resp.Topics = append(resp.Topics, m)
	}
	return resp, nil
}

// What a client with the API key may do, as bits of ACL operations: everything that Kafka has for topics and for the cluster.
const (
	topicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// named finds a topic, and makes it if it may be made.
func (c *call) named(ctx context.Context, name string, create bool) (broker.TopicRef, int16) {
	ref, ok := c.b.TopicNamed(name)
	if !ok && create {
		switch code := topicCode(c.b.EnsureTopic(ctx, name)); code {
		case none:
			ref, ok = c.b.TopicNamed(name)
		case kerr.InvalidTopicException.Code:
			return ref, code
		case kerr.UnknownTopicOrPartition.Code:
		default:
			return ref, kerr.LeaderNotAvailable.Code // try again
		}
	}
	switch {
	case ok:
		return ref, none
	case state.CheckTopicName(name) != nil:
		return ref, kerr.InvalidTopicException.Code
	}
	return ref, kerr.UnknownTopicOrPartition.Code
}

// partitionBytes is what an answer takes for a partition, decoded and encoded.
const partitionBytes = 256

// chargeTopics reserves memory for an answer about topics, which has little to do with how long the request is.
func (c *call) chargeTopics(found []broker.TopicRef) error {
	n := int64(0)
	for i := range found {
		n += int64(found[i].Partitions+1) * partitionBytes
	}
	return c.frame.Charge(n)
}

func (c *call) describeTopic(ref *broker.TopicRef) kmsg.MetadataResponseTopic {
	m := kmsg.NewMetadataResponseTopic()
	m.Topic, m.TopicID = &ref.Name, ref.ID
	m.Partitions = make([]kmsg.MetadataResponseTopicPartition, ref.Partitions)
	epoch, all := int32(c.b.Epoch()), []int32{nodeID}
	for i := range m.Partitions {
		p := &m.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), nodeID, epoch
		p.Replicas, p.ISR = all, all
	}
	return m
}
