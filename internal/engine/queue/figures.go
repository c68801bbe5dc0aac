package queue

import (
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/stats"
)

// Totals count what happened to messages of a queue while this broker leads.
type Totals struct{ Leased, Done, Retried, Dead atomic.Int64 }

// Figures are the numbers of a queue for metrics and charts.
type Figures struct {
	Info // without Settings

	OldestReadyAge              time.Duration
	Leased, Done, Retried, Dead int64 // as Totals
	LeasesOver                  int64 // leases that ended without a word of their worker
	Letters                     bool  // another queue has it as its dead-letter queue
}

// Figures returns those of all queues while this broker leads, sorted by name; else none.
func (m *Queues) Figures() []Figures {
	var all []Figures
	var names []string
	left := map[string]int64{}
	m.catchUp()
	for _, r := range m.b.TopicRefs() {
		if r.Settings[state.QueueSetting] == "" {
			continue
		}
		m.mu.Lock()
		l := m.live[r.ID]
		if l == nil || m.epoch == 0 {
			m.mu.Unlock()
			continue
		}
		f := Figures{Info: Info{Name: r.Name, ID: r.ID, Priorities: r.Partitions, Effective: l.core.Settings}, LeasesOver: l.core.over}
		m.count(&f.Info, &r)
		m.mu.Unlock()
		t := l.totals
		f.Leased, f.Done, f.Retried, f.Dead = t.Leased.Load(), t.Done.Load(), t.Retried.Load(), t.Dead.Load()
		if !f.OldestReady.IsZero() {
			now, _ := m.b.Now()
			f.OldestReadyAge = max(0, now.Sub(f.OldestReady))
		}
		left[r.Name] = f.Left()
		all, names = append(all, f), append(names, f.Effective.DeadLetter)
	}
	letters := map[string]struct{}{}
	for i := range all {
		all[i].Info.Dead = left[names[i]]
		letters[names[i]] = struct{}{}
	}
	for i := range all {
		_, all[i].Letters = letters[all[i].Name]
	}
	return all
}

// Stats returns the figures of all queues for charts, while this broker leads.
func (m *Queues) Stats() []stats.Queue {
	all := m.Figures()
	rows := make([]stats.Queue, len(all))
	for i := range all {
		f := &all[i]
		rows[i].ID = f.ID
		rows[i].Values = [...]float64{
			float64(f.Ready), float64(f.InFlight), float64(f.Delayed), float64(f.Retrying), float64(f.Info.Dead), f.OldestReadyAge.Seconds(),
			float64(f.Sent), float64(f.Done), float64(f.Retried + f.LeasesOver),
		}
	}
	return rows
}

// Left is the number of messages that are not done.
func (i *Info) Left() int64 { return i.Ready + i.InFlight + i.Delayed + i.Retrying + i.Dying }

// count fills in the numbers of a queue. The caller has the lock.
func (m *Queues) count(i *Info, r *broker.TopicRef) {
	l, now, left := m.live[r.ID], m.now(), int64(0)
	for p := range r.Partitions {
		m.b.ReadQueue(r.ID, uint32(p), func(q *state.Queue, at *state.Partition) {
			left += i.add(q, at, now)
			i.readySince(q, at, now, func(offset int64) bool { return l != nil && l.core.Held(ID{uint32(p), offset}) })
			if _, sized := r.Settings["retention-bytes"]; sized {
				most := state.Resolve(r.Settings).RetentionBytes
				i.Full = i.Full || most != state.Unlimited && at.Bytes >= most
			}
		})
	}
	if l != nil {
		i.InFlight, i.Dying, i.Blocked = max(i.InFlight, int64(l.core.InFlight())), int64(l.core.DyingCount()), l.core.Blocked()
	}
	i.Ready = max(0, left-i.InFlight-i.Delayed-i.Retrying-i.Dying)
	if i.Ready == 0 || i.Effective.Paused {
		i.OldestReady = time.Time{}
	}
}

// readyMax bounds the messages with a delay that readySince looks at.
const readyMax = 1000

// readySince notes since when a message is ready: since it was stored, or since the end of its delay. A message that
// a worker had, and that comes back, is as old as before. The first message without a delay decides: what comes
// behind it was stored later.
func (i *Info) readySince(q *state.Queue, at *state.Partition, now int64, held func(offset int64) bool) {
	looked := 0
	for run := range q.Ready(at.Start, reach(&i.Effective, at), now) {
		first := run.Base
		for first < run.End() && held(first) {
			first++
		}
		switch {
		case first == run.End():
			continue
		case run.State != state.QueueWaiting || run.Deliveries > 0:
			earlier(&i.OldestReady, at, first)
			return
		}
		if t := time.UnixMicro(run.Until); i.OldestReady.IsZero() || t.Before(i.OldestReady) {
			i.OldestReady = t
		}
		if looked++; looked == readyMax {
			return
		}
	}
}

// add adds the messages of a partition, and returns how many are not done.
func (i *Info) add(q *state.Queue, at *state.Partition, now int64) (left int64) {
	from := max(q.Done, at.Start)
	n := q.Tally(from, at.Next, now)
	left = at.Next - from - n.Done
	i.Sent += at.Next
	i.Bytes += at.Bytes
	i.InFlight += n.Leased
	i.Delayed += n.Delayed + n.Uncommitted
	for r := range q.Ready(reach(&i.Effective, at), at.Next, now) {
		i.Delayed += r.Span
	}
	i.Retrying += n.Trying
	if left > 0 {
		earlier(&i.Oldest, at, from)
	}
	return left
}

// earlier notes when a message was stored, if that is before t.
func earlier(t *time.Time, p *state.Partition, offset int64) {
	if n := p.Find(offset); n >= 0 {
		if stored := time.UnixMicro(p.Ranges[n].AppendTime); t.IsZero() || stored.Before(*t) {
			*t = stored
		}
	}
}

// unfinished is the number of messages of a queue that are not done.
func (m *Queues) unfinished(r *broker.TopicRef) (n int64) {
	if r.Settings[state.QueueSetting] == "" {
		return 0
	}
	for p := range r.Partitions {
		m.b.ReadQueue(r.ID, uint32(p), func(q *state.Queue, at *state.Partition) {
			from := max(q.Done, at.Start)
			n += at.Next - from - q.Tally(from, at.Next, 0).Done
		})
	}
	return n
}
