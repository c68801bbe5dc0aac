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

// commitEvery is how often what was printed for a group is committed, while there is something.
const commitEvery = time.Second

// runGroup prints what a consumer group has not read yet. What is committed was written out before: records are printed
// again after a crash, and none is left out.
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
	// The last commit and the end must not be given up when the command is interrupted.
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
		return errors.Join(err, fault) // what was not written out is not committed
	}
	return errors.Join(err, k.CommitPositions(last, finished))
}

// groupStart is where a group begins that has committed nothing.
func (c *consumeFlags) groupStart(cmd *cobra.Command) (int64, error) {
	offset, err := parseOffset(c.offset)
	if err == nil && offset >= 0 {
		err = errors.New("--offset: a group goes on where it got to; `seb group reset` moves it")
	}
	if err != nil {
		return 0, usageError{err}
	}
	return offset, nil
}

// commitAll flushes what was printed, and then commits it, until ctx ends. An error stops the reading.
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
		finished := k.Positions() // before the flush: what is printed after it is not written out yet
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
