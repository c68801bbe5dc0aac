package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules"
	triggerstore "github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// triggersTopic is the topic of trigger definitions. Without it records wake no follower.
const triggersTopic = "triggers"

// eventLog is the broker's log for the trigger engine.
type eventLog struct{ followed }

func (l *eventLog) Topic(name string) (rules.Topic, bool) {
	r, ok := l.TopicNamed(name)
	return rules.Topic{ID: r.ID, Partitions: r.Partitions, AppendTime: r.AppendTime}, ok
}

func (l *eventLog) Create(ctx context.Context, name string, partitions int, settings map[string]string) error {
	_, err := l.CreateTopic(ctx, name, broker.TopicSpec{Partitions: partitions, Settings: settings})
	if errors.Is(err, state.ErrTopicExists) {
		return nil
	}
	return err
}

func (l *eventLog) Stamp(ctx context.Context, name string) error {
	_, err := l.UpdateTopic(ctx, name, broker.TopicSpec{Settings: map[string]string{"timestamp-type": "append"}})
	return err
}

func (l *eventLog) Position(topics ...record.ID) (views.Position, bool) {
	if l.stale.Swap(false) {
		_, there := l.TopicNamed(triggersTopic)
		l.any.Store(there)
	}
	return l.Broker.Position(topics...)
}

func (l *eventLog) Append(ctx context.Context, topic record.ID, partition uint32, recs []record.Record) (int64, error) {
	r, ok := l.TopicOf(topic)
	if !ok {
		return 0, state.ErrUnknownTopic
	}
	data, sum, err := record.Append(nil, recs, record.EncodeOptions{})
	if err != nil {
		return 0, err
	}
	res := l.AppendChange(ctx, broker.Append{
		Topic: r.Name, Partition: int32(partition), Data: data, Summary: sum, ExpectedOffset: -1, Check: broker.ClientOf(ctx).Check,
	}, audit.ChangeOf(ctx))
	return res.Base, res.Err
}

// Bounds on the trigger engine's memory for its file and for entities' rows; they are lower under a
// small memory limit.
const (
	triggersCache = 32 << 20
	triggersRows  = 32 << 20
)

// snapshots returns the snapshots of the engine's file in the bucket. They bypass the disk cache.
func (n *Node) snapshots(store objstore.Store, o *Options) *snapshot.Snapshots {
	return snapshot.Open(snapshot.Options{
		Store: store, View: triggersTopic, Schema: triggerstore.Schema, Cluster: n.Cluster, Logger: o.Logger,
		PieceBytes: min(snapshot.PieceBytes, o.MemoryLimit/64),
		At: func() (snapshot.LogPosition, bool) {
			pos, nonce, known := n.LogPosition()
			return snapshot.LogPosition{Position: pos, Nonce: nonce}, known
		},
		On: func(p snapshot.LogPosition) bool { return n.Passed(p.Position, p.Nonce) },
	})
}

// openTriggers opens the trigger engine, with snapshots of its file in the store. A read-only node
// has none.
func (n *Node) openTriggers(ctx context.Context, l *eventLog, store objstore.Store, o *Options) (err error) {
	if o.ReadOnly {
		return nil
	}
	l.Broker = n.Broker
	n.triggersFile = o.localFile("triggers", "triggers.db")
	n.triggers, err = rules.Open(ctx, rules.Options{
		Path: n.triggersFile.path, Log: l, CacheBytes: o.pageCache(triggersCache), RowBytes: min(triggersRows, o.MemoryLimit/48),
		MemoryBytes: n.Budget().Class(budget.Triggers).Limit(),
		CapSpan:     func(deliver json.RawMessage) time.Duration { return webhook.CapSpan(deliver) },
		Snapshots:   n.snapshots(store, o), Logger: o.Logger, Metrics: o.Metrics,
		Keys: o.SecretsKeys, Sealable: n.sealable, Entities: n.keys,
	})
	n.eventLog = l
	if err == nil {
		o.Metrics.GetOrCreateGauge(`seb_memory_reserved_bytes{class="`+budget.Triggers.String()+`"}`, func() float64 {
			return float64(n.triggers.Memory())
		})
	}
	return err
}

// InternalTopics are the topics that only the trigger engine writes.
func InternalTopics() []string {
	o := (rules.Options{}).WithDefaults()
	return []string{o.Triggers, o.Firings}
}

// CheckPurpose checks the name of a topic that a setting gives a purpose. others are the topics of
// other settings.
func CheckPurpose(name string, others ...string) error {
	if slices.Contains(append(others, InternalTopics()...), name) {
		return fmt.Errorf("topic %q has another purpose", name)
	}
	return state.CheckTopicName(name)
}

// sealable returns an error if the bucket's format level is too low for encrypted secrets.
func (n *Node) sealable() error {
	if has := n.Level().Now; has < state.LevelSecrets {
		return &state.LevelError{Needs: state.LevelSecrets, Has: has}
	}
	return nil
}

// purge returns the definitions with outdated secrets that must leave the bucket.
func (n *Node) purge() compact.Purge {
	topic, below := n.triggers.Unpurged()
	return compact.Purge{Topic: topic, Below: below}
}

// usersWait bounds the time that the deletion of a topic waits until the engine has read all
// definitions in the log.
const usersWait = 5 * time.Second

// topicInUse returns an error if triggers use a topic, or if the engine does not know.
func (n *Node) topicInUse(ctx context.Context, topic string) error {
	if n.queues != nil {
		if by := n.queues.NeededBy(topic); by != "" {
			return &broker.TopicInUseError{Topic: topic, By: []string{"queue " + by}}
		}
	}
	if n.triggers == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, usersWait)
	defer cancel()
	by, err := n.triggers.Users(ctx, topic)
	if len(by) == 0 && err == nil {
		return nil
	}
	return &broker.TopicInUseError{Topic: topic, By: by, Err: err}
}

// closeTriggers closes the trigger engine.
func (n *Node) closeTriggers() error {
	if n.triggers == nil {
		return nil
	}
	return n.triggersFile.closed(n.triggers.Close())
}

// Triggers returns the trigger engine, which follows the broker's events and is closed with the
// node; nil if the node is read-only. It is idle until a trigger is defined.
func (n *Node) Triggers() *rules.Engine { return n.triggers }

// EventLog returns the broker's log for the trigger engine; nil without an engine.
func (n *Node) EventLog() rules.Log {
	if n.eventLog == nil {
		return nil
	}
	return n.eventLog
}
