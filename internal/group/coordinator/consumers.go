package coordinator

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/group"
)

// HeartbeatConsumer is group.Core.HeartbeatConsumer; it also returns the heartbeat interval.
func (c *Coordinator) HeartbeatConsumer(r *group.HeartbeatRequest) (group.HeartbeatAnswer, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if code := c.leadOfLocked(r.Group); code != group.OK {
		return group.HeartbeatAnswer{Code: code, Member: r.Member, Epoch: r.Epoch}, c.o.Beat
	}
	a := c.core.HeartbeatConsumer(c.now(), r)
	if a.Code == group.GroupMaxSizeReached {
		c.met.full.Inc()
	}
	c.settleLocked()
	return a, c.o.Beat
}

// CheckReader is group.Core.CheckReader.
func (c *Coordinator) CheckReader(r *group.Caller) group.Code {
	c.mu.Lock()
	defer c.mu.Unlock()
	if code := c.leadLocked(); code != group.OK {
		return code
	}
	return c.core.CheckReader(r)
}

// topics implements group.Topics with the topics of a broker.
type topics struct{ b *broker.Broker }

// Topic implements group.Topics.
func (t topics) Topic(name string) (group.TopicInfo, bool) {
	ref, ok := t.b.TopicNamed(name)
	return group.TopicInfo{ID: ref.ID, Partitions: int32(ref.Partitions)}, ok
}

// Names implements group.Topics.
func (t topics) Names() []string {
	all := t.b.Topics(context.Background()) //nolint:contextcheck // returns at once
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names
}
