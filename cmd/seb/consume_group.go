package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

// commitEvery is the interval of commits.
const commitEvery = time.Second

// runGroup prints the records that a consumer group has not read yet. It commits only records that
// are already written, so a crash repeats records and skips none.
func (c *consumeFlags) runGroup(cmd *cobra.Command, cl *client.Client, topic string, out *printer) error {
	ctx := cmd.Context()
	start, err := c.groupStart(cmd)
	if err != nil {
		return err
	}
	k, err := cl.Consumer(ctx, c.group, topic, client.ConsumerOptions{
		Partitions: c.partitions, Start: start, Follow: c.follow, CommitEvery: -1,
	})
	if err != nil {
		return err
	}
	// An interrupt must not cancel the last commit and Close.
	last := context.WithoutCancel(ctx)
	defer k.Close(last)
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	wg.Go(func() { out.commitAll(reading, k, stop) })
	for err == nil {
		var m client.Message
		if m, err = k.Next(reading); err == nil {
			if err = out.print(m.Partition, m.Record); errors.Is(err, errEnough) {
				k.Done()
			}
		}
	}
	cause := context.Cause(reading)
	stop(nil)
	wg.Wait()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, errEnough), c.follow && ctx.Err() != nil:
		err = nil
	case cause != nil:
		err = cause
	}
	finished := k.Positions()
	if fault := out.end(nil); fault != nil {
		return errors.Join(err, fault) // records that were not written are not committed
	}
	return errors.Join(err, k.CommitPositions(last, finished))
}

// groupStart returns the start of a group without committed offsets.
func (c *consumeFlags) groupStart(cmd *cobra.Command) (int64, error) {
	offset, err := parseOffset(c.offset)
	if err == nil && offset >= 0 {
		err = errors.New("--offset: the group already has committed offsets; use `seb group reset` to move it")
	}
	if err != nil {
		return 0, usageError{err}
	}
	return offset, nil
}

// commitAll flushes the printed records and then commits them, periodically until ctx ends. An
// error stops the read.
func (p *printer) commitAll(ctx context.Context, k *client.Consumer, stop context.CancelCauseFunc) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	since := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// before the flush, because records that are printed during it may still be in the buffer
		finished := k.Positions()
		p.mu.Lock()
		err := p.w.Flush()
		p.mu.Unlock()
		if err == nil && time.Since(since) >= commitEvery {
			err = k.CommitPositions(ctx, finished)
			since = time.Now()
		}
		if err != nil && ctx.Err() == nil {
			stop(err)
		}
	}
}
