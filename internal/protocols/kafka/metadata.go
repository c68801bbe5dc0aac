package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
	"github.com/sebbroker/seb/record"
)

// Metadata (3), v0 to v13: topics by name or ID, and their brokers (nodes.go). One broker leads
// every partition and is the controller. The answer waits up to Options.LeaderWait for it. While none
// is known, partitions are LEADER_NOT_AVAILABLE.
// Missing topics are created if client and broker allow it. If there is no memory for a topic's
// partitions, the topic is LEADER_NOT_AVAILABLE. There are no racks. A topic that is created needs
// Create.
var _ = register(api{
	key: kmsg.Metadata, min: 0, max: 13,
	shape: wire.Shape{Flexible: 9, Fields: []wire.Field{
		wire.Array(wire.UUID.Since(10), wire.Text), wire.Bool.Since(4), wire.Bool.Since(8).Until(10), wire.Bool.Since(8),
	}},
	begin: serving((*call).metadata),
})

// freshWait bounds the confirmation of a read-only broker. Clients request metadata again, so an
// older answer is better than none.
const freshWait = 5 * time.Second

// confirm makes a broker that follows read the log up to its end, so that the answer includes topics
// created up to a second ago. A standby that has all that its leader told does not ask the store. If
// the store does not confirm in time, the answer is the broker's current state; the broker logs the
// error.
func (c *call) confirm(ctx context.Context) {
	if c.hasAll() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	_ = c.b.Fresh(ctx)
}

func (c *call) metadata(ctx context.Context, r *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	resp := kmsg.NewPtrMetadataResponse()
	if r.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = c.clusterOperations()
	}
	c.awaitLeader(ctx)
	c.confirm(ctx)
	ns := c.describeNodes(resp)
	var found []broker.TopicRef
	if r.Topics == nil || c.version == 0 && len(r.Topics) == 0 {
		found = c.topicRefs()
	}
	ctx, cancel := context.WithTimeout(ctx, commitTime) // for all topics that are created
	defer cancel()
	create := r.AllowAutoTopicCreation || c.version < 4
	seen := map[string]bool{} // a repeated name is answered once: it may have many partitions
	ids := map[record.ID]bool{}
	for i := range r.Topics {
		t := &r.Topics[i]
		switch {
		case t.Topic == nil || t.TopicID != record.ID{}: // Java sends an empty name with an ID
			if ids[t.TopicID] {
				continue
			}
			ids[t.TopicID] = true
			ref, code := c.topicOf(t.TopicID, access.Describe)
			if code == none {
				found = append(found, ref)
				continue
			}
			m := kmsg.NewMetadataResponseTopic()
			m.ErrorCode, m.TopicID = code, t.TopicID
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
			if r.IncludeTopicAuthorizedOperations && code != kerr.TopicAuthorizationFailed.Code {
				m.AuthorizedOperations = c.operations(access.Topic, *t.Topic)
			}
			resp.Topics = append(resp.Topics, m)
		}
	}
	// First the topics themselves, so that a topic without memory for its partitions can be named.
	if err := c.frame.ChargeWait(ctx, int64(len(found))*c.partitionBytes()); err != nil {
		return nil, err
	}
	for i := range found {
		ref := &found[i]
		if c.frame.Charge(int64(ref.Partitions)*c.partitionBytes()) == nil {
			t := describeTopic(ref, &ns)
			if r.IncludeTopicAuthorizedOperations {
				t.AuthorizedOperations = c.operations(access.Topic, ref.Name)
			}
			resp.Topics = append(resp.Topics, t)
			continue
		}
		m := kmsg.NewMetadataResponseTopic() // the client requests it alone
		m.ErrorCode, m.Topic, m.TopicID = kerr.LeaderNotAvailable.Code, &ref.Name, ref.ID
		resp.Topics = append(resp.Topics, m)
	}
	return resp, nil
}

// describeNodes adds the brokers to an answer, and returns them.
func (c *call) describeNodes(resp *kmsg.MetadataResponse) nodes {
	cluster, ns := c.b.Cluster().String(), c.nodes()
	resp.ClusterID, resp.ControllerID = &cluster, ns.leaderID()
	for _, b := range ns.up {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: b.id, Host: b.host, Port: b.port})
	}
	return ns
}

// named finds a topic, or creates it if that is allowed.
func (c *call) named(ctx context.Context, name string, create bool) (broker.TopicRef, int16) {
	if code := c.denied(access.Describe, access.Topic, name); code != none {
		return broker.TopicRef{}, code
	}
	ref, ok := c.b.TopicNamed(name)
	if !ok && create && c.b.AutoCreates() {
		ctx, code := c.createAs(ctx, name)
		if code != none {
			return ref, code
		}
		if c.standsBy() {
			code = c.createAtLeader(ctx, name)
		} else {
			code = TopicCode(c.b.EnsureTopic(ctx, name))
		}
		switch code {
		case none:
			ref, ok = c.b.TopicNamed(name)
		case kerr.InvalidTopicException.Code:
			return ref, code
		case kerr.UnknownTopicOrPartition.Code:
		default:
			return ref, kerr.LeaderNotAvailable.Code // the client retries
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

// partitionBytes is the memory of a partition in an answer, decoded and encoded.
const partitionBytes = 256

// partitionBytes is that with the IDs of the replicas, each in up to three lists.
func (s *Server) partitionBytes() int64 { return partitionBytes + 12*int64(len(s.members())) }

// chargeTopics reserves memory for an answer about topics, whose size does not depend on that of
// the request.
func (c *call) chargeTopics(found []broker.TopicRef) error {
	n := int64(0)
	for i := range found {
		n += int64(found[i].Partitions + 1)
	}
	return c.frame.Charge(n * c.partitionBytes())
}

func describeTopic(ref *broker.TopicRef, ns *nodes) kmsg.MetadataResponseTopic {
	m := kmsg.NewMetadataResponseTopic()
	m.Topic, m.TopicID = &ref.Name, ref.ID
	m.Partitions = make([]kmsg.MetadataResponseTopicPartition, ref.Partitions)
	for i := range m.Partitions {
		p := &m.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), ns.leaderID(), ns.epoch
		p.Replicas, p.ISR, p.OfflineReplicas = ns.replicas, ns.inSync, ns.offline
		if ns.leader == nil {
			p.ErrorCode = kerr.LeaderNotAvailable.Code
		}
	}
	return m
}
