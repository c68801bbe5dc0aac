package compactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/sebbroker/seb/internal/log/pack"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
)

// Log is the leader that packs are made for.
type Log interface {
	// View returns the committed state, immutable; nil while this broker does not lead.
	View() *state.State
	// Now is the log's time. While it is doubted nothing is deleted for its age (rule R15).
	Now() (now time.Time, doubted bool)
	// NextPack returns a number that no other pack of this epoch has, nor ever had.
	NextPack() uint64
	// Install proposes the record of a stored pack and says what came of it: Acked, Rejected or Unknown.
	Install(ctx context.Context, c *state.PackContent) pack.Result
	// Compacted proposes the records of finished compactions and waits for them.
	Compacted(ctx context.Context, recs []state.Record) error
}

// Options are what a Merger works with. Log and Store must be set.
type Options struct {
	Log   Log
	Store objstore.Store
	// TempDir is the folder of temporary files, the system's if "". Packs for an objstore.Stager are built in the store.
	TempDir string
	Packer  pack.Config
	// Every is how often it looks whether a pack is due; that costs no request. 1 minute.
	Every time.Duration
	// Ranges, if not nil, is how many ranges there are. When Packer.Backlog of them have been added since the last look, the
	// next one is not waited for: their memory is bounded. It is asked once a second.
	Ranges func() int
	// Checksums sends a CRC-32C with each pack, for stores that take one.
	Checksums bool

	Logger  *slog.Logger
	Metrics *metrics.Set
}

const (
	// retryMax bounds the attempts to store one pack; a pack that is given up is garbage that a later epoch collects.
	retryMax = 10
	retryMin = time.Second
	// crowdEvery is how often the number of ranges is asked for.
	crowdEvery = time.Second
	// putTimeout and readTimeout bound one request; a transfer gets a second more for each MiB.
	putTimeout  = 30 * time.Second
	readTimeout = 10 * time.Second
)

// Merger makes one pack at a time until it is closed.
type Merger struct {
	opt    Options
	cancel context.CancelFunc
	wg     sync.WaitGroup
	bad    map[state.Source]struct{} // ranges that could not be read or verified: left where they are
	busy   bool                      // much has come in since left, by the last look
	left   int64                     // bytes that waited after the last look
	ranges int                       // that there were then

	packs, bytes, failed *metrics.Counter

	compactions, dropped *metrics.Counter
}

// Open starts a merger. Close it before what it works with.
func Open(o Options) *Merger {
	if o.Every <= 0 {
		o.Every = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:contextcheck // ended by Close
	m := &Merger{
		opt: o, cancel: cancel, bad: map[state.Source]struct{}{},
		packs:  o.Metrics.GetOrCreateCounter(`seb_merge_packs_total`),
		bytes:  o.Metrics.GetOrCreateCounter(`seb_merge_bytes_total`),
		failed: o.Metrics.GetOrCreateCounter(`seb_merge_failures_total`),

		compactions: o.Metrics.GetOrCreateCounter(`seb_compactions_total`),
		dropped:     o.Metrics.GetOrCreateCounter(`seb_compaction_records_dropped_total`),
	}
	m.wg.Go(func() { m.run(ctx) })
	return m
}

// Close ends the work at hand and waits. Closing twice is allowed.
func (m *Merger) Close() {
	m.cancel()
	m.wg.Wait()
}

func (m *Merger) run(ctx context.Context) {
	tick := time.NewTicker(m.opt.Every)
	defer tick.Stop()
	crowd := time.NewTicker(crowdEvery)
	defer crowd.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-crowd.C:
			if !m.crowded() {
				continue
			}
		}
		m.look()
		for ctx.Err() == nil {
			more, err := m.Once(ctx)
			if err != nil && ctx.Err() == nil {
				m.failed.Inc()
				m.opt.Logger.Warn("no pack was made", "err", err)
			}
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

// crowded says whether so many ranges have come since the last look that the next one must not wait.
func (m *Merger) crowded() bool {
	return m.opt.Ranges != nil && m.opt.Packer.Backlog > 0 && m.opt.Ranges()-m.ranges >= m.opt.Packer.Backlog
}

// busyRate is how many bytes a second, over the time between two looks, make a broker busy: producers want the disk or the
// network for themselves, and what merging takes of it can wait.
const busyRate = 8 << 20

// look sees how much has come in since the last one.
func (m *Merger) look() {
	m.busy = float64(m.waiting()-m.left) >= busyRate*m.opt.Every.Seconds()
}

// waiting is how many bytes are to be merged.
func (m *Merger) waiting() int64 {
	view := m.opt.Log.View()
	if view == nil {
		return 0
	}
	return pack.Waiting(view, m.config())
}

// config is how packs are made now.
func (m *Merger) config() pack.Config {
	cfg := m.opt.Packer
	cfg.Busy = m.busy
	cfg.Skip = func(s state.Source) bool { _, bad := m.bad[s]; return bad }
	return cfg
}

// Once makes a pack if one is due, else compacts if something is due, and says whether it did either. It must not be called
// beside a running merger.
func (m *Merger) Once(ctx context.Context) (made bool, err error) {
	view := m.opt.Log.View()
	if view == nil {
		return false, nil
	}
	cfg := m.config()
	now, doubted := m.opt.Log.Now()
	if plan := pack.Choose(view, cfg, now.UnixMicro()); plan != nil {
		return m.merge(ctx, plan, view)
	}
	if doubted {
		return false, nil // a compaction removes tombstones for their age
	}
	if c := pack.ChooseCompaction(view, cfg, now.UnixMicro()); c != nil {
		return m.compact(ctx, c, view)
	}
	return false, nil
}

// merge makes one pack of commit objects and smaller packs.
func (m *Merger) merge(ctx context.Context, plan *pack.Plan, view *state.State) (made bool, err error) {
	layout := pack.Lay(plan, view, m.opt.Log.NextPack())
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
	m.opt.Logger.Info("merged", "pack", layout.Key(), "bytes", plan.Bytes, "sources", len(layout.Index), "took", time.Since(begin))
	return true, nil
}

// finish stores the pack and has it installed, step by step as package pack says (rule R8).
func (m *Merger) finish(ctx context.Context, l *pack.Layout, p *output) error {
	failpoint.Hit("pack.built")
	step, attempts := pack.Next(pack.Built), 0
	for {
		switch step {
		case pack.Put:
			if attempts++; attempts > retryMax {
				return fmt.Errorf("store %s: no verdict after %d attempts", l.Key(), retryMax)
			}
			if err := pause(ctx, time.Duration(attempts-1)*retryMin); err != nil {
				return err
			}
			result, err := m.put(ctx, l.Key(), p)
			if err != nil {
				return fmt.Errorf("store %s: %w", l.Key(), err)
			}
			step = pack.Next(result)
		case pack.Install:
			failpoint.Hit("install.before")
			result := m.opt.Log.Install(ctx, l.Content())
			failpoint.Hit("install.after")
			if step = pack.Next(result); result != pack.Acked {
				return fmt.Errorf("install %s: not committed", l.Key())
			}
		default:
			return nil
		}
	}
}

func (m *Merger) put(ctx context.Context, key string, p *output) (pack.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout+time.Duration(p.size>>20)*time.Second)
	defer cancel()
	failpoint.Hit("put.pack.before")
	err := m.store(ctx, key, p)
	failpoint.Hit("put.pack.after")
	switch {
	case err == nil, errors.Is(err, objstore.ErrExists): // the name holds our epoch's nonce: an earlier attempt of ours
		return pack.Stored, nil
	case errors.Is(err, objstore.ErrRefused):
		return 0, err
	}
	return pack.NoVerdict, nil
}

func (m *Merger) store(ctx context.Context, key string, p *output) error {
	if p.staged != nil {
		return p.staged.Publish(ctx, key)
	}
	body := objstore.NewBody(p.data)
	if m.opt.Checksums {
		body.HasCRC, body.CRC32C = true, p.crc()
	}
	return m.opt.Store.Put(ctx, key, body)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
