package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Topic describes a committed topic. With confirm it first asks the store for newer commits, unless
// the broker knows that there are none (rule R11). The answer is then at most as old as the log's
// idle check, one minute. Errors: ErrUnknownTopic; with confirm ErrFenced, ErrStoreUnavailable, the
// context's.
func (b *Broker) Topic(ctx context.Context, name string, confirm bool) (TopicInfo, error) {
	if confirm {
		if err := b.Confirm(ctx); err != nil {
			return TopicInfo{}, err
		}
	}
	err := state.ErrUnknownTopic
	var info TopicInfo
	b.log.Read(func(s *state.State) {
		if t := s.TopicByName(name); t != nil {
			info, err = describe(t), nil
		}
	})
	return info, err
}

// Topics describes all topics, by name.
func (b *Broker) Topics(context.Context) []TopicInfo {
	var infos []TopicInfo
	b.log.Read(func(s *state.State) {
		for _, t := range s.Topics() {
			infos = append(infos, describe(t))
		}
	})
	return infos
}

// Partitions returns how many partitions a topic has, or ErrUnknownTopic.
func (b *Broker) Partitions(name string) (int, error) {
	n, err := 0, state.ErrUnknownTopic
	b.log.Read(func(s *state.State) {
		if t := s.TopicByName(name); t != nil {
			n, err = t.Partitions.Len(), nil
		}
	})
	return n, err
}

// Resolved returns how many partitions a topic has, and its settings with the defaults filled in,
// or ErrUnknownTopic.
func (b *Broker) Resolved(name string) (partitions int, settings state.Settings, err error) {
	err = state.ErrUnknownTopic
	b.log.Read(func(s *state.State) {
		if t := s.TopicByName(name); t != nil {
			partitions, settings, err = t.Partitions.Len(), state.Resolve(t.Settings), nil
		}
	})
	return partitions, settings, err
}

// Limits returns the limits by which record.Check checks a client's batches for a topic, or
// ErrUnknownTopic.
func (b *Broker) Limits(name string) (record.Limits, error) {
	r, err := b.rules(name, 0)
	return record.Limits{BatchBytes: r.maxBatch, DecompressedBytes: b.opt.Budget.Limit() / 4}, err
}

func describe(t *state.Topic) TopicInfo {
	info := TopicInfo{Name: t.Name, ID: t.ID, Settings: maps.Clone(t.Settings), Partitions: make([]PartitionInfo, t.Partitions.Len())}
	for i, p := range t.Partitions.All() {
		info.Partitions[i] = describePartition(p)
	}
	return info
}

func describePartition(p *state.Partition) PartitionInfo {
	info := PartitionInfo{Start: p.Start, Next: p.Next, Stable: p.LastStable(), Records: p.Records, Bytes: p.Bytes, Compacted: p.Clean}
	if p.LatestCommit != 0 {
		info.LatestCommit = time.UnixMicro(p.LatestCommit)
	}
	if len(p.Ranges) > 0 { // a trim may have ended inside the first range
		r := &p.Ranges[0]
		info.Records -= max(0, int64(r.Records)-(r.End()-p.Start))
	}
	return info
}

// CreateTopic creates a topic and waits until that is committed. Errors: ErrInvalid,
// ErrTopicExists, and those of an append.
func (b *Broker) CreateTopic(ctx context.Context, name string, spec TopicSpec) (TopicInfo, error) {
	if err := state.CheckTopicName(name); err != nil {
		return TopicInfo{}, &state.InvalidError{Field: "topic-name", Reason: err.Error()}
	}
	spec.Partitions = cmp.Or(spec.Partitions, 1)
	if err := checkPartitions(spec.Partitions); err != nil {
		return TopicInfo{}, err
	}
	settings, err := checkSettings(spec.Settings)
	if err == nil {
		err = b.checkQueue(settings, spec.Partitions)
	}
	if err != nil {
		return TopicInfo{}, err
	}
	return b.change(ctx, name, state.Record{
		Kind: state.TopicCreate, Topic: record.NewID(), Name: name, Partitions: uint32(spec.Partitions), Settings: settings,
	}, topicChange("topic.create", name, spec.Partitions, nil, settings))
}

// UpdateTopic adds partitions, merges settings ("" removes one) and waits until that is committed.
// It refuses to remove partitions, and to add them to a compacted topic. Errors: ErrInvalid,
// ErrUnknownTopic, and those of an append.
func (b *Broker) UpdateTopic(ctx context.Context, name string, spec TopicSpec) (TopicInfo, error) {
	select {
	case b.topics <- struct{}{}: // concurrent updates would overwrite each other's settings
		defer func() { <-b.topics }()
	case <-ctx.Done():
		return TopicInfo{}, fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
	}
	now, settings, err := b.updated(name, spec)
	if err != nil {
		return TopicInfo{}, err
	}
	return b.change(ctx, name, state.Record{
		Kind: state.TopicChange, Topic: now.ID, Partitions: uint32(spec.Partitions), Settings: settings,
	}, topicChange("topic.alter", name, spec.Partitions, now.Settings, settings))
}

// CheckUpdate returns the error of UpdateTopic without an update.
func (b *Broker) CheckUpdate(_ context.Context, name string, spec TopicSpec) error {
	_, _, err := b.updated(name, spec)
	return err
}

// updated returns a topic, and its settings after an update.
func (b *Broker) updated(name string, spec TopicSpec) (now TopicRef, settings map[string]string, err error) {
	now, ok := b.TopicNamed(name)
	if !ok {
		return now, nil, state.ErrUnknownTopic
	}
	merged := maps.Clone(now.Settings)
	if merged == nil {
		merged = map[string]string{}
	}
	for k, v := range spec.Settings {
		if v == "" {
			delete(merged, k)
		} else {
			merged[k] = v
		}
	}
	if (now.Settings[state.QueueSetting] == "") != (merged[state.QueueSetting] == "") {
		return now, nil, &state.InvalidError{Field: "settings", Reason: "setting queue: a topic becomes a queue when it is created, and stays one"}
	}
	if settings, err = checkSettings(merged); err == nil {
		err = b.checkQueue(settings, spec.Partitions)
	}
	if err == nil {
		err = checkGrowth(now.Partitions, spec.Partitions, settings)
	}
	return now, settings, err
}

// DeleteTopic deletes a topic that is not in use (Options.InUse) and waits until that is committed.
// Errors: ErrUnknownTopic, ErrTopicInUse, ErrAuditTopic, and those of an append.
func (b *Broker) DeleteTopic(ctx context.Context, name string) error {
	if _, ok := b.TopicNamed(name); !ok {
		return state.ErrUnknownTopic
	}
	if b.opt.InUse != nil {
		if err := b.opt.InUse(ctx, name); err != nil {
			return err
		}
	}
	return b.ForceDeleteTopic(ctx, name)
}

// ForceDeleteTopic deletes a topic even if it is in use, and waits until that is committed. Errors:
// ErrUnknownTopic, ErrAuditTopic, and those of an append.
func (b *Broker) ForceDeleteTopic(ctx context.Context, name string) error {
	now, ok := b.TopicNamed(name)
	if !ok {
		return state.ErrUnknownTopic
	}
	if name == b.opt.AuditTopic {
		return fmt.Errorf("topic %q: %w; start the broker without --audit-topic to delete it", name, state.ErrAuditTopic)
	}
	return b.propose(ctx, state.Record{Kind: state.TopicDelete, Topic: now.ID}, changeOf("topic.delete", access.Topic, name))
}

func checkPartitions(n int) error {
	if n < 1 || n > state.PartitionsMax {
		return &state.InvalidError{Field: "partitions", Reason: fmt.Sprintf("%d is not between 1 and %d", n, state.PartitionsMax)}
	}
	return nil
}

func checkSettings(given map[string]string) (map[string]string, error) {
	settings, err := state.CheckSettings(given)
	if err != nil {
		return nil, &state.InvalidError{Field: "settings", Reason: err.Error()}
	}
	return settings, nil
}

// checkGrowth refuses a number of partitions that would lose records or move keys. 0 means no
// change.
func checkGrowth(have, want int, settings map[string]string) error {
	switch {
	case want == 0 || want == have:
		return nil
	case want < have:
		return &state.InvalidError{Field: "partitions", Reason: fmt.Sprintf("%d is less than the current %d", want, have)}
	case strings.HasPrefix(state.Resolve(settings).CleanupPolicy, "compact"):
		return &state.InvalidError{Field: "partitions", Reason: "cannot be added to a compacted topic: keys would move to other partitions"}
	}
	return checkPartitions(want)
}

// change proposes a state record and describes the topic after it.
func (b *Broker) change(ctx context.Context, name string, r state.Record, c *audit.Change) (TopicInfo, error) {
	if err := b.propose(ctx, r, c); err != nil {
		return TopicInfo{}, err
	}
	return b.Topic(ctx, name, false)
}

// propose makes a change of a client, with an audit record about it, and waits until that is
// committed.
func (b *Broker) propose(ctx context.Context, r state.Record, c *audit.Change) error {
	if err := b.refuses(ctx); err != nil {
		return err
	}
	op := core.Op{Record: r, Check: ClientOf(ctx).Check}
	a, err := b.auditRecord(ctx, c)
	switch {
	case err != nil:
		return err
	case a == nil:
		return b.log.ProposeAll([]core.Op{op}).Wait(ctx)[0].Err()
	}
	return b.log.ProposeAudited(op, a).Wait(ctx)[0].Err()
}

// AutoCreates reports whether EnsureTopic creates topics.
func (b *Broker) AutoCreates() bool { return b.opt.AutoCreate }

// DefaultPartitions is the number of partitions of a topic that is created without a number.
func (b *Broker) DefaultPartitions() int { return max(1, b.opt.DefaultPartitions) }

// EnsureTopic returns nil if the topic exists. If not, and AutoCreates, it creates the topic with
// DefaultPartitions and default settings and waits until that is committed. Concurrent callers
// share one attempt. On an error nothing was appended: ErrUnknownTopic without AutoCreates,
// ErrInternalTopic, ErrInvalid, and those of an append except ErrOutcomeUnknown.
func (b *Broker) EnsureTopic(ctx context.Context, name string) error {
	return b.EnsureTopicAs(ctx, name, TopicSpec{})
}

// EnsureTopicAs is EnsureTopic with a spec for a created topic. An existing topic does not change.
func (b *Broker) EnsureTopicAs(ctx context.Context, name string, spec TopicSpec) error {
	if spec.Partitions == 0 {
		spec.Partitions = b.DefaultPartitions()
	}
	for {
		if _, err := b.Partitions(name); err == nil {
			return nil
		}
		if b.ReadOnly() {
			return state.ErrReadOnly
		}
		if !b.opt.AutoCreate {
			return state.ErrUnknownTopic
		}
		if err := b.checkInternal(name); err != nil {
			return err
		}
		e, first := b.ensures.join(name)
		if first {
			_, err := b.CreateTopic(ctx, name, spec)
			switch {
			case errors.Is(err, state.ErrTopicExists):
				err = nil
			case errors.Is(err, state.ErrOutcomeUnknown):
				err = fmt.Errorf("%w: creation of the topic is not confirmed", state.ErrStoreUnavailable)
			}
			b.ensures.leave(name, e, err)
			return err
		}
		select {
		case <-e.done:
			if e.err != nil && !errors.Is(e.err, ErrNotSent) && !errors.Is(e.err, state.ErrUnauthorized) { // of another client
				return e.err
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
		}
	}
}

// ensures are the topic creations under way, at most one for each name.
type ensures struct {
	mu sync.Mutex // guards of
	of map[string]*ensure
}

type ensure struct {
	done chan struct{}
	err  error // set before done is closed
}

// join returns the attempt for a name. With first, the caller makes the attempt and calls leave.
func (s *ensures) join(name string) (e *ensure, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[name]; e != nil {
		return e, false
	}
	if s.of == nil {
		s.of = map[string]*ensure{}
	}
	e = &ensure{done: make(chan struct{})}
	s.of[name] = e
	return e, true
}

func (s *ensures) leave(name string, e *ensure, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.err = err
	close(e.done)
	delete(s.of, name)
}

// catalog locates a plan's data by the newest state (Catalog).
type catalog struct {
	b *Broker
	plan
}

// Missing implements Catalog. Before it reports a missing object as corruption, it asks the store
// whether anything newer is committed: a trim, a compaction or another leader may have made the
// object obsolete.
func (x catalog) Missing(ctx context.Context, c *Piece) (moved bool, err error) {
	if moved, err := x.relocate(c); moved || err != nil {
		return moved, err
	}
	if err := x.b.log.ConfirmLost(ctx); err != nil {
		return false, fmt.Errorf("%w: %s does not hold the data, and the log cannot be confirmed: %w", state.ErrStoreUnavailable, c.Key, err)
	}
	return x.relocate(c)
}

// relocate looks a piece up in the current state.
func (x catalog) relocate(c *Piece) (moved bool, err error) {
	id := x.parts[c.Part].id
	now, at, forgotten := partPlan{}, planRange{}, false
	x.b.log.Read(func(s *state.State) {
		now.look(s, &x.wants[c.Part])
		at = rangeOf(s, id, c.Offset)
		forgotten = x.parts[c.Part].forgotten(s)
	})
	switch {
	case now.err != nil:
		return false, now.err
	case now.id != id: // the topic was deleted, and another one has its name
		return false, state.ErrUnknownTopic
	case at.key == "" || at.key == c.Key && at.Pos == c.Range.Pos:
		return false, nil
	case forgotten:
		return false, &StoreError{"read " + c.Key, errForgotten}
	}
	c.Range, c.Key = at.Range, at.key
	return true, nil
}

var errForgotten = errors.New("its aborted transactions were compacted after the read began")

// forgotten reports whether the state does not know an aborted transaction any more of which the answer would tell.
// What has moved may then lack its marker, up to which a Kafka client leaves out batches of the producer: it would
// leave out committed ones.
func (pp *partPlan) forgotten(s *state.State) bool {
	t := s.Topic(pp.id.topic)
	if len(pp.aborted) == 0 || t == nil {
		return false
	}
	known := t.Partitions.At(int(pp.id.partition)).Aborted
	return slices.ContainsFunc(pp.aborted, func(a state.AbortedTransaction) bool { return !slices.Contains(known, a) })
}

// rangeOf returns the range that holds an offset of a partition; key is empty if none does.
func rangeOf(s *state.State, id partKey, offset int64) planRange {
	t := s.Topic(id.topic)
	if t == nil || int(id.partition) >= t.Partitions.Len() {
		return planRange{}
	}
	p := t.Partitions.At(int(id.partition))
	i := p.Find(offset)
	if i < 0 {
		return planRange{}
	}
	r := p.Ranges[i]
	if r.Lost() {
		return planRange{}
	}
	return planRange{r, s.RangeKey(&r)}
}

// Damaged implements Catalog.
func (x catalog) Damaged(c *Piece, err error) error {
	return x.b.corrupt(&x.wants[c.Part], c, err)
}

// corrupt returns the named error for a damaged piece, and raises an alarm. Nothing is deleted or
// skipped (rule R9).
func (b *Broker) corrupt(w *Want, c *Piece, err error) error {
	e := &CorruptError{Topic: w.Topic, Partition: w.Partition, Offset: c.Range.Base, Key: c.Key, Err: err}
	b.met.corrupt.Inc()
	b.lines.Log(b.opt.Logger, slog.LevelError, e.Key, "corrupt data in the bucket", "topic", e.Topic, "partition", e.Partition, "offset", e.Offset,
		"key", e.Key, "err", err)
	return e
}
