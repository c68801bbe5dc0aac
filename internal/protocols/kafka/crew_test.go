package kafka_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/sebtest"
)

// crew is brokers on one bucket. The first one leads at the start.
type crew struct {
	t     *testing.T
	store objstore.Store

	mu    sync.Mutex // guards the fields below
	mates []*mate
	cut   bool // no broker has a link to another
	ended bool // all links have just ended
	// silence is for how long brokers without a link have been silent; gone: they have ended.
	silence time.Duration
	gone    bool
}

// mate is one of the brokers.
type mate struct {
	*served
	crew *crew
	a    *auth.Authority
	reg  cluster.Registration
	asks atomic.Int64 // calls of Members
}

// newCrew starts n brokers. A standby looks for commits by itself only while it has readers.
func newCrew(t *testing.T, store objstore.Store, n int, change ...func(*kafka.Options)) *crew {
	c := &crew{t: t, store: store, silence: time.Minute}
	for i := range n {
		c.add(func(o *broker.Options) { o.Core.Standby = i > 0 }, change...)
	}
	return c
}

// add starts one more broker.
func (c *crew) add(role func(*broker.Options), change ...func(*kafka.Options)) *mate {
	t := c.t
	b := openBroker(t, c.store, func(o *broker.Options) {
		o.Standby, o.Core.FollowPoll = true, core.Duration(20*time.Millisecond)
		role(o)
	})
	groups := coordinator.Open(context.Background(), coordinator.Options{Broker: b, InitialDelay: -1, Logger: quiet})
	t.Cleanup(groups.Close)
	m := &mate{crew: c, a: authority(t, b)}
	o := kafka.Options{Auth: m.a, Cluster: m, RootKey: apiKey, Groups: groups, LeaderWait: 50 * time.Millisecond}
	for _, f := range change {
		f(&o)
	}
	m.served = serve(t, b, o)
	c.mu.Lock()
	defer c.mu.Unlock()
	id := byte(len(c.mates) + 1)
	m.reg = cluster.Registration{
		Run: cluster.Run{Node: record.ID{id}, ID: record.ID{id}}, Addresses: []string{"127.0.0.1:1"}, Kafka: m.addr, KafkaID: 99 + int32(id),
		ReadOnly: b.ReadOnly(),
	}
	c.mates = append(c.mates, m)
	return m
}

// cutLinks ends all links, or makes them again.
func (c *crew) cutLinks(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = is
}

// endLinks ends all links. The brokers have just heard each other.
func (c *crew) endLinks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// lead makes a standby lead. The old leader learns of it at its next write.
func (c *crew) lead(m *mate) {
	c.t.Helper()
	sebtest.Eventually(c.t, "a standby leads", func() bool {
		return m.b.Leads() || m.b.Confirm(c.t.Context()) == nil && m.b.Stand(c.t.Context()) == nil
	})
}

// Self implements cluster.View.
func (m *mate) Self() cluster.Registration { return m.reg }

// Members implements cluster.View: links pass on the state of each broker at once.
func (m *mate) Members() []cluster.Member {
	m.asks.Add(1)
	m.crew.mu.Lock()
	defer m.crew.mu.Unlock()
	var leader *mate
	for _, x := range m.crew.mates {
		if x.b.Leads() && (leader == nil || x.b.LeadingEpoch() > leader.b.LeadingEpoch()) {
			leader = x
		}
	}
	var all []cluster.Member
	for _, x := range m.crew.mates {
		up := x == m || !m.crew.cut
		at, _, _ := x.b.LogPosition()
		one := cluster.Member{
			Registration: x.reg, Self: x == m, Up: up, Linked: x == m || up && !m.crew.ended, Leads: up && x == leader, HasBeat: true,
			Beat: cluster.Beat{From: x.reg.Run, Leads: x.b.Leads(), Epoch: x.b.Epoch(), Pos: at, Loaded: true, Committed: time.Unix(0, 0)},
		}
		if !up {
			one.Silence, one.Gone = m.crew.silence, m.crew.gone
		}
		if x == m {
			all = append([]cluster.Member{one}, all...)
		} else {
			all = append(all, one)
		}
	}
	return all
}

// Leader implements cluster.View.
func (m *mate) Leader() (cluster.Registration, bool) {
	for _, x := range m.Members() {
		if x.Leads {
			return x.Registration, true
		}
	}
	return cluster.Registration{}, false
}

// Wrong implements cluster.View.
func (m *mate) Wrong() []string { return nil }

// Changed implements cluster.View.
func (m *mate) Changed() <-chan struct{} { return nil }
