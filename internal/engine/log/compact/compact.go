// Package compact makes packs: it merges commit objects and small packs, and compacts topics. Plans
// (plan.go, plan_compaction.go) decide without I/O what is merged, and in which steps. A Merger reads
// the planned ranges, writes them to a temporary file in the order of the pack, verifies the result
// against its sources, stores it and installs it (rule R8). It runs concurrently with the log, which
// never waits for it, and rests between its steps unless too many ranges wait; a failed pack is tried
// again later.
package compact

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// portionBytes is how much of a range is read at a time, in whole batches, at least one.
const portionBytes = 1 << 20

// compact runs a pass of ChooseCompaction, and reports whether it changed anything.
func (m *Merger) compact(ctx context.Context, c *Compaction, view *state.State) (done bool, err error) {
	defer c.Close()
	m.passed.begin(c)
	defer m.passed.end()
	if err := m.decide(ctx, c, view); err != nil {
		return false, fmt.Errorf("compact: %w", err)
	}
	plans, err := c.Plans()
	m.passed.drop(plans)
	dropped := 0
	for i := 0; i < len(plans) && err == nil; i++ {
		n := 0
		n, err = m.rewrite(ctx, c, plans[i], view)
		dropped += n
		err = cmp.Or(err, m.between(ctx))
	}
	if err != nil {
		return false, fmt.Errorf("compact: %w", err)
	}
	now, doubted := m.opt.Log.Now()
	if view = m.opt.Log.View(); view == nil || doubted {
		return false, nil
	}
	recs, err := c.Done(view, now.UnixMicro())
	if err != nil {
		return false, fmt.Errorf("compact: %w", err)
	}
	if c.Partial() {
		m.opt.Logger.Info("partitions partly compacted", "partitions", len(c.parts), "dropped", dropped, "read", m.passed.Read, "took", time.Since(m.passed.Started))
		return dropped > 0, nil
	}
	if len(recs) == 0 {
		return false, nil // ranges moved meanwhile: the next pass uses their new locations
	}
	failpoint.Hit("compacted.before")
	if err := m.opt.Log.Compacted(ctx, view.Pos.Epoch, recs); err != nil {
		return false, fmt.Errorf("compact: %w", err)
	}
	failpoint.Hit("compacted.after")
	m.compactions.Inc()
	m.opt.Logger.Info("partitions compacted", "partitions", len(recs), "dropped", dropped, "read", m.passed.Read, "took", time.Since(m.passed.Started))
	return true, nil
}

// decide runs the rounds of a pass.
func (m *Merger) decide(ctx context.Context, c *Compaction, view *state.State) error {
	var reader record.Reader
	for !c.Decided() {
		for _, runs := range c.Scans() {
			if c.Full() {
				break
			}
			if err := m.scan(ctx, c, runs, view, &reader); err != nil {
				return err
			}
			if err := m.between(ctx); err != nil {
				return err
			}
		}
		if err := c.Decide(func() error {
			m.pace.rest(localRest)
			return ctx.Err()
		}); err != nil {
			return err
		}
	}
	return nil
}

// between merges commit objects between the portions of a long pass if too many wait, because their
// ranges take memory of the state. A pack of them does not move the ranges of the pass, and an error of
// it is none of the pass: it is tried again after the next portion.
func (m *Merger) between(ctx context.Context) error {
	m.passed.log(m.opt.Logger)
	m.pace.start(m.rests())
	view := m.opt.Log.View()
	for ; view != nil && m.backlogged(); view = m.opt.Log.View() {
		policy := m.policy()
		policy.KeepPacks = true
		now, _ := m.opt.Log.Now()
		plan := Choose(view, policy, now.UnixMicro())
		if plan == nil {
			break
		}
		if _, err := m.merge(ctx, plan, view); err != nil {
			m.report(ctx, err)
			break
		}
		m.ranges = m.opt.Ranges()
	}
	if view == nil {
		return cmp.Or(ctx.Err(), errors.New("this broker does not lead any more"))
	}
	return ctx.Err()
}

func (m *Merger) scan(ctx context.Context, c *Compaction, runs []Run, view *state.State, r *record.Reader) error {
	src, err := m.read(ctx, runs, view)
	if err != nil {
		return err
	}
	defer src.close()
	pos := int64(0)
	for i := range runs {
		for j := range runs[i].Ranges {
			g := &runs[i].Ranges[j]
			batches := src.data[pos : pos+int64(g.Len)]
			pos += int64(g.Len)
			for len(batches) > 0 {
				n := wholeBatches(batches)
				if err := c.Scan(&runs[i], j, batches[:n], r); err != nil {
					if r.Err() != nil {
						m.bad[g.Source()] = struct{}{}
					}
					return fmt.Errorf("%s at %d: %w", view.RangeKey(g), g.Pos, err)
				}
				batches = batches[n:]
				m.pace.rest(localRest)
			}
		}
	}
	return nil
}

// read reads the ranges of runs into a temporary file, and maps it.
func (m *Merger) read(ctx context.Context, runs []Run, view *state.State) (_ *mapping, err error) {
	var ranges []*state.Range
	for i := range runs {
		for j := range runs[i].Ranges {
			ranges = append(ranges, &runs[i].Ranges[j])
		}
	}
	size := sizeOf(ranges)
	src, err := m.scratch(0, size)
	if err != nil {
		return nil, err
	}
	defer src.close() // the mapping stays
	m.passed.next(runs)
	pieces, err := m.gather(ctx, src, ranges, view)
	if err != nil {
		return nil, err
	}
	mapped, err := mapFile(src.file, size)
	if err != nil {
		return nil, err
	}
	if err := m.check(ctx, src.file, mapped, pieces); err != nil {
		mapped.close()
		return nil, err
	}
	m.passed.add(size)
	return mapped, nil
}

// rewrite filters runs and makes a pack of the rest. It returns the number of dropped records.
func (m *Merger) rewrite(ctx context.Context, c *Compaction, runs []Run, view *state.State) (dropped int, err error) {
	src, err := m.read(ctx, runs, view)
	if err != nil {
		return 0, err
	}
	defer src.close()
	f, err := m.tempFile()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	filter := filtering{merger: m, pass: c, view: view, src: src.data, file: f, out: bufio.NewWriterSize(f, 256<<10)}
	plan, err := filter.all(runs)
	if err != nil {
		return 0, err
	}
	layout := NewLayout(plan, view, m.opt.Log.NextPack())
	p, err := m.withHead(ctx, f, filter.size, layout)
	if err != nil {
		return 0, fmt.Errorf("build %s: %w", layout.Key(), err)
	}
	defer p.close()
	if err := m.finish(ctx, layout, p); err != nil {
		return 0, err
	}
	c.Installed(layout)
	m.packs.Inc()
	m.bytes.AddInt64(p.size)
	m.dropped.Add(filter.dropped)
	return filter.dropped, nil
}

// withHead makes the pack of the batches in a file.
func (m *Merger) withHead(ctx context.Context, batches *os.File, size int64, l *Layout) (_ *output, err error) {
	p, err := m.newPack(ctx, len(l.Index), size)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err = m.copyLarge(p.file, p.head, batches, 0, size); err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	return p, p.seal(l, &m.pace)
}

// filtering writes the remaining records of runs to a file.
type filtering struct {
	merger *Merger
	pass   *Compaction
	view   *state.State
	src    []byte // the unread rest
	file   *os.File
	out    *bufio.Writer
	size   int64 // bytes in the file that are kept

	compactor record.Compactor
	buf       []byte
	dropped   int
}

// all filters the runs and plans a pack of the rest, which is then in the file, in order.
func (f *filtering) all(runs []Run) (*Plan, error) {
	out := make([][]Filtered, len(runs))
	for i := range runs {
		for j := range runs[i].Ranges {
			left, err := f.oneRange(&runs[i], j)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], left)
		}
	}
	if err := f.out.Flush(); err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	return f.pass.Changed(runs, out)
}

// oneRange filters a range in portions.
func (f *filtering) oneRange(run *Run, j int) (left Filtered, err error) {
	r := &run.Ranges[j]
	src := f.src[:r.Len]
	f.src = f.src[r.Len:]
	dropped := 0
	keep := func(e *record.CompactEntry) bool {
		stays := f.pass.Keep(run, j, e)
		if !stays {
			dropped++
		}
		return stays
	}
	f.compactor.Drop = func(b record.Batch) bool {
		if !f.pass.Drops(run, b) {
			return false
		}
		dropped += b.Count()
		return true
	}
	begin := f.size
	for len(src) > 0 {
		n := wholeBatches(src)
		var sum record.Summary
		if f.buf, sum, err = f.compactor.Append(f.buf[:0], src[:n], keep); err != nil {
			f.merger.bad[r.Source()] = struct{}{}
			return left, fmt.Errorf("%s at %d: %w", f.view.RangeKey(r), r.Pos, err)
		}
		if _, err := f.out.Write(f.buf); err != nil {
			return left, fmt.Errorf("temporary file: %w", err)
		}
		f.size += int64(len(f.buf))
		left.Add(sum)
		src = src[n:]
		f.merger.pace.rest(localRest)
	}
	if f.size-begin > math.MaxUint32 || left.Span != int64(r.Span) || int(left.Records) != int(r.Records)-dropped {
		return left, fmt.Errorf("%s at %d: filtering %d records over %d offsets with %d dropped left %d over %d in %d bytes",
			f.view.RangeKey(r), r.Pos, r.Records, r.Span, dropped, left.Records, left.Span, f.size-begin)
	}
	left.Len = uint32(f.size - begin)
	f.dropped += dropped
	return left, nil
}

// wholeBatches returns the length of the batches at the start of b, at least one, that make about
// portionBytes.
func wholeBatches(b []byte) int {
	n := 0
	for n < len(b) && n < portionBytes {
		batch, _, err := record.Split(b[n:])
		if err != nil {
			return len(b) // the reader of the batches reports the error
		}
		n += batch.Len()
	}
	return n
}

// mapping is a file mapped for reading. It regularly drops its pages, so that few of them count as
// this process's memory: a pack may be as large as the broker's whole memory limit.
type mapping struct {
	data []byte
	stop chan struct{}
	wg   sync.WaitGroup
}

// dropInterval is how often pages are dropped; a few MiB are read meanwhile.
const dropInterval = time.Millisecond

// mapFile maps a file of size bytes for reading. After close the caller must not use data. Writes
// to the file are visible in data. Writing through the mapping is avoided, because on a full disk
// that kills the process.
func mapFile(f *os.File, size int64) (*mapping, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map temporary file: %w", err)
	}
	m := &mapping{data: data, stop: make(chan struct{})}
	m.wg.Go(m.dropPages)
	return m, nil
}

func (m *mapping) dropPages() {
	tick := time.NewTicker(dropInterval)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
			m.forget()
		}
	}
}

// forget drops all pages. A shared mapping loses nothing by it.
// only advice: a failure only weakens the bound
func (m *mapping) forget() { _ = unix.Madvise(m.data, unix.MADV_DONTNEED) }

func (m *mapping) close() {
	close(m.stop)
	m.wg.Wait()
	_ = unix.Munmap(m.data)
}

// copyBytes copies n bytes between positions of two files.
func copyBytes(to *os.File, at int64, from *os.File, pos, n int64) error {
	done, err := io.Copy(io.NewOffsetWriter(to, at), io.NewSectionReader(from, pos, n))
	if err == nil && done < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}
