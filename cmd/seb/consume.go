package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/record"
)

// consumeFlags are the flags of `seb consume`.
type consumeFlags struct {
	remote     remote
	group      string
	offset     string
	since      string
	partitions []int32
	follow     bool
	count      int64
	format     string
	isolation  string
	filter     consumeFilter
}

func newConsume() *cobra.Command {
	var c consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print the records of a topic",
		Long: `Prints the records of TOPIC, one per line, from the start (or --offset, --since) to the end, partition by partition. With
--follow it continues with new records until it is interrupted.

With --group it continues at the committed offsets of that consumer group, reads all partitions concurrently, and commits the
records that it has written to stdout. If it is killed, the next run skips nothing and may repeat the last second.

With --where and --contains the broker looks through the records and sends only those that match both. In the value of an
event the properties of a filter are those of its data, as in a trigger, and event and entity_id are its name and entity. In
other JSON values they are the members of the value. A terminal shows how many records were looked at.

The records of a transaction (Kafka) are printed after it was committed, and so are those behind them. With --isolation
uncommitted all records are printed, also those of open and aborted transactions.`,
		Example: "  seb consume demo\n  seb consume demo | sort\n  seb consume demo --follow --offset latest\n  seb consume demo --since 2h\n  seb consume demo --format json -p 0 --offset 42 -n 1\n  seb consume events --where 'event = \"purchase\" AND amount > 100'\n  seb consume orders --group billing --follow",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	cmd.ValidArgsFunction = c.remote.topicNames
	c.remote.register(cmd)
	f := cmd.Flags()
	f.StringVarP(&c.group, "group", "g", "", "continue at the committed offsets of this consumer group; --offset is for partitions without one")
	f.StringVarP(&c.offset, "offset", "o", "earliest", "first offset: a number, earliest or latest")
	f.StringVar(&c.since, "since", "", "begin at the first record from then on: an age (e.g. 2h, 7d) or a time (2027-01-31T00:00:00Z)")
	f.Int32SliceVarP(&c.partitions, "partition", "p", nil, "partitions to read (default all)")
	f.BoolVarP(&c.follow, "follow", "f", false, "continue with new records")
	f.Int64VarP(&c.count, "count", "n", 0, "stop after N records (0: no limit)")
	f.StringVar(&c.format, "format", "value", "value (one per line), raw (values without newlines), key-value (key TAB value), json (one object per line)")
	f.StringVar(&c.isolation, "isolation", api.IsolationCommitted, "committed, or uncommitted for the records of open and aborted transactions too")
	atLeast(cmd, "count", 0)
	cmd.Flags().StringVarP(&c.filter.where, "where", "w", "", `only records whose value satisfies a filter of driplang (e.g. 'amount > 100 AND event = "purchase"')`)
	cmd.Flags().StringVar(&c.filter.contains, "contains", "", "only records whose key or value contains this text")
	return cmd
}

func (c *consumeFlags) run(cmd *cobra.Command, topic string) error {
	from, err := c.begin(cmd)
	if err != nil {
		return usageError{err}
	}
	write, ok := recordFormats[c.format]
	if !ok {
		return usageError{fmt.Errorf("--format: %q, want value, raw, key-value or json", c.format)}
	}
	uncommitted, err := c.uncommitted()
	if err != nil {
		return usageError{err}
	}
	if err := c.filter.check(cmd, c.group); err != nil {
		return usageError{err}
	}
	c.filter.notice = cmd.ErrOrStderr()
	cl, err := c.remote.client(cmd)
	if err != nil {
		return err
	}
	defer cl.Close()
	out := &printer{w: bufio.NewWriterSize(c.filter.over(cmd.OutOrStdout()), 64<<10), write: write, left: c.count}
	if c.group != "" {
		return c.runGroup(cmd, cl, topic, out)
	}
	if err := from.find(cmd.Context(), cl, topic); err != nil {
		return err
	}
	partitions := from.partitions
	read := func(ctx context.Context, p int32) error {
		o := client.ReadOptions{Partition: p, Offset: from.at(p), Follow: c.follow, Uncommitted: uncommitted}
		c.filter.options(&o, out.flush)
		defer func() { c.filter.bar.Clear() }() // it is created later
		for r, err := range cl.Records(ctx, topic, o) {
			if err != nil {
				return err
			}
			if err := out.print(p, r); err != nil {
				return err
			}
		}
		return nil
	}
	if c.follow {
		return out.follow(cmd.Context(), partitions, read)
	}
	for _, p := range partitions {
		if err = read(cmd.Context(), p); err != nil {
			break
		}
	}
	return out.end(err)
}

// uncommitted reads the flag of the isolation.
func (c *consumeFlags) uncommitted() (bool, error) {
	switch {
	case c.isolation != api.IsolationCommitted && c.isolation != api.IsolationUncommitted:
		return false, fmt.Errorf("--isolation: %q, want %s or %s", c.isolation, api.IsolationCommitted, api.IsolationUncommitted)
	case c.isolation == api.IsolationUncommitted && c.group != "":
		return false, errors.New("--isolation: a group reads committed records only")
	}
	return c.isolation == api.IsolationUncommitted, nil
}

// start is where a read begins.
type start struct {
	offset     int64     // of all partitions, if since is zero
	since      time.Time // the time of the first record
	partitions []int32   // to read; empty: all, until find
	offsets    map[int32]int64
}

// begin reads the flags of the start.
func (c *consumeFlags) begin(cmd *cobra.Command) (s start, err error) {
	s.partitions = c.partitions
	if s.offset, err = parseOffset(c.offset); err != nil || c.since == "" {
		return s, err
	}
	switch {
	case cmd.Flags().Changed("offset"):
		return s, errors.New("--since: not together with --offset")
	case c.group != "":
		return s, errors.New("--since: not together with --group, which begins at the committed offsets")
	}
	if s.since, err = parseSince(c.since, time.Now()); err != nil {
		err = fmt.Errorf("--since: %w", err)
	}
	return s, err
}

// find asks the broker for what the flags leave open.
func (s *start) find(ctx context.Context, c *client.Client, topic string) error {
	if !s.since.IsZero() {
		list, err := c.OffsetsSince(ctx, topic, s.since)
		if err != nil {
			return err
		}
		all := make([]int32, len(list))
		s.offsets = make(map[int32]int64, len(list))
		for i, p := range list {
			all[i], s.offsets[p.Partition] = p.Partition, p.Offset
		}
		if len(s.partitions) == 0 {
			s.partitions = all
		}
		return nil
	}
	if len(s.partitions) > 0 {
		return nil
	}
	t, err := c.Topic(ctx, topic)
	for _, p := range t.Partitions {
		s.partitions = append(s.partitions, p.Partition)
	}
	return err
}

// at returns the start of one partition.
func (s *start) at(partition int32) int64 {
	if offset, found := s.offsets[partition]; found {
		return offset
	}
	return s.offset
}

func parseOffset(s string) (int64, error) {
	switch s {
	case "earliest":
		return client.Earliest, nil
	case "latest":
		return client.Latest, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("--offset: %q, want a number, earliest or latest", s)
	}
	return n, nil
}

// printer writes records, also of several partitions concurrently.
type printer struct {
	write func(w *bufio.Writer, partition int32, r *record.Record) error

	mu   sync.Mutex // guards w and left
	w    *bufio.Writer
	left int64 // number of records to print; no limit if it starts at 0
}

var errEnough = errors.New("--count records printed")

func (p *printer) print(partition int32, r *record.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < 0 {
		return errEnough
	}
	if err := p.write(p.w, partition, r); err != nil {
		return err
	}
	if p.left > 0 {
		if p.left--; p.left == 0 {
			p.left = -1
			return errEnough
		}
	}
	return nil
}

// flush writes what is printed.
func (p *printer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Flush()
}

// end flushes and returns the final error of the read.
func (p *printer) end(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(err, errEnough) {
		err = nil
	}
	return errors.Join(err, p.w.Flush())
}

// flushEvery bounds the time that a followed record waits in the buffer.
const flushEvery = 50 * time.Millisecond

// follow reads all partitions concurrently until ctx ends, which is the normal end, or one of them
// fails.
func (p *printer) follow(ctx context.Context, partitions []int32, read func(context.Context, int32) error) error {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, partition := range partitions {
		wg.Go(func() {
			if err := read(ctx, partition); err != nil {
				cancel(err)
			}
		})
	}
	wg.Go(func() {
		tick := time.NewTicker(flushEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := p.flush(); err != nil {
					cancel(err)
				}
			}
		}
	})
	wg.Wait()
	err := context.Cause(ctx)
	if outer.Err() != nil {
		err = nil
	}
	return p.end(err)
}

var recordFormats = map[string]func(w *bufio.Writer, partition int32, r *record.Record) error{
	"value": func(w *bufio.Writer, _ int32, r *record.Record) error {
		_, _ = w.Write(r.Value)
		return w.WriteByte('\n')
	},
	"raw": func(w *bufio.Writer, _ int32, r *record.Record) error {
		_, err := w.Write(r.Value)
		return err
	},
	"key-value": func(w *bufio.Writer, _ int32, r *record.Record) error {
		_, _ = w.Write(r.Key)
		_ = w.WriteByte('\t')
		_, _ = w.Write(r.Value)
		return w.WriteByte('\n')
	},
	"json": writeJSONRecord,
}

// consumeFilter selects records, and shows how far the broker has looked for them.
type consumeFilter struct {
	where, contains string
	notice          io.Writer     // of the progress bar
	bar             *progress.Bar // of the present partition; nil: none
}

// check reports what is wrong with the flags.
func (f *consumeFilter) check(cmd *cobra.Command, group string) error {
	for _, name := range []string{"where", "contains"} {
		switch text, _ := cmd.Flags().GetString(name); {
		case !cmd.Flags().Changed(name):
		case text == "":
			return fmt.Errorf("--%s: empty", name)
		case group != "":
			return fmt.Errorf("--%s: not together with --group, which commits all records", name)
		}
	}
	if f.where == "" {
		return nil
	}
	_, err := driplang.ParseFilter(f.where)
	if fault, ok := errors.AsType[*driplang.Error](err); ok {
		return fmt.Errorf("--where: %w", fault)
	}
	return err
}

// options adds the filter to the read of a partition. Records that were found are on the screen
// before the progress bar.
func (f *consumeFilter) options(o *client.ReadOptions, flush func() error) {
	if f.where == "" && f.contains == "" {
		return
	}
	o.Where, o.Contains = f.where, []byte(f.contains)
	if o.Follow {
		return
	}
	f.bar.Clear()
	f.bar = nil
	o.Progress = func(p client.ScanProgress) {
		_ = flush() // an error appears at the end
		if f.bar == nil {
			f.bar = progress.New(f.notice, fmt.Sprintf("partition %d", o.Partition), *p.NextOffset-*p.Offset+p.Records, nil)
		}
		f.bar.Set(p.Records)
	}
}

// over returns a writer of records that removes the progress bar first.
func (f *consumeFilter) over(w io.Writer) io.Writer { return &clearing{w, f} }

type clearing struct {
	io.Writer
	f *consumeFilter
}

func (c *clearing) Write(b []byte) (int, error) {
	c.f.bar.Clear()
	return c.Writer.Write(b)
}

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
