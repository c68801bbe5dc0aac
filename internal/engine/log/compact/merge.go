package compact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// Log is the leader for which packs are made.
type Log interface {
	// View returns the committed state, immutable; nil while this broker is not leader.
	View() *state.State
	// Now is the log time. While it is doubted, nothing is deleted for its age (rule R15).
	Now() (now time.Time, doubted bool)
	// NextPack returns a number that no other pack of this epoch has or had.
	NextPack() uint64
	// Install proposes the record of a stored pack and waits for it. It is rejected in another epoch
	// than that of the pack.
	Install(ctx context.Context, epoch uint32, c *state.PackContent) error
	// Compacted proposes the records of finished compactions and waits for them. They are rejected
	// in another epoch.
	Compacted(ctx context.Context, epoch uint32, recs []state.Record) error
}

// Options configure a Merger. Log and Store must be set.
type Options struct {
	Log   Log
	Store objstore.Store
	// TempDir is the folder of temporary files; "": the system's. With an objstore.Stager packs are
	// built in the store.
	TempDir string
	Policy  Policy
	// Every is the interval at which the merger checks whether a pack is due, without requests. 1
	// minute.
	Every time.Duration
	// Ranges, if not nil, is the number of ranges in the state. When it has grown by Policy.Backlog
	// since the last check, the next check runs at once, because the memory of ranges is bounded.
	// It is called once a second.
	Ranges func() int
	// Purge, if not nil, returns the records that must leave the bucket. Purged is called when no
	// object of the state has them; later collections delete the others.
	Purge  func() Purge
	Purged func(below int64)
	// Frugal, if not nil, reports whether requests are short (Policy.Frugal).
	Frugal func() bool
	// Checksums sends a CRC-32C with each pack, for stores that accept one.
	Checksums bool

	// Progress, if not nil, shows the running compaction.
	Progress *Progress

	Logger  *slog.Logger
	Metrics *metrics.Set
}

const (
	// retryMax bounds the attempts to store one pack. An abandoned pack is garbage that a later
	// epoch collects.
	retryMax = 10
	retryMin = time.Second
	// backlogPoll is the interval at which the number of ranges is checked.
	backlogPoll = time.Second
	// putTimeout and readTimeout bound one request; each MiB adds a second.
	putTimeout  = 30 * time.Second
	readTimeout = 10 * time.Second
)

// Merger makes one pack at a time until it is closed.
type Merger struct {
	opt    Options
	cancel context.CancelFunc
	wg     sync.WaitGroup
	// ranges that could not be read or verified; they are not merged
	bad    map[state.Source]struct{}
	busy   bool   // result of measureInflow
	left   int64  // bytes that waited after the last check
	ranges int    // number of ranges after the last check
	small  []byte // holds small ranges
	pace   pace
	purging

	packs, bytes, failed *metrics.Counter

	compactions, dropped *metrics.Counter
	passed               passed
}

// Open starts a merger. Close it before its Log and Store.
func Open(o Options) *Merger {
	if o.Every <= 0 {
		o.Every = time.Minute
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	ctx, cancel := context.WithCancel(context.Background()) //nolint:contextcheck // ended by Close
	m := &Merger{
		opt: o, cancel: cancel, bad: map[state.Source]struct{}{}, small: make([]byte, joinedMax),
		packs:  o.Metrics.GetOrCreateCounter(`seb_merge_packs_total`),
		bytes:  o.Metrics.GetOrCreateCounter(`seb_merge_bytes_total`),
		failed: o.Metrics.GetOrCreateCounter(`seb_merge_failures_total`),

		compactions: o.Metrics.GetOrCreateCounter(`seb_compactions_total`),
		dropped:     o.Metrics.GetOrCreateCounter(`seb_compaction_records_dropped_total`),
		passed:      newPassed(&o),
	}
	m.wg.Go(func() { m.run(ctx) })
	return m
}

// Close cancels the current work and waits. It may be called twice.
func (m *Merger) Close() {
	m.cancel()
	m.wg.Wait()
}

func (m *Merger) run(ctx context.Context) {
	tick := time.NewTicker(m.opt.Every)
	defer tick.Stop()
	backlog := time.NewTicker(backlogPoll)
	defer backlog.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-backlog.C:
			if !m.backlogged() {
				continue
			}
		}
		m.measureInflow()
		for ctx.Err() == nil {
			m.pace.start(m.rests())
			more, err := m.Once(ctx)
			m.report(ctx, err)
			if !more || err != nil {
				break
			}
		}
		m.left = m.waiting()
		if m.opt.Ranges != nil {
			m.ranges = m.opt.Ranges()
		}
	}
}

// report counts and logs an error, unless Close is the reason.
func (m *Merger) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		m.failed.Inc()
		m.opt.Logger.Warn("merge failed", "err", err)
	}
}

// backlogged reports whether so many ranges were added since the last check that the next one must
// not wait.
func (m *Merger) backlogged() bool {
	return m.opt.Ranges != nil && m.opt.Policy.Backlog > 0 && m.added() >= m.opt.Policy.Backlog
}

// rests reports whether merging may rest between its steps: not if twice as many ranges wait as start
// it, because then it is slower than the producers.
func (m *Merger) rests() bool { return m.opt.Ranges != nil && m.added() < 2*m.opt.Policy.Backlog }

// added is the number of ranges that were added since the last check.
func (m *Merger) added() int { return m.opt.Ranges() - m.ranges }

// busyRate is the inflow in bytes per second, between two checks, at which a broker is busy.
// Producers then need the disk and the network, and merging can wait.
const busyRate = 8 << 20

// measureInflow sets busy by the bytes that were added since the last check.
func (m *Merger) measureInflow() {
	m.busy = float64(m.waiting()-m.left) >= busyRate*m.opt.Every.Seconds()
}

// waiting is the number of bytes to merge.
func (m *Merger) waiting() int64 {
	view := m.opt.Log.View()
	if view == nil {
		return 0
	}
	return Waiting(view, m.policy())
}

// policy is the current policy.
func (m *Merger) policy() Policy {
	policy := m.opt.Policy
	policy.Busy = m.busy
	policy.Frugal = m.opt.Frugal != nil && m.opt.Frugal()
	if policy.Scratch == nil {
		policy.Scratch = func() (Scratch, error) { return m.tempFile() }
	}
	policy.Skip = func(s state.Source) bool { _, bad := m.bad[s]; return bad }
	if m.opt.Purge != nil {
		policy.Purge = m.opt.Purge()
	}
	return policy
}

// Once makes a pack if one is due, or else runs a compaction if one is due, and reports whether it
// did either. It must not be called while the merger runs in the background.
func (m *Merger) Once(ctx context.Context) (made bool, err error) {
	view := m.opt.Log.View()
	if view == nil {
		return false, nil
	}
	policy := m.policy()
	now, doubted := m.opt.Log.Now()
	if plan := Choose(view, policy, now.UnixMicro()); plan != nil {
		return m.merge(ctx, plan, view)
	}
	if doubted {
		return false, nil // a compaction removes tombstones by age
	}
	if c := ChooseCompaction(view, policy, now.UnixMicro()); c != nil {
		return m.compact(ctx, c, view)
	}
	return m.purge(ctx, policy, view, now.UnixMicro())
}

// merge makes one pack of commit objects and smaller packs.
func (m *Merger) merge(ctx context.Context, plan *Plan, view *state.State) (made bool, err error) {
	layout := NewLayout(plan, view, m.opt.Log.NextPack())
	begin := time.Now()
	p, err := m.build(ctx, layout, view)
	if err != nil {
		return false, fmt.Errorf("build %s: %w", layout.Key(), err)
	}
	defer p.close()
	if err := m.finish(ctx, layout, p); err != nil {
		return false, err
	}
	m.packs.Inc()
	m.bytes.AddInt64(plan.Bytes)
	m.opt.Logger.Info("pack merged", "pack", layout.Key(), "bytes", plan.Bytes, "sources", len(layout.Index), "took", time.Since(begin))
	return true, nil
}

// finish stores and installs the pack in the steps of Next (rule R8).
func (m *Merger) finish(ctx context.Context, l *Layout, p *output) error {
	failpoint.Hit("pack.built")
	step, attempts := Next(Built), 0
	for {
		switch step {
		case Put:
			if attempts++; attempts > retryMax {
				return fmt.Errorf("store %s: no verdict after %d attempts", l.Key(), retryMax)
			}
			if err := pause.Wait(ctx, time.Duration(attempts-1)*retryMin); err != nil {
				return err
			}
			result, err := m.put(ctx, l.Key(), p)
			if err != nil {
				return fmt.Errorf("store %s: %w", l.Key(), err)
			}
			step = Next(result)
		case Install:
			failpoint.Hit("install.before")
			err := m.opt.Log.Install(ctx, l.Head.Epoch, l.Content())
			failpoint.Hit("install.after")
			if err != nil {
				return fmt.Errorf("install %s: %w", l.Key(), err)
			}
			step = Next(Acked)
		default:
			return nil
		}
	}
}

func (m *Merger) put(ctx context.Context, key string, p *output) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout+time.Duration(p.size>>20)*time.Second)
	defer cancel()
	failpoint.Hit("put.pack.before")
	err := m.store(ctx, key, p)
	failpoint.Hit("put.pack.after")
	switch {
	case err == nil, errors.Is(err, objstore.ErrExists): // an earlier attempt: our nonce is in the name
		return Stored, nil
	case errors.Is(err, objstore.ErrRefused):
		return 0, err
	}
	return NoVerdict, nil
}

func (m *Merger) store(ctx context.Context, key string, p *output) error {
	if p.staged != nil {
		return p.staged.Publish(ctx, key)
	}
	mapped, err := mapFile(p.file, p.size)
	if err != nil {
		return err
	}
	defer m.pace.rest(min(time.Duration(p.size>>20)*remoteRest, time.Second)) // from signing and sending
	defer mapped.close()
	body := objstore.NewBody(mapped.data)
	if m.opt.Checksums {
		body.HasCRC, body.CRC32C = true, record.ObjectCRC32C(mapped.data[:p.head], [][]byte{mapped.data[p.head:]})
	}
	return m.opt.Store.Put(ctx, key, body)
}

// purging is the progress of a purge. A restarted broker begins again.
type purging struct {
	of    Purge
	since int64                     // time (µs) at which the compaction was complete
	pure  map[state.PackID]struct{} // packs without removed records
}

// purge rewrites a pack that has removed records of a purge between the data of other topics, and
// reports whether it did. Packs and commit objects without remaining data need no rewriting,
// because a collection deletes them.
func (m *Merger) purge(ctx context.Context, policy Policy, view *state.State, now int64) (made bool, err error) {
	p := &m.purging
	if p.of != policy.Purge {
		*p = purging{of: policy.Purge, pure: map[state.PackID]struct{}{}}
	}
	if p.of.Below == 0 || p.of.Owed(view, p.since) {
		return false, nil
	}
	if p.since == 0 {
		p.since = now // commit objects from before must be merged, too
		return false, nil
	}
	for id, key := range Packs(view) {
		if _, pure := p.pure[id]; pure {
			continue
		}
		dead, err := m.hasDead(ctx, view, id, key)
		if err != nil && !errors.Is(err, record.ErrCorrupt) && !errors.Is(err, objstore.ErrDamaged) {
			return false, fmt.Errorf("purge: read %s: %w", key, err)
		}
		if p.pure[id] = struct{}{}; !dead {
			continue
		}
		if plan := Rewriting(view, policy, id); plan != nil {
			return m.merge(ctx, plan, view)
		}
	}
	m.opt.Logger.Info("removed records purged", "topic", p.of.Topic, "below", p.of.Below)
	m.opt.Purged(p.of.Below)
	return false, nil
}

// indexGuess is the length of the first read of a pack: a head and hundreds of index entries.
const indexGuess = 64 << 10

// hasDead reports whether a pack has records of the purge that no reader can reach.
func (m *Merger) hasDead(ctx context.Context, view *state.State, id state.PackID, key string) (dead bool, err error) {
	for size := int64(indexGuess); ; {
		b, err := m.readStart(ctx, key, size)
		if err != nil {
			return false, err
		}
		_, _, index, need, err := record.DecodeMeta(b)
		if err != nil {
			return false, err
		}
		if need == 0 {
			for i := range index {
				dead = dead || m.purging.of.Dead(view, id, &index[i])
			}
			return dead, nil
		}
		if int64(need) <= size {
			return false, &record.CorruptError{What: "object is cut off", Want: int64(need), Got: int64(len(b))}
		}
		size = int64(need)
	}
}

func (m *Merger) readStart(ctx context.Context, key string, size int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	o, err := m.opt.Store.Get(ctx, key, objstore.Range{Length: size})
	if err != nil {
		return nil, err
	}
	defer o.Body.Close()
	return io.ReadAll(io.LimitReader(o.Body, size))
}
