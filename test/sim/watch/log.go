package watch

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
)

var (
	errUnknown = errors.New("unknown outcome")
	errGone    = errors.New("not readable now")
)

// hostLog is a broker's log as its engine follows it.
type hostLog struct {
	b       *Broker
	silent  bool  // never leads, and reads without faults
	events  int64 // records of the topic of events at the engine's last turn
	firings int64 // end of the topic of firings at the engine's last check
}

func (l *hostLog) state() *state.State { return l.b.host.State() }

func (l *hostLog) Cluster() record.ID { return l.state().Cluster }

func (l *hostLog) Topic(name string) (rules.Topic, bool) {
	s := l.state()
	if s == nil {
		return rules.Topic{}, false
	}
	t := s.TopicByName(name)
	if t == nil {
		return rules.Topic{}, false
	}
	return rules.Topic{ID: t.ID, Partitions: t.Partitions.Len(), AppendTime: t.LogAppendTime()}, true
}

func (l *hostLog) Create(ctx context.Context, name string, partitions int, settings map[string]string) error {
	c, done, made := callOf(ctx), false, false
	l.b.host.Create(name, partitions, settings, func(ok bool) {
		done, made = true, ok
		c.wake(0)
	})
	c.until(&done)
	if _, there := l.Topic(name); !made && !there {
		return errUnknown
	}
	return nil
}

func (l *hostLog) Stamp(ctx context.Context, name string) error {
	settings, err := state.CheckSettings(map[string]string{"timestamp-type": "append", "cleanup-policy": "compact"})
	if err != nil {
		return err
	}
	c, done := callOf(ctx), false
	l.b.host.Change(name, &state.Record{Kind: state.TopicChange, Settings: settings}, func(bool) {
		done = true
		c.wake(0)
	})
	c.until(&done)
	if t, ok := l.Topic(name); !ok || !t.AppendTime {
		return errUnknown
	}
	return nil
}

func (l *hostLog) Position(topics ...record.ID) (p views.Position, known bool) {
	s := l.state()
	if s == nil {
		return p, false
	}
	p = views.Position{Time: s.AppendTime, Topics: make([][]views.Span, len(topics))}
	for i, id := range topics {
		t := s.Topic(id)
		if t == nil {
			continue
		}
		for _, q := range t.Partitions.All() {
			p.Topics[i] = append(p.Topics[i], views.Span{Start: q.Start, Next: q.Next})
		}
	}
	if len(topics) > 1 { // of a turn; other callers ask for one topic
		l.events = l.eventsEnd()
	}
	if t := s.TopicByName(topicFirings); t != nil {
		l.firings = t.Partitions.At(0).Next
	}
	return p, true
}

// eventsEnd returns how many records the topic of events has had.
func (l *hostLog) eventsEnd() (n int64) {
	if s := l.state(); s != nil {
		if t := s.TopicByName(topicEvents); t != nil {
			for _, p := range t.Partitions.All() {
				n += p.Next
			}
		}
	}
	return n
}

func (l *hostLog) partition(topic record.ID, part uint32) *state.Partition {
	s := l.state()
	if s == nil {
		return nil
	}
	if t := s.Topic(topic); t != nil && int(part) < t.Partitions.Len() {
		return t.Partitions.At(int(part))
	}
	return nil
}

func (l *hostLog) Origin(topic record.ID, part uint32, offset int64) record.ID {
	p := l.partition(topic, part)
	if p == nil || offset < 0 || offset >= p.Next {
		return record.ID{}
	}
	i, found := slices.BinarySearchFunc(p.Epochs, offset, func(e state.EpochStart, o int64) int { return cmp.Compare(e.Offset, o) })
	if !found {
		i--
	}
	if i < 0 {
		return record.ID{}
	}
	for _, e := range l.state().Epochs {
		if e.Number == p.Epochs[i].Epoch {
			return e.Nonce
		}
	}
	return record.ID{}
}

func (l *hostLog) Read(ctx context.Context, topic record.ID, part uint32, offset int64, bytesMax int) (b views.Batches, err error) {
	p := l.partition(topic, part)
	if p == nil {
		return b, errGone
	}
	i := p.Find(offset)
	if i < 0 {
		return b, errGone
	}
	type located struct {
		state.Range
		key string
	}
	var ranges []located
	for size := 0; i < len(p.Ranges) && (size == 0 || size < bytesMax); i++ {
		g := p.Ranges[i]
		ranges = append(ranges, located{g, l.state().RangeKey(&g)})
		size += int(g.Len)
	}
	for _, g := range ranges {
		body := l.object(ctx, g.key)
		if uint64(g.Pos)+uint64(g.Len) > uint64(len(body)) {
			return b, errGone
		}
		data := slices.Clone(body[g.Pos : g.Pos+g.Len])
		if sum, err := record.Verify(data); err != nil || sum.Span != int64(g.Span) {
			return b, errGone // a late SEAL in the name of a collected slot
		}
		b.Parts = append(b.Parts, data)
	}
	return b, nil
}

// object reads an object, usually from the cache.
func (l *hostLog) object(ctx context.Context, key string) []byte {
	c := callOf(ctx)
	if l.silent || c == nil || l.b.s.r.IntN(8) > 0 {
		return l.b.host.Cached(key)
	}
	done := false
	var body []byte
	l.b.host.Get(key, func(b []byte) {
		done, body = true, b
		c.wake(0)
	})
	c.until(&done)
	return body
}

func (l *hostLog) Append(ctx context.Context, topic record.ID, part uint32, recs []record.Record) (base int64, err error) {
	t := l.state().Topic(topic)
	if t == nil {
		return 0, errGone
	}
	if t.Name == topicFirings {
		l.known(recs)
	}
	c, done, there := callOf(ctx), false, false
	l.b.host.Append(t.Name, part, recs, func(at int64, ok bool) {
		base, there, done = at, ok, true
		c.wake(0)
	})
	c.until(&done)
	if !there {
		return 0, errUnknown
	}
	return base, nil
}

// known checks that no broker records a firing again that it has already seen in the log.
func (l *hostLog) known(recs []record.Record) {
	for i := range recs {
		rec, id, err := rule.ParseRecord(recs[i].Value)
		if err != nil || rec.Kind != rule.FiredRecord {
			continue
		}
		if x := l.b.s.truth.firsts[id]; x != nil && x.offset < l.firings {
			l.b.s.w.Fail("W5: %s records firing %s of %s for %s again; it is at offset %d, and the broker has read up to %d",
				l.b.host.Name(), id, rec.Trigger, rec.Entity, x.offset, l.firings)
		}
	}
}

func (l *hostLog) Leads() bool { return !l.silent && l.b.host.Leads() }

// LeadingEpoch is 1 in the one epoch in which a host leads.
func (l *hostLog) LeadingEpoch() uint32 {
	if l.Leads() {
		return 1
	}
	return 0
}

// Changed is not needed: the simulator calls Notify.
func (l *hostLog) Changed() <-chan struct{} { return nil }
