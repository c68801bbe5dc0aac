package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// definitions are the settings of the topic of definitions. The append time of a definition is its
// border.
var definitions = map[string]string{"cleanup-policy": "compact", "timestamp-type": "append"}

// Put is the result of a change.
type Put struct {
	Version  int
	Names    []string // of events that it mentions
	Warnings []string // likely mistakes
	Readable bool     // the secrets of its delivery are readable in the bucket
	// History is the offset of the first event of each partition; earlier events are unknown.
	History []int64
	Tag     string // see Head.Tag
}

// Put creates a trigger, or a new version if d gives other firings than the current one; else it
// changes only delivery and status. It ignores d.Version and the members from d.TopicID on. It
// returns once the engine follows d. The stored trigger must meet the condition; nil: any trigger, or
// none. Without meeting it, Put also succeeds, and changes nothing, if the stored trigger already is as
// d, so that a change of unknown outcome can be repeated. Errors: a *ConditionError, ErrInvalid, ErrFull,
// ErrNotLeader, ErrUnavailable, ErrLocked, a format level, those of an append, after which the change
// may still happen.
func (e *Engine) Put(ctx context.Context, d rule.Definition, is Condition) (Put, error) {
	d = d.WithDefaults()
	if err := d.Validate(); err != nil {
		return Put{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(d.Deliver) > 0 && !json.Valid(d.Deliver) {
		return Put{}, fmt.Errorf("%w: deliver is not JSON", ErrInvalid)
	}
	r, err := rule.Compile(d)
	if err != nil {
		return Put{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e.change.Lock()
	defer e.change.Unlock()
	for range putTries {
		out, applied, err := e.put(ctx, r, d, is)
		if err != nil || applied {
			return out, err
		}
	}
	return Put{}, ErrUnavailable
}

// putTries bounds the attempts of a change. An attempt has no effect if an earlier change, whose
// outcome was unknown, is stored directly before it as a version that is not older.
const putTries = 3

// put is an attempt of Put for a valid definition. applied reports whether it had an effect. The
// caller holds e.change.
func (e *Engine) put(ctx context.Context, r *rule.Rule, d rule.Definition, is Condition) (out Put, applied bool, err error) {
	done, err := e.met(ctx, &d, is)
	if err != nil {
		return out, false, err
	}
	topic, err := e.ensureTopics(ctx, &d)
	if err != nil {
		return out, false, err
	}
	if err := e.caughtUp(ctx); err != nil {
		return out, false, err
	}
	out = Put{Names: r.Names(), Warnings: rule.Warnings(&d)}
	if out.Readable, err = e.seal(&d); err != nil {
		return out, false, err
	}
	more, err := e.unseen(ctx, topic.ID, out.Names)
	if err != nil {
		return out, false, err
	}
	out.Warnings = append(out.Warnings, more...)
	d.TopicID, d.Version, d.Border = topic.ID.String(), 1, rule.BorderAppend
	if out.History, err = e.setBorder(&d, topic.ID); err != nil {
		return out, false, err
	}
	d.Created = d.At
	if err := e.setVersion(ctx, &d, topic.ID); err != nil {
		return out, false, err
	}
	if out.Version = d.Version; done != nil {
		out.Tag = done.Tag()
		return out, true, nil
	}
	offset, err := e.define(ctx, "trigger.put", d.ID, &d)
	if err != nil {
		return out, false, err
	}
	out.Tag = rule.Tag(d.Version, offset)
	applied, err = e.applied(d.ID, offset)
	return out, applied, err
}

// applied reports whether the definition at an offset had an effect. The engine has read it.
func (e *Engine) applied(id string, offset int64) (bool, error) {
	h, err := e.Head(id)
	if errors.Is(err, ErrUnknownTrigger) {
		return false, nil
	}
	return err == nil && h.Offset >= offset, err
}

// setBorder sets the border of a definition to the end of the log, and returns the start offsets of
// the topic.
func (e *Engine) setBorder(d *rule.Definition, topic record.ID) (history []int64, err error) {
	p, known := e.opt.Log.Position(topic)
	if !known || len(p.Topics[0]) == 0 {
		return nil, ErrUnavailable
	}
	d.From, d.At = nil, p.CompleteIn(0)
	for _, span := range p.Topics[0] {
		d.From, history = append(d.From, span.Next), append(history, span.Start)
	}
	return history, nil
}

// tick appends a record that only advances the log's time to now.
func (e *Engine) tick(ctx context.Context) error {
	t, ok := e.opt.Log.Topic(e.opt.Firings)
	if !ok {
		return ErrUnavailable
	}
	_, err := e.opt.Log.Append(ctx, t.ID, 0, []record.Record{(&rule.Record{Kind: rule.Tick}).Encoded()})
	return err
}

// ensureTopics creates the topics that a trigger needs, and returns that of its events.
func (e *Engine) ensureTopics(ctx context.Context, d *rule.Definition) (Topic, error) {
	if !e.opt.Log.Leads() {
		return Topic{}, ErrNotLeader
	}
	if err := e.CheckTopic(d.Topic); err != nil {
		return Topic{}, fmt.Errorf("%w: topic: %w", ErrInvalid, err)
	}
	if t, ok := e.opt.Log.Topic(e.opt.Triggers); ok && !t.AppendTime { // of an earlier version
		if err := e.opt.Log.Stamp(ctx, e.opt.Triggers); err != nil {
			return Topic{}, fmt.Errorf("topic %s: %w", e.opt.Triggers, err)
		}
	}
	if _, err := Ensure(ctx, e.opt.Log, e.opt.Triggers, 1, definitions); err != nil {
		return Topic{}, err
	}
	if _, err := Ensure(ctx, e.opt.Log, e.opt.Firings, 1, AppendTimes); err != nil {
		return Topic{}, err
	}
	return Ensure(ctx, e.opt.Log, d.Topic, e.opt.EventPartitions, EventSettings)
}

// CheckTopic returns why a trigger cannot follow a topic, or nil. The topic need not exist.
func (e *Engine) CheckTopic(name string) error {
	if name == e.opt.Triggers || name == e.opt.Firings {
		return fmt.Errorf("topic %q does not hold events", name)
	}
	if t, ok := e.opt.Log.Topic(name); ok {
		return timed(&t, name)
	}
	return nil
}

// caughtUp waits until the engine has read all definitions of the log.
func (e *Engine) caughtUp(ctx context.Context) error {
	t, ok := e.opt.Log.Topic(e.opt.Triggers)
	if !ok {
		return nil
	}
	p, known := e.opt.Log.Position(t.ID)
	if !known || len(p.Topics[0]) == 0 {
		return ErrUnavailable
	}
	e.follower.loop.Wake()
	return e.follower.Wait(ctx, func(q *Progress) bool { return q.Open && q.Defined >= p.Topics[0][0].Next })
}

// setVersion makes d, whose topic is events, the successor of the current version, and waits until
// all firings up to d.At are recorded. A version that still reads the history is replaced, with its
// border.
func (e *Engine) setVersion(ctx context.Context, d *rule.Definition, events record.ID) error {
	old, err := e.Trigger(ctx, d.ID)
	if errors.Is(err, ErrUnknownTrigger) {
		if err := e.fits(d, nil); err != nil {
			return err
		}
		return e.nextVersion(ctx, d)
	}
	if err != nil {
		return err
	}
	if err := e.fits(d, &old.Definition); err != nil {
		return err
	}
	if old.Topic == d.Topic && old.Events != events { // recreated
		if err := e.waitBound(ctx, d.ID, events); err != nil {
			return err
		}
		old.Events = events
	}
	d.Version, d.Created, d.Border = old.Version+1, old.Created, rule.BorderGiven
	same := *d
	if old.Events == events {
		same.TopicID = old.TopicID
	}
	if same.SameResults(&old.Definition) {
		d.Version, d.TopicID, d.From, d.At = old.Version, old.TopicID, old.From, old.At
		return nil
	}
	if old.Backfilling && old.Events == events { // else both skip recent events
		d.TopicID, d.From, d.At = old.TopicID, old.From, old.At
		return nil
	}
	// The last record may be old: transitions at later deadlines also belong to the earlier
	// version.
	if err := e.tick(ctx); err != nil {
		return err
	}
	if _, err := e.setBorder(d, events); err != nil {
		return err
	}
	return e.waitRecorded(ctx, d, old)
}

// waitBound waits until a trigger follows a topic.
func (e *Engine) waitBound(ctx context.Context, id string, events record.ID) error {
	e.follower.loop.Wake()
	return e.follower.Wait(ctx, func(p *Progress) bool {
		t := p.Find(id)
		return t == nil || t.Events == events
	})
}

// waitRecorded waits until all firings of the previous version up to d.At are recorded.
func (e *Engine) waitRecorded(ctx context.Context, d *rule.Definition, old *Trigger) error {
	topic := old.Events
	e.follower.loop.Wake()
	err := e.follower.Wait(ctx, func(p *Progress) bool {
		at, ok := p.Complete[topic]
		if d.Topic == old.Topic { // a slot of the same ms may follow
			for part, next := range p.Applied[topic] {
				ok = ok && (part >= len(d.From) || next >= d.From[part])
			}
		}
		if t := p.Find(d.ID); t != nil && t.Late { // unread events belong to the late trigger
			return false
		}
		return ok && at >= d.At
	})
	if err != nil {
		return err
	}
	last, err := query(e.follower, func(q store.Queries) (int64, error) { return q.LastOutbox(ctx) })
	if err != nil {
		return err
	}
	return e.follower.Wait(ctx, func(*Progress) bool {
		n := int64(1)
		err := e.follower.Query(func(q store.Queries) (err error) {
			n, err = q.Unrecorded(ctx, d.ID, last)
			return err
		})
		return err == nil && n == 0
	})
}

// nextVersion sets the version after those of a deleted trigger with the same ID.
func (e *Engine) nextVersion(ctx context.Context, d *rule.Definition) error {
	return e.follower.Query(func(q store.Queries) error {
		v, err := q.LastVersion(ctx, d.ID)
		d.Version = v + 1
		return err
	})
}

// define appends a definition, or with nil its deletion, and waits until the engine has read it. It
// returns the offset.
func (e *Engine) define(ctx context.Context, action, id string, d *rule.Definition) (int64, error) {
	t, ok := e.opt.Log.Topic(e.opt.Triggers)
	if !ok {
		return 0, ErrUnavailable
	}
	change := audit.Change{Action: action, Resource: audit.Resource{Type: "trigger", Name: id}}
	r := record.Record{Key: []byte(id)}
	if d != nil {
		change.Details = map[string]string{"topic": d.Topic, "version": strconv.Itoa(d.Version)}
		value, err := d.Encode()
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		r.Value = value
	}
	r.Timestamp = e.opt.Now().UnixMilli()
	base, err := e.opt.Log.Append(audit.WithChange(ctx, &change), t.ID, 0, []record.Record{r})
	if err != nil {
		return 0, fmt.Errorf("trigger %s: %w", id, err)
	}
	e.follower.loop.Wake()
	return base, e.follower.Wait(ctx, func(p *Progress) bool { return p.Defined > base })
}

// Pause suppresses firings from now on and stops deliveries; with paused false it resumes both.
// Errors: ErrUnknownTrigger and those of Put.
func (e *Engine) Pause(ctx context.Context, id string, paused bool) error {
	action := "trigger.resume"
	if paused {
		action = "trigger.pause"
	}
	return e.alter(ctx, action, id, nil, func(d *rule.Definition) *rule.Definition {
		d.Status = rule.Active
		if paused {
			d.Status = rule.Paused
		}
		return d
	})
}

// Delete deletes a trigger that meets a condition (nil: any), and cancels its undelivered firings.
// Errors: a *ConditionError, and those of Pause.
func (e *Engine) Delete(ctx context.Context, id string, is Condition) error {
	return e.alter(ctx, "trigger.delete", id, is, func(*rule.Definition) *rule.Definition { return nil })
}

func (e *Engine) alter(ctx context.Context, action, id string, is Condition, f func(d *rule.Definition) *rule.Definition) error {
	if !e.opt.Log.Leads() {
		return ErrNotLeader
	}
	e.change.Lock()
	defer e.change.Unlock()
	for range putTries {
		if err := e.caughtUp(ctx); err != nil {
			return err
		}
		old, err := e.Trigger(ctx, id)
		if err != nil {
			return err
		}
		if h, err := e.Head(id); err != nil {
			return err
		} else if is != nil && !is(h) {
			return &ConditionError{id, h}
		}
		d := f(&old.Definition)
		offset, err := e.define(ctx, action, id, d)
		if err != nil || d == nil {
			return err
		}
		if applied, err := e.applied(id, offset); err != nil || applied {
			return err
		}
	}
	return ErrUnavailable
}

// unseen returns a warning for each name that no event of a topic has had yet.
func (e *Engine) unseen(ctx context.Context, topic record.ID, names []string) (warnings []string, err error) {
	known, err := query(e.follower, func(q store.Queries) ([]string, error) { return q.Names(ctx, topic, "", NamesMax) })
	if err != nil || len(known) == 0 { // the first trigger of the topic
		return nil, err
	}
	for _, name := range names {
		if _, ok := slices.BinarySearch(known, name); ok {
			continue
		}
		s := fmt.Sprintf("no event named %q so far", name)
		if near := driplang.Suggest(name, known); near != "" {
			s += fmt.Sprintf("; did you mean %q?", near)
		}
		warnings = append(warnings, s)
	}
	return warnings, nil
}

// Names returns names of the events of a topic that the engine has read, with a prefix, at most
// limit, sorted. It remembers NamesMax names of a topic that a trigger follows. Errors:
// ErrUnavailable, ErrClosed.
func (e *Engine) Names(ctx context.Context, topic record.ID, prefix string, limit int) ([]string, error) {
	return query(e.follower, func(q store.Queries) ([]string, error) { return q.Names(ctx, topic, prefix, limit) })
}

// Erase erases an entity of a topic of events: the state of its triggers and its firings, delivered
// or not. It appends a record with the entity as its key and without a value, so that every later
// reader of the events erases the entity too. Later events start with an empty state. Events and
// records of firings stay in the log until they are trimmed. Erase returns once the engine has
// applied the records. Errors: ErrInvalid, ErrNotLeader, ErrUnavailable, those of an append.
func (e *Engine) Erase(ctx context.Context, topic, entity string) error {
	if entity == "" || len(entity) > rule.EntityBytesMax {
		return fmt.Errorf("%w: entity: %d bytes, want 1 to %d", ErrInvalid, len(entity), rule.EntityBytesMax)
	}
	if !e.opt.Log.Leads() {
		return ErrNotLeader
	}
	t, ok := e.opt.Log.Topic(topic)
	if !ok || !t.AppendTime {
		return fmt.Errorf("%w: topic %q does not hold events", ErrInvalid, topic)
	}
	ends := make([]int64, t.Partitions) // the partitioner is unknown
	change := audit.Change{Action: "entity.erase", Resource: audit.Resource{Type: "topic", Name: topic}}
	ctx = audit.WithChange(ctx, &change)
	for part := range ends {
		base, err := e.opt.Log.Append(ctx, t.ID, uint32(part), []record.Record{{Key: []byte(entity)}})
		if err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		ends[part] = base + 1
	}
	e.follower.loop.Wake()
	return e.follower.Wait(ctx, func(p *Progress) bool {
		next, followed := p.Applied[t.ID]
		for part := range ends {
			if followed && (part >= len(next) || next[part] < ends[part]) {
				return false
			}
		}
		return true
	})
}

// ErrFull: the memory limit allows no more triggers (FullError).
var ErrFull = errors.New("trigger memory is full")

// FullError: with one more definition, triggers would exceed their share of the memory limit. It is
// ErrFull.
type FullError struct {
	Triggers          int
	Held, Wanted, Max int64 // bytes
	Limit             int64 // a sufficient memory limit
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%v: %d triggers use %s, this definition needs %s more, the limit is %s: delete triggers, or start with --memory-limit %dMiB",
		ErrFull, e.Triggers, budget.Text(e.Held), budget.Text(e.Wanted), budget.Text(e.Max), e.Limit>>20)
}

// Is matches ErrFull.
func (e *FullError) Is(t error) bool { return t == ErrFull }

// Memory returns the estimated memory of all triggers, in bytes.
func (e *Engine) Memory() int64 {
	p, _, _ := e.follower.Peek()
	return p.Held
}

// fits returns a *FullError if there is no room for a definition. A version that needs no more than
// the previous one always fits, so that triggers over the limit can be changed.
func (e *Engine) fits(d, old *rule.Definition) error {
	wanted := Memory(d)
	if old != nil {
		wanted -= Memory(old)
	}
	p, _, err := e.follower.Peek()
	most := e.opt.HeadBytes()
	if err != nil || wanted <= 0 || p.Held+wanted <= most {
		return err
	}
	// A quarter more than this one needs, so that the next one fits too.
	limit := budget.LimitFor(budget.Triggers, MemoryFor(max(p.Held+wanted, most)*5/4))
	return &FullError{
		Triggers: len(p.Triggers), Held: p.Held, Wanted: wanted, Max: most, Limit: (limit + 1<<20 - 1) &^ (1<<20 - 1),
	}
}
