package node

import (
	"context"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/riemann/index"
	"github.com/sebbroker/seb/record"
)

// riemannLog is the broker's log for the index of Riemann events.
type riemannLog struct{ followed }

func (l *riemannLog) Topic(name string) (record.ID, bool) {
	l.stale.Store(false)
	r, ok := l.TopicNamed(name)
	l.any.Store(ok)
	return r.ID, ok
}

func (l *riemannLog) Append(ctx context.Context, topic record.ID, partition uint32, recs []record.Record, expected int64) error {
	r, ok := l.TopicOf(topic)
	if !ok {
		return broker.ErrUnknownTopic
	}
	data, sum, err := record.Append(nil, recs, record.EncodeOptions{})
	if err != nil {
		return err
	}
	res := l.AppendChange(ctx, broker.Append{Topic: r.Name, Partition: int32(partition), Data: data, Summary: sum, ExpectedOffset: expected}, nil)
	return res.Err
}

// Bounds on the memory of the index of Riemann events: its file, an answer, the events that wait
// for a subscriber, and the records of a transaction. They are lower under a small memory limit.
const (
	riemannCache  = 8 << 20
	riemannAnswer = 1 << 20
	riemannQueue  = 256 << 10
	riemannRead   = 2 << 20
)

// openRiemann opens the index of Riemann events, if there is a topic of them.
func (n *Node) openRiemann(ctx context.Context, l *riemannLog, o *Options) (err error) {
	if o.RiemannTopic == "" {
		return nil
	}
	l.Broker = n.Broker
	n.riemannFile = o.localFile("riemann", "riemann.db")
	n.riemann, err = index.Open(ctx, index.Options{
		Path: n.riemannFile.path, Log: l, Topic: o.RiemannTopic, CacheBytes: min(riemannCache, o.MemoryLimit/64),
		AnswerBytes: min(riemannAnswer, o.MemoryLimit/64), QueueBytes: min(riemannQueue, o.MemoryLimit/512), ReadBytes: int(min(riemannRead, o.MemoryLimit/128)),
		Logger: o.Logger, Metrics: o.Metrics,
	})
	return err
}

// closeRiemann closes the index of Riemann events.
func (n *Node) closeRiemann() error {
	if n.riemann == nil {
		return nil
	}
	return n.riemannFile.closed(n.riemann.Close())
}

// Riemann returns the index of Riemann events, which follows the broker and is closed with the node;
// nil if there is none.
func (n *Node) Riemann() *index.Index { return n.riemann }
