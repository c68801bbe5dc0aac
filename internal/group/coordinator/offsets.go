package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/group"
)

// Commit admits a commit of offsets as the group's rules are for the caller, and queues it. What it returns waits for the
// outcome: an error for each offset as broker.CommitOffsets gives it; or a code, if none was admitted, or the outcome is not
// known by the end of its ctx or of Options.CommitTimeout (group.RequestTimedOut): then it may become any.
func (c *Coordinator) Commit(caller *group.Caller, commits []broker.OffsetCommit) (wait func(ctx context.Context) ([]error, group.Code)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	code := c.leadLocked()
	var admitted uint64
	if code == group.OK {
		admitted, code = c.core.Begin(c.now(), caller)
	}
	if code != group.OK {
		return func(context.Context) ([]error, group.Code) { return nil, code }
	}
	ticket := c.queueLocked(caller.Group, admitted, commits)
	return func(ctx context.Context) ([]error, group.Code) {
		late := time.NewTimer(c.o.CommitTimeout)
		defer late.Stop()
		select {
		case <-ticket.Done():
			return ticket.Wait(ctx), group.OK
		case <-ctx.Done():
		case <-late.C:
		}
		return nil, group.RequestTimedOut
	}
}

// queueLocked queues what the core has admitted.
func (c *Coordinator) queueLocked(group string, admitted uint64, commits []broker.OffsetCommit) *broker.OffsetTicket {
	t := c.b.SubmitOffsets(c.ctx, group, commits)
	c.countLocked()
	c.done.Go(func() {
		t.Wait(c.ctx)
		c.ended(group, admitted)
	})
	return t
}

// ended tells the core that something that it admitted is settled.
func (c *Coordinator) ended(group string, admitted uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.core != nil {
		c.core.End(c.now(), group, admitted, &c.out)
		c.settleLocked()
	}
}

// Offsets is what a group has committed, no older than broker.Group promises if it is asked to confirm. A group that has nothing
// is no error. Errors: those of broker.Group; broker.ErrNotLeader, broker.ErrReadOnly or why the broker is done while groups are not
// coordinated here.
func (c *Coordinator) Offsets(ctx context.Context, groupID string) (broker.GroupInfo, error) {
	if c.Ready() != group.OK {
		return broker.GroupInfo{}, c.away()
	}
	info, err := c.b.Group(ctx, groupID, true)
	if errors.Is(err, broker.ErrUnknownGroup) {
		return broker.GroupInfo{Name: groupID}, nil
	}
	return info, err
}

// Size is how much a group has committed, for who wants to ask for it.
func (c *Coordinator) Size(group string) broker.GroupRef { return c.b.GroupRef(group) }

// away says why groups are not coordinated here.
func (c *Coordinator) away() error {
	if err := c.b.Err(); err != nil {
		return err
	}
	if c.b.ReadOnly() {
		return broker.ErrReadOnly
	}
	return broker.ErrNotLeader
}

// CommitOffsets is broker.CommitOffsets for who is no member: those of the commits that do not say what they expect are
// refused with broker.ErrGroupActive while the group has members.
func (c *Coordinator) CommitOffsets(ctx context.Context, groupID string, commits []broker.OffsetCommit) []error {
	c.mu.Lock()
	var ticket *broker.OffsetTicket
	admitted, code := c.admitLocked(groupID)
	if code == group.OK {
		ticket = c.queueLocked(groupID, admitted, commits)
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
			errs[i] = broker.ErrOverBudget
		}
		return errs
	}
	return c.b.CommitOffsets(ctx, groupID, commits) // it knows what is wrong, or there are no members
}

// admitLocked reserves a group for a change by who is no member.
func (c *Coordinator) admitLocked(groupID string) (uint64, group.Code) {
	if code := c.leadOfLocked(groupID); code != group.OK {
		return 0, code
	}
	return c.core.Reserve(c.now(), groupID)
}

// commitExpected commits to a group that has members.
func (c *Coordinator) commitExpected(ctx context.Context, group string, commits []broker.OffsetCommit) []error {
	errs := make([]error, len(commits))
	var let []broker.OffsetCommit
	var of []int
	for i := range commits {
		if commits[i].Expected == nil {
			errs[i] = broker.ErrGroupActive
			continue
		}
		let, of = append(let, commits[i]), append(of, i)
	}
	for i, err := range c.b.CommitOffsets(ctx, group, let) {
		errs[of[i]] = err
	}
	return errs
}

// DeleteGroup is broker.DeleteGroup; broker.ErrGroupActive while the group has members.
func (c *Coordinator) DeleteGroup(ctx context.Context, group string) error {
	return c.change(ctx, group, func(ctx context.Context) error { return c.b.DeleteGroup(ctx, group) })
}

// DeleteOffset is broker.DeleteOffset; broker.ErrGroupActive while the group has members.
func (c *Coordinator) DeleteOffset(ctx context.Context, group, topic string, partition int32) error {
	return c.change(ctx, group, func(ctx context.Context) error { return c.b.DeleteOffset(ctx, group, topic, partition) })
}

// change changes the offsets of a group that has no members; those that come wait until it is settled, whether or not the
// caller does.
func (c *Coordinator) change(ctx context.Context, groupID string, do func(ctx context.Context) error) error {
	done := make(chan error, 1)
	c.mu.Lock()
	admitted, code := c.admitLocked(groupID)
	if code == group.OK {
		c.countLocked()
		c.done.Go(func() {
			done <- do(c.ctx)
			c.ended(groupID, admitted)
		})
	}
	c.mu.Unlock()
	switch code {
	case group.OK:
	case group.NonEmptyGroup:
		return broker.ErrGroupActive
	case group.CoordinatorNotAvailable:
		return broker.ErrOverBudget
	default:
		return do(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return broker.ErrOutcomeUnknown
	}
}
