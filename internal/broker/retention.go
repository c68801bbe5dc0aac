package broker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

// retain trims what topics' retention-time and retention-bytes say is over, every so often, until ctx ends or this broker leads
// no more. One goroutine runs it.
func (b *Broker) retain(ctx context.Context) {
	every := time.NewTicker(b.opt.RetentionEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			b.retainOnce(ctx)
		case <-b.log.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// retainOnce makes no request if nothing is over. By a clock that may be wrong nothing is: it might all be.
func (b *Broker) retainOnce(ctx context.Context) {
	if b.log.TimeDoubted() {
		return
	}
	var ops []core.Op
	now := b.opt.Now()
	b.log.Read(func(s *state.State) { ops = overdue(s, now) })
	if len(ops) == 0 {
		return
	}
	results := b.log.ProposeDeferred(ops).Wait(ctx)
	trimmed := 0
	for i := range results {
		err := results[i].Err()
		switch {
		case err == nil:
			trimmed++
		case ctx.Err() == nil && !errors.Is(err, ErrUnknownTopic): // deleted meanwhile
			b.opt.Logger.Warn("retention ended early, and is tried again", "err", err)
			return
		}
	}
	b.met.retained.Add(trimmed)
	b.opt.Logger.Info("trimmed what retention says is over", "partitions", trimmed)
}

// overdue returns the trims that the topics' retention asks for at a time.
func overdue(s *state.State, now time.Time) []core.Op {
	var ops []core.Op
	for _, t := range s.Topics() {
		_, timed := t.Settings["retention-time"]
		_, sized := t.Settings["retention-bytes"]
		if !timed && !sized {
			continue
		}
		settings := state.Resolve(t.Settings)
		for i, p := range t.Partitions.Written() {
			if start := keepFrom(p, &settings, now); start > p.Start {
				ops = append(ops, core.Op{Own: true, Record: state.Record{
					Kind: state.TopicTrim, Topic: t.ID, Partition: uint32(i), Offset: start,
				}})
			}
		}
	}
	return ops
}

// keepFrom returns the first offset that a topic's settings keep: whole ranges go that were appended longer than
// retention-time ago, or that retention-bytes or more have followed. So at least retention-bytes stay, and what is over
// stays until all of its range is over. A topic that is only compacted keeps everything, as in Kafka.
func keepFrom(p *state.Partition, s *state.Settings, now time.Time) int64 {
	start := p.Start
	if !strings.Contains(s.CleanupPolicy, "delete") {
		return start
	}
	before := now.Add(-s.RetentionTime).UnixMicro()
	left := p.Bytes
	for i := range p.Ranges {
		r := &p.Ranges[i]
		left -= int64(r.Len)
		old := s.RetentionTime != state.Unlimited && r.AppendTime < before
		many := s.RetentionBytes != state.Unlimited && left >= s.RetentionBytes
		if !old && !many {
			break
		}
		start = r.End()
	}
	return start
}
