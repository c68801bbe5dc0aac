package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// DeadLetterSuffix ends the name of the dead-letter queue that is made with a queue.
const DeadLetterSuffix = ".dead"

// PrioritiesMax bounds the priorities of a queue.
const PrioritiesMax = state.QueuePrioritiesMax

// Info describes a queue. The numbers are of messages.
type Info struct {
	Name       string
	ID         record.ID
	Priorities int
	Settings   map[string]string // explicit ones, in canonical form
	Effective  state.QueueSettings

	Ready    int64 // for a worker, or for the end of another message of their key
	InFlight int64
	Delayed  int64
	Retrying int64     // waiting for their next try
	Dying    int64     // on their way to the dead-letter queue
	Dead     int64     // not done, in the dead-letter queue
	Sent     int64     // ever, with those of aborted transactions and the markers
	Oldest   time.Time // when the oldest message that is not done was stored; zero: none
	Bytes    int64

	OldestReady time.Time // when the oldest message that a worker may get was stored, or its delay was over; zero: none
	Blocked     bool      // it has more messages, but those that it looks at wait for others of their keys
	Full        bool      // it refuses messages, because it has reached its retention-bytes
}

// Spec is a queue to create or change.
type Spec struct {
	Priorities int               // 0: 1, or unchanged
	Settings   map[string]string // "" removes one
}

// Create creates a queue, with its dead-letter queue unless the settings name one or none. Errors:
// ErrInvalid, state.ErrTopicExists, *state.LevelError, and those of an append.
func (m *Queues) Create(ctx context.Context, name string, s Spec) (Info, error) {
	if s.Priorities = max(1, s.Priorities); s.Priorities > PrioritiesMax {
		return Info{}, &state.InvalidError{Field: "priorities", Reason: fmt.Sprintf("%d is not between 1 and %d", s.Priorities, PrioritiesMax)}
	}
	set := maps.Clone(s.Settings)
	if set == nil {
		set = map[string]string{}
	}
	maps.DeleteFunc(set, func(_, v string) bool { return v == "" })
	dead, given := set["dead-letter"]
	if !given {
		dead = name + DeadLetterSuffix
		set["dead-letter"] = dead
	}
	canonical, err := m.checkSettings(name, set, given)
	if err != nil {
		return Info{}, err
	}
	if !given {
		letters := broker.TopicSpec{Settings: map[string]string{state.QueueSetting: state.QueueText(map[string]string{"dead-letter": state.NoDeadLetter})}}
		if _, err := m.b.CreateTopic(ctx, dead, letters); err != nil && !errors.Is(err, state.ErrTopicExists) {
			return Info{}, err
		}
		if err := m.checkDeadLetter(name, dead); err != nil {
			return Info{}, err
		}
	}
	spec := broker.TopicSpec{Partitions: s.Priorities, Settings: map[string]string{state.QueueSetting: state.QueueText(canonical)}}
	if _, err := m.b.CreateTopic(ctx, name, spec); err != nil {
		return Info{}, err
	}
	return m.Info(name)
}

// checkSettings returns settings in canonical form.
func (m *Queues) checkSettings(name string, set map[string]string, deadLetter bool) (map[string]string, error) {
	canonical, parsed, err := state.CheckQueueSettings(set)
	if err != nil {
		return nil, &state.InvalidError{Field: "settings", Reason: err.Error()}
	}
	if deadLetter && parsed.DeadLetter != "" && parsed.DeadLetter != state.NoDeadLetter {
		return canonical, m.checkDeadLetter(name, parsed.DeadLetter)
	}
	return canonical, nil
}

// checkDeadLetter checks that a queue may be the dead-letter queue of another one: it is a queue, and its
// own letters do not come back.
func (m *Queues) checkDeadLetter(name, dead string) error {
	invalid := func(format string, args ...any) error {
		return &state.InvalidError{Field: "settings", Reason: "setting dead-letter: " + fmt.Sprintf(format, args...)}
	}
	path := []string{name}
	for at := dead; at != "" && at != state.NoDeadLetter; {
		if path = append(path, at); at == name {
			return invalid("dead letters would go in a circle: %s", strings.Join(path, " to "))
		}
		r, ok := m.b.TopicNamed(at)
		switch {
		case !ok && at == dead:
			return invalid("there is no queue %q", dead)
		case !ok:
			return nil
		case r.Settings[state.QueueSetting] == "":
			return invalid("topic %q is no queue", at)
		case len(path) > 16:
			return invalid("more than 16 queues one after the other: %s", strings.Join(path, " to "))
		}
		at = state.Resolve(r.Settings).Queue.DeadLetter
	}
	return nil
}

// Update changes settings of a queue. key-mode stays what it was. Errors: as of Create, and
// state.ErrUnknownTopic, ErrNotQueue.
func (m *Queues) Update(ctx context.Context, name string, s Spec) (Info, error) {
	r, set, err := m.settings(name)
	if err != nil {
		return Info{}, err
	}
	was := maps.Clone(set)
	for k, v := range s.Settings {
		if v == "" {
			delete(set, k)
		} else {
			set[k] = v
		}
	}
	canonical, err := m.checkSettings(name, set, set["dead-letter"] != was["dead-letter"])
	switch {
	case err != nil:
		return Info{}, err
	case canonical["key-mode"] != was["key-mode"]:
		return Info{}, &state.InvalidError{Field: "settings", Reason: "setting key-mode: it stays what it was when the queue was created"}
	case s.Priorities != 0 && s.Priorities != r.Partitions:
		return Info{}, &state.InvalidError{Field: "priorities", Reason: fmt.Sprintf("%d: a queue keeps its number of priorities, which is %d", s.Priorities, r.Partitions)}
	}
	spec := broker.TopicSpec{Settings: map[string]string{state.QueueSetting: state.QueueText(canonical)}}
	if _, err := m.b.UpdateTopic(ctx, name, spec); err != nil {
		return Info{}, err
	}
	m.mu.Lock()
	if m.epoch != 0 {
		m.refresh() // so that the next call finds the settings
	}
	m.mu.Unlock()
	return m.Info(name)
}

// settings returns a queue with its explicit settings.
func (m *Queues) settings(name string) (r broker.TopicRef, set map[string]string, err error) {
	r, ok := m.b.TopicNamed(name)
	switch {
	case !ok:
		return r, nil, state.ErrUnknownTopic
	case r.Settings[state.QueueSetting] == "":
		return r, nil, fmt.Errorf("%w: %s", ErrNotQueue, name)
	}
	set, err = state.QueueSettingsOf(r.Settings[state.QueueSetting])
	return r, set, err
}

// Delete deletes a queue with its messages, unless another one has it as its dead-letter queue. Its own
// dead-letter queue stays. Errors: state.ErrUnknownTopic, ErrNotQueue, ErrNeeded, and those of an append.
func (m *Queues) Delete(ctx context.Context, name string) error {
	if _, _, err := m.settings(name); err != nil {
		return err
	}
	if by := m.NeededBy(name); by != "" {
		return fmt.Errorf("%w %s", ErrNeeded, by)
	}
	return m.b.DeleteTopic(ctx, name)
}

// ErrNeeded: a queue is the dead-letter queue of another one.
var ErrNeeded = errors.New("the queue is the dead-letter queue of")

// NeededBy returns a queue whose dead-letter queue this is; "": none.
func (m *Queues) NeededBy(name string) string {
	for _, r := range m.b.TopicRefs() {
		if r.Name != name && r.Settings[state.QueueSetting] != "" && state.Resolve(r.Settings).Queue.DeadLetter == name {
			return r.Name
		}
	}
	return ""
}

// Names lists the queues, by name.
func (m *Queues) Names() (names []string) {
	for _, r := range m.b.TopicRefs() {
		if r.Settings[state.QueueSetting] != "" {
			names = append(names, r.Name)
		}
	}
	return names
}

// Info describes a queue. Only a leader knows first leases that no record has. Errors:
// state.ErrUnknownTopic, ErrNotQueue.
func (m *Queues) Info(name string) (Info, error) {
	r, set, err := m.settings(name)
	if err != nil {
		return Info{}, err
	}
	i := Info{Name: name, ID: r.ID, Priorities: r.Partitions, Settings: set, Effective: *state.Resolve(r.Settings).Queue}
	m.mu.Lock()
	m.count(&i, &r)
	m.mu.Unlock()
	if dead, ok := m.b.TopicNamed(i.Effective.DeadLetter); ok {
		i.Dead = m.unfinished(&dead)
	}
	return i, nil
}

// The states of Peek.
const (
	Ready    = "ready"
	InFlight = "leased"
	Delayed  = "delayed"
	Retrying = "retry"
	Done     = "done"
)

// Peeked is a message with its state.
type Peeked struct {
	Leased // without receipt
	State  string
	Tries  []Try
}

// PeekRequest asks for messages, the newest first.
type PeekRequest struct {
	Queue  string
	State  string // "": all that are not done
	Before *ID    // only older ones of its priority, and those of higher numbers
	Max    int
}

// peekSpan bounds the messages that one request looks at.
const peekSpan = 20_000

// Peek returns messages without a lease. next continues; nil: these are all. Errors: as of Info, ErrInvalid,
// those of a read.
func (m *Queues) Peek(ctx context.Context, r PeekRequest) (list []Peeked, next *ID, err error) {
	topic, _, err := m.settings(r.Queue)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Contains([]string{"", Ready, InFlight, Delayed, Retrying, Done}, r.State) {
		return nil, nil, &state.InvalidError{Field: "state", Reason: fmt.Sprintf("%.32q is not ready, leased, delayed, retry or done", r.State)}
	}
	if r.Max = max(1, r.Max); r.Max > LeaseMax {
		return nil, nil, &state.InvalidError{Field: "max", Reason: fmt.Sprintf("%d is not between 1 and %d", r.Max, LeaseMax)}
	}
	at := ID{0, 1 << 62}
	if r.Before != nil {
		at = *r.Before
	}
	looked := 0
	for ; int(at.Partition) < topic.Partitions; at = (ID{at.Partition + 1, 1 << 62}) {
		var q *state.Queue
		start := int64(0)
		m.b.ReadQueue(topic.ID, at.Partition, func(now *state.Queue, p *state.Partition) {
			q, start, at.Offset = now.Snapshot(), p.Start, min(at.Offset, p.Next)
		})
		for q != nil && at.Offset > start && len(list) < r.Max && looked < peekSpan {
			at.Offset--
			looked++
			x := Peeked{Leased: Leased{ID: at}}
			if run := q.Of(at.Offset); run.State == state.QueueUncommitted || r.State == "" && run.State == state.QueueDone {
				continue
			}
			if x.describe(m, q); x.State == r.State || r.State == "" {
				list = append(list, x)
			}
		}
		if len(list) >= r.Max || looked >= peekSpan {
			next = &at
			break
		}
	}
	list, last, err := m.fill(ctx, &topic, list)
	if last != nil {
		next = last
	}
	return list, next, err
}

// fill reads the messages of a list, as far as there is room for them: after last are more. Markers and messages of
// aborted transactions are done, too, and left out.
func (m *Queues) fill(ctx context.Context, topic *broker.TopicRef, list []Peeked) (filled []Peeked, last *ID, err error) {
	bytes := 0
	for i := range list {
		x := &list[i]
		at := messagesOf(topic, x.Partition)
		if x.State == Done {
			at.Isolation = broker.NotAborted
		}
		rec, err := m.readOne(ctx, at, x.ID)
		if x.State == Done && errors.Is(err, errNoMessage) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if bytes += sizeOf(&rec); bytes > leaseBytesMax && len(filled) > 0 {
			return filled, &list[i-1].ID, nil
		}
		x.Sent, x.Key, x.Value, x.Headers = time.UnixMilli(rec.Timestamp), rec.Key, rec.Value, rec.Headers
		filled = append(filled, *x)
	}
	return filled, nil, nil
}

// describe fills in what is known of a message.
func (x *Peeked) describe(m *Queues, q *state.Queue) {
	run := q.Of(x.Offset)
	until, inFlight := run.Until, run.State == state.QueueLeased
	x.Deliveries = run.Deliveries
	for _, t := range q.TriesOf(x.Offset) {
		x.Tries = append(x.Tries, Try{time.UnixMicro(t.Time).UTC(), t.By, t.Reason})
	}
	if run.State == state.QueueDone {
		x.State = Done
		return
	}
	switch now := m.now(); {
	case until <= now:
		x.State = Ready
	case inFlight:
		x.State = InFlight
	case run.Deliveries == 0:
		x.State = Delayed
	default:
		x.State = Retrying
	}
	if until > 0 {
		x.Until = time.UnixMicro(until)
	}
}

// ParseID reads the ID of a message.
func ParseID(text string) (id ID, err error) {
	p, o, ok := strings.Cut(text, "-")
	part, err1 := strconv.ParseUint(p, 10, 32)
	offset, err2 := strconv.ParseInt(o, 10, 64)
	if !ok || err1 != nil || err2 != nil || offset < 0 || (ID{uint32(part), offset}).String() != text {
		return id, &state.InvalidError{Field: "id", Reason: fmt.Sprintf("%.40q is not the ID of a message, such as 0-17", text)}
	}
	return ID{uint32(part), offset}, nil
}

// Cancel ends a message that no worker has, and waits until that is stored. Errors: as of Lease,
// ErrUnknownMessage, ErrLeased.
func (m *Queues) Cancel(ctx context.Context, queue string, id ID) error {
	for {
		l, err := m.lock(ctx, queue)
		if err != nil {
			return err
		}
		ch := NewChange(id.Partition)
		err = ErrUnknownMessage
		m.b.ReadQueue(l.ref().ID, id.Partition, func(q *state.Queue, p *state.Partition) {
			l.core.Extended(id.Partition, p.Next)
			err = l.core.Claim(m.now(), id, q, ch)
		})
		if err == nil {
			m.carry(ctx, l, ch, func(ctx context.Context, u *broker.QueueUpdate) error {
				return m.b.ChangeQueue(ctx, u, "queue.cancel", queue, "message", id.String())
			})
		}
		m.mu.Unlock()
		if err == ErrUnread {
			if err = m.know(ctx, l, id); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		return ch.wait(ctx)
	}
}

// wait waits until a change is stored.
func (ch *Change) wait(ctx context.Context) error {
	select {
	case <-ch.Stored:
		return ch.Err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", state.ErrOutcomeUnknown, context.Cause(ctx))
	}
}

// allDone ends all messages of a partition that are committed.
func allDone(q *state.Queue, p *state.Partition) (runs []state.QueueRun) {
	at := max(q.Done, p.Start)
	done := func(to int64) {
		if at < to {
			runs = append(runs, state.QueueRun{Base: at, Span: to - at, State: state.QueueDone})
		}
	}
	for r := range q.Runs.All(at) {
		if r.State == state.QueueUncommitted {
			done(r.Base)
			at = r.End()
		}
	}
	done(p.Next)
	return runs
}

// Purge ends all messages that a queue has, also those that workers have, and returns how many there were. Those of
// open transactions stay.
func (m *Queues) Purge(ctx context.Context, queue string) (n int64, err error) {
	l, err := m.lock(ctx, queue)
	if err != nil {
		return 0, err
	}
	topic, epoch := l.ref(), m.epoch
	m.mu.Unlock()
	for p := range topic.Partitions {
		u := &broker.QueueUpdate{Epoch: epoch, Topic: topic.ID, Partition: uint32(p), Change: &state.QueueChange{}}
		m.b.ReadQueue(topic.ID, uint32(p), func(q *state.Queue, at *state.Partition) {
			u.Change.Runs = allDone(q, at)
			t := q.Tally(at.Start, at.Next, 0)
			n += at.Next - max(q.Done, at.Start) - t.Done - t.Uncommitted
		})
		if len(u.Change.Runs) == 0 {
			continue
		}
		if err := m.b.ChangeQueue(ctx, u, "queue.purge", queue, "priority", strconv.Itoa(p)); err != nil {
			return n, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live[topic.ID] == l {
		m.reopen(l)
	}
	return n, nil
}
