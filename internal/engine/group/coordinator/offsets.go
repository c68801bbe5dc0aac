package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// Commit admits a commit of offsets by the group's rules for the caller, and queues it. The
// returned function waits for the outcome. It returns an error for each offset, as
// broker.CommitOffsets does, or a code if the commit was not admitted. The code is
// group.RequestTimedOut if the outcome is not known when ctx ends or after Options.CommitTimeout;
// the commit may then still succeed.
func (c *Coordinator) Commit(caller *group.Caller, check *access.Check, commits []broker.OffsetCommit) (wait func(ctx context.Context) ([]error, group.Code)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	admitted, code := c.admitCallerLocked(caller)
	if code != group.OK {
		return func(context.Context) ([]error, group.Code) { return nil, code }
	}
	ticket := c.queueLocked(caller.Group, admitted, commits, check)
	return c.outcome(ticket.Done(), ticket.Wait)
}

// Stage is Commit for offsets that a transaction commits: it adds them to the transaction. caller.Transactional must be
// set. Stage sets s.Epoch, and s must not be changed before the outcome is known.
func (c *Coordinator) Stage(caller *group.Caller, check *access.Check, s *broker.StageOffsets) (wait func(ctx context.Context) ([]error, group.Code)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	admitted, code := c.admitCallerLocked(caller)
	if code != group.OK {
		return func(context.Context) ([]error, group.Code) { return nil, code }
	}
	c.countLocked()
	core, done := c.core, make(chan struct{})
	var errs []error
	s.Epoch = c.epoch
	c.staging[s] = struct{}{}
	c.done.Go(func() {
		errs = c.b.StageOffsets(broker.WithClient(c.ctx, broker.Client{Check: check}), *s)
		close(done)
		c.mu.Lock()
		delete(c.staging, s)
		c.mu.Unlock()
		c.endCommit(core, s.Group, admitted)
	})
	return c.outcome(done, func(context.Context) []error { return errs })
}

// admitCallerLocked admits a commit of offsets by the group's rules.
func (c *Coordinator) admitCallerLocked(caller *group.Caller) (admitted uint64, code group.Code) {
	if code = c.leadLocked(); code != group.OK {
		return 0, code
	}
	return c.core.Begin(c.now(), caller)
}

// outcome returns a function that waits for the outcome of a commit, as Commit describes.
func (c *Coordinator) outcome(done <-chan struct{}, errs func(context.Context) []error) func(ctx context.Context) ([]error, group.Code) {
	return func(ctx context.Context) ([]error, group.Code) {
		late := time.NewTimer(c.o.CommitTimeout)
		defer late.Stop()
		select {
		case <-done:
			return errs(ctx), group.OK
		case <-ctx.Done():
		case <-late.C:
		}
		return nil, group.RequestTimedOut
	}
}

// Staged calls f with the partitions for which transactions hold offsets of a group, or will hold those of an admitted
// commit. A static member replaces its last run without waiting for such a commit.
func (c *Coordinator) Staged(groupID string, f func(topic string, partition int32)) {
	c.mu.Lock()
	for s := range c.staging { //tidy:unordered f is told of a set
		if s.Group != groupID {
			continue
		}
		for i := range s.Commits {
			f(s.Commits[i].Topic, s.Commits[i].Partition)
		}
	}
	c.mu.Unlock()
	// Afterwards: one that has ended in between is there.
	for _, id := range c.b.Staged(groupID) {
		if t, ok := c.b.TopicOf(id.Topic); ok {
			f(t.Name, int32(id.Partition))
		}
	}
}

// queueLocked queues an admitted commit.
func (c *Coordinator) queueLocked(group string, admitted uint64, commits []broker.OffsetCommit, check *access.Check) *broker.OffsetTicket {
	t := c.b.SubmitOffsets(broker.WithClient(c.ctx, broker.Client{Check: check}), c.epoch, group, commits)
	c.countLocked()
	core := c.core
	c.done.Go(func() {
		t.Wait(c.ctx)
		c.endCommit(core, group, admitted)
	})
	return t
}

// endCommit tells the core that has admitted a commit that it is settled.
func (c *Coordinator) endCommit(core *group.Core, group string, admitted uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.core == core && core != nil {
		core.End(c.now(), group, admitted, &c.out)
		c.settleLocked()
	}
}

// Offsets returns the committed offsets of a group, confirmed as broker.Group promises. A group
// without offsets is no error. Errors: those of broker.Group; if this broker does not coordinate
// groups, state.ErrNotLeader, state.ErrReadOnly or the error that stopped the broker.
func (c *Coordinator) Offsets(ctx context.Context, groupID string) (broker.GroupInfo, error) {
	if c.Ready() != group.OK {
		return broker.GroupInfo{}, c.unavailable()
	}
	info, err := c.b.Group(ctx, groupID, true)
	if errors.Is(err, state.ErrUnknownGroup) {
		return broker.GroupInfo{Name: groupID}, nil
	}
	return info, err
}

// Size is the size of a group's committed offsets, to reserve memory before Offsets.
func (c *Coordinator) Size(group string) broker.GroupRef { return c.b.GroupRef(group) }

// unavailable is the reason why this broker does not coordinate groups.
func (c *Coordinator) unavailable() error {
	if err := c.b.Err(); err != nil {
		return err
	}
	if c.b.ReadOnly() {
		return state.ErrReadOnly
	}
	return state.ErrNotLeader
}

// CommitOffsets is broker.CommitOffsets for callers that are no members. While the group has
// members, it refuses commits without an expected offset, or that ask for no members, with
// broker.ErrGroupActive.
func (c *Coordinator) CommitOffsets(ctx context.Context, groupID string, commits []broker.OffsetCommit) []error {
	c.mu.Lock()
	var ticket *broker.OffsetTicket
	admitted, code := c.admitLocked(groupID)
	if code == group.OK {
		ticket = c.queueLocked(groupID, admitted, commits, broker.ClientOf(ctx).Check)
	}
	c.mu.Unlock()
	switch code {
	case group.OK:
		return ticket.Wait(ctx)
	case group.NonEmptyGroup:
		return c.commitExpected(ctx, groupID, commits)
	case group.CoordinatorNotAvailable:
		errs := make([]error, len(commits))
		for i := range errs {
			errs[i] = state.ErrOverBudget
		}
		return errs
	}
	return c.b.CommitOffsets(ctx, groupID, commits) // it reports the error, or there are no members
}

// admitLocked reserves a group for a change by a caller that is no member.
func (c *Coordinator) admitLocked(groupID string) (uint64, group.Code) {
	if code := c.leadOfLocked(groupID); code != group.OK {
		return 0, code
	}
	return c.core.Reserve(c.now(), groupID)
}

// commitExpected commits to a group with members.
func (c *Coordinator) commitExpected(ctx context.Context, group string, commits []broker.OffsetCommit) []error {
	errs := make([]error, len(commits))
	var allowed []broker.OffsetCommit
	var index []int
	for i := range commits {
		if commits[i].Expected == nil || commits[i].NoMembers {
			errs[i] = broker.ErrGroupActive
			continue
		}
		allowed, index = append(allowed, commits[i]), append(index, i)
	}
	for i, err := range c.b.CommitOffsets(ctx, group, allowed) {
		errs[index[i]] = err
	}
	return errs
}

// DeleteGroup is broker.DeleteGroup. It returns broker.ErrGroupActive while the group has members.
func (c *Coordinator) DeleteGroup(ctx context.Context, group string) error {
	return c.change(ctx, group, func(ctx context.Context) error { return c.b.DeleteGroup(ctx, group) })
}

// DeleteOffset is broker.DeleteOffset. It returns broker.ErrGroupActive while the group has
// members.
func (c *Coordinator) DeleteOffset(ctx context.Context, group, topic string, partition int32) error {
	return c.change(ctx, group, func(ctx context.Context) error { return c.b.DeleteOffset(ctx, group, topic, partition) })
}

// change changes the offsets of a group without members. Members that join meanwhile wait until the
// change is settled, whether or not the caller waits.
func (c *Coordinator) change(ctx context.Context, groupID string, do func(ctx context.Context) error) error {
	done := make(chan error, 1)
	c.mu.Lock()
	admitted, code := c.admitLocked(groupID)
	if code == group.OK {
		c.countLocked()
		core := c.core
		c.done.Go(func() {
			done <- do(broker.WithClient(c.ctx, broker.ClientOf(ctx)))
			c.endCommit(core, groupID, admitted)
		})
	}
	c.mu.Unlock()
	switch code {
	case group.OK:
	case group.NonEmptyGroup:
		return broker.ErrGroupActive
	case group.CoordinatorNotAvailable:
		return state.ErrOverBudget
	default:
		return do(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return state.ErrOutcomeUnknown
	}
}
