package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

const (
	// GroupNameMax and MetadataMax are the limits, in bytes, of a consumer group's name and of an
	// offset's metadata.
	GroupNameMax = state.GroupNameMax
	MetadataMax  = 4096
)

// OffsetCommit is a consumer group's offset in a partition.
type OffsetCommit struct {
	Topic     string
	Partition int32
	// the next one to read; not checked against the partition's bounds. SubmitOffsets accepts some
	// below 0
	Offset   int64
	Metadata string // opaque, at most MetadataMax bytes of UTF-8
	// Expected, if not nil, refuses the commit unless it equals the group's committed offset; -1
	// means none.
	Expected *int64
	// NoMembers refuses the commit with ErrGroupActive while the group has members. Only package
	// group/coordinator, which knows them, heeds it.
	NoMembers bool
}

// GroupInfo describes a consumer group's committed offsets.
type GroupInfo struct {
	Name    string
	Offsets []GroupOffset // by topic and partition
}

// GroupOffset is a group's offset in one partition. Next-max(Offset, Start) records are left to
// read, none if that is negative. An Offset below 0 was committed by a Kafka client and means no
// position.
type GroupOffset struct {
	Topic       string
	Partition   int32
	Offset      int64
	Metadata    string
	Committed   time.Time
	Start, Next int64 // of the partition
}

// OffsetTicket is the pending result of one SubmitOffsets.
type OffsetTicket struct {
	log    *log.Ticket // of the accepted commits, in order; nil if there is none
	errs   []error     // of the refused commits
	passed []int       // the index in errs of each commit of log
	ops    []core.Op
}

// closedDone is the Done of a ticket without an accepted commit.
var closedDone = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// CommitOffsets stores offsets of a group and waits until they are committed. A group's first
// offset creates the group. Each commit has its own result, in order; nil means durable (rule R4).
// Commits are stored with the next commit object. Without other data they wait for
// Options.Batch.DeferWait, so that consumers cause few store requests.
//
// Errors: *OffsetMismatchError, ErrUnknownTopic, ErrUnknownPartition, ErrInvalid, ErrFull, and
// those of an append.
func (b *Broker) CommitOffsets(ctx context.Context, group string, commits []OffsetCommit) []error {
	return b.submitOffsets(ctx, group, commits, offsetConditions{}).Wait(ctx)
}

// SubmitOffsets queues commits in call order and returns without waiting. It also accepts the
// negative offsets of Kafka clients, down to state.CommitMin; they mean no position. The commits are
// refused in another epoch, because the caller has compared them with the members that the
// group has in that one.
func (b *Broker) SubmitOffsets(ctx context.Context, epoch uint32, group string, commits []OffsetCommit) *OffsetTicket {
	return b.submitOffsets(ctx, group, commits, offsetConditions{least: state.CommitMin, epoch: epoch})
}

// offsetConditions are conditions of commits: the least offset, and if not 0, the only epoch.
type offsetConditions struct {
	least int64
	epoch uint32
}

func (b *Broker) submitOffsets(ctx context.Context, group string, commits []OffsetCommit, on offsetConditions) *OffsetTicket {
	t := &OffsetTicket{
		errs: make([]error, len(commits)),
		ops:  make([]core.Op, 0, len(commits)), passed: make([]int, 0, len(commits)),
	}
	refuse := b.refuses(ctx)
	if refuse == nil {
		refuse = CheckGroup(group)
	}
	now := b.opt.Now().UnixMicro()
	for i := range commits {
		c := &commits[i]
		id, err := partKey{}, refuse
		if err == nil {
			err = c.check(on.least)
		}
		if err == nil {
			id, err = b.partition(c.Topic, c.Partition)
		}
		if err != nil {
			t.errs[i] = err
			continue
		}
		op := core.Op{Record: state.Record{
			Kind: state.OffsetCommit, Name: group, Topic: id.topic, Partition: id.partition, Offset: c.Offset,
			Metadata: c.Metadata, Time: now,
		}, Check: ClientOf(ctx).Check, Epoch: on.epoch}
		if c.Expected != nil {
			op.Conditional, op.Expected = true, *c.Expected
		}
		t.ops, t.passed = append(t.ops, op), append(t.passed, i)
	}
	if len(t.ops) > 0 {
		t.log = b.log.ProposeDeferred(t.ops)
	}
	return t
}

// Done is closed when every commit has its result: it is durable, it never will be, or its outcome
// is unknown because the broker has stopped.
func (t *OffsetTicket) Done() <-chan struct{} {
	if t.log == nil {
		return closedDone
	}
	return t.log.Done()
}

// Wait returns an error or nil for each commit, in order. If ctx ends first, commits that were not
// sent are withdrawn (ErrNotSent), and sent ones are ErrOutcomeUnknown. Wait may be called again,
// and concurrently.
func (t *OffsetTicket) Wait(ctx context.Context) []error {
	errs := slices.Clone(t.errs)
	if t.log == nil {
		return errs
	}
	results := t.log.Wait(ctx)
	for i := range results {
		errs[t.passed[i]] = results[i].Err()
	}
	return errs
}

// CheckGroup returns an *InvalidError if a consumer group's name is not allowed.
func CheckGroup(name string) error {
	if err := state.CheckGroupName(name); err != nil {
		return &state.InvalidError{Field: "group", Reason: err.Error()}
	}
	return nil
}

func (c *OffsetCommit) check(least int64) error {
	switch {
	case c.Offset < least:
		return &state.InvalidError{Field: "offset", Reason: fmt.Sprintf("%d is below %d", c.Offset, least)}
	case c.Offset > state.CommitMax:
		return &state.InvalidError{Field: "offset", Reason: fmt.Sprintf("%d is above %d", c.Offset, state.CommitMax)}
	case c.Expected != nil && *c.Expected < -1:
		return &state.InvalidError{Field: "expected offset", Reason: fmt.Sprintf("%d is neither an offset nor -1", *c.Expected)}
	case len(c.Metadata) > MetadataMax:
		return &state.InvalidError{Field: "metadata", Reason: fmt.Sprintf("%d bytes, limit %d", len(c.Metadata), MetadataMax)}
	case !utf8.ValidString(c.Metadata):
		return &state.InvalidError{Field: "metadata", Reason: "is not UTF-8"}
	}
	return nil
}

// partition returns a partition's permanent key.
func (b *Broker) partition(topic string, partition int32) (partKey, error) {
	r, err := b.rules(topic, partition)
	return partKey{r.id, uint32(partition)}, err
}

// Group describes a consumer group, or returns ErrUnknownGroup. For confirm and its errors see
// Topic.
func (b *Broker) Group(ctx context.Context, name string, confirm bool) (GroupInfo, error) {
	if confirm {
		if err := b.Confirm(ctx); err != nil {
			return GroupInfo{}, err
		}
	}
	err := state.ErrUnknownGroup
	var info GroupInfo
	b.log.Read(func(s *state.State) {
		if g := s.Group(name); g != nil {
			info, err = describeGroup(s, g), nil
		}
	})
	return info, err
}

// Groups describes all consumer groups, by name.
func (b *Broker) Groups(context.Context) []GroupInfo {
	var infos []GroupInfo
	b.log.Read(func(s *state.State) {
		for _, g := range s.Groups() {
			infos = append(infos, describeGroup(s, g))
		}
	})
	return infos
}

// GroupRef is the size of a consumer group's committed offsets.
type GroupRef struct {
	Name    string
	Offsets int
	Text    int // bytes of metadata
}

// GroupRefs lists all consumer groups with committed offsets, by name.
func (b *Broker) GroupRefs() (refs []GroupRef) {
	b.log.Read(func(s *state.State) {
		for _, g := range s.Groups() {
			refs = append(refs, refToGroup(g))
		}
	})
	return refs
}

// GroupRef returns that of one group. An unknown group has only its name.
func (b *Broker) GroupRef(name string) (r GroupRef) {
	r.Name = name
	b.log.Read(func(s *state.State) {
		if g := s.Group(name); g != nil {
			r = refToGroup(g)
		}
	})
	return r
}

func refToGroup(g *state.Group) GroupRef {
	r := GroupRef{Name: g.Name, Offsets: len(g.Offsets)}
	for _, c := range g.Offsets {
		r.Text += len(c.Metadata)
	}
	return r
}

func describeGroup(s *state.State, g *state.Group) GroupInfo {
	info := GroupInfo{Name: g.Name, Offsets: make([]GroupOffset, 0, len(g.Offsets))}
	for id, c := range g.Offsets {
		t := s.Topic(id.Topic)
		if t == nil || int(id.Partition) >= t.Partitions.Len() {
			continue // unreachable: a topic's deletion deletes its offsets
		}
		p := t.Partitions.At(int(id.Partition))
		info.Offsets = append(info.Offsets, GroupOffset{
			Topic: t.Name, Partition: int32(id.Partition), Offset: c.Offset, Metadata: c.Metadata,
			Committed: time.UnixMicro(c.Time), Start: p.Start, Next: p.Next,
		})
	}
	sorting.Sort(info.Offsets, func(a, b GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return info
}

// GroupLag is the number of a topic's records after the committed offsets of a consumer group.
type GroupLag struct {
	Group, Topic string
	Records      int64
}

// GroupLags returns the limit largest lags by group and topic, largest first, and the number of
// groups with a committed offset. A partition without a committed offset does not count.
func (b *Broker) GroupLags(limit int) (lags []GroupLag, groups int) {
	cut := func() {
		sorting.Sort(lags, func(a, b GroupLag) int {
			return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic))
		})
		lags = lags[:min(len(lags), limit)]
	}
	b.log.Read(func(s *state.State) {
		byTopic := map[record.ID]int64{}
		for _, g := range s.Groups() {
			groups++
			clear(byTopic)
			for id, c := range g.Offsets {
				t := s.Topic(id.Topic)
				if t == nil || c.Offset < 0 || int(id.Partition) >= t.Partitions.Len() {
					continue
				}
				p := t.Partitions.At(int(id.Partition))
				byTopic[id.Topic] += max(0, p.Next-max(c.Offset, p.Start))
			}
			for id, records := range byTopic {
				lags = append(lags, GroupLag{Group: g.Name, Topic: s.Topic(id).Name, Records: records})
			}
			if len(lags) >= 2*limit {
				cut()
			}
		}
	})
	cut()
	return lags, groups
}

// DeleteGroup deletes all offsets of a group and waits until that is committed. Errors:
// ErrUnknownGroup, and those of an append.
func (b *Broker) DeleteGroup(ctx context.Context, name string) error {
	return b.propose(ctx, state.Record{Kind: state.OffsetDelete, Name: name}, changeOf("group.delete", access.Group, name))
}

// DeleteOffset deletes a group's offset in one partition, if it has one, and waits until that is
// committed. Without its last offset a group no longer exists. Errors: ErrUnknownGroup,
// ErrUnknownTopic, ErrUnknownPartition, and those of an append.
func (b *Broker) DeleteOffset(ctx context.Context, group, topic string, partition int32) error {
	id, err := b.partition(topic, partition)
	if err != nil {
		return err
	}
	c := changeOf("group.delete-offset", access.Group, group, "topic", topic, "partition", strconv.Itoa(int(partition)))
	return b.propose(ctx, state.Record{Kind: state.OffsetDelete, Name: group, Topic: id.topic, Partition: id.partition}, c)
}
