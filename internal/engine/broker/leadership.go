package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// ErrDeposed is the cause of the end of a leadership that another broker fenced, or whose log stopped.
var ErrDeposed = errors.New("this broker leads no more")

// leadership runs what only a leader does, while this broker leads.
//
//	role of the log   leader 5            follower 6          leader 7
//	functions         5 ──────── end, are waited for             7 ──────
//
// One goroutine, run, begins and ends the functions. Those of the next epoch begin when all of the last
// one have returned, so a function never runs twice at the same time.
type leadership struct {
	mu     sync.Mutex // guards the fields below
	does   []func(ctx context.Context)
	wanted uint32 // the epoch in which the log leads; 0: none
	ended  bool   // no function begins any more

	wake    wake.Signal // wanted or ended has changed
	running sync.WaitGroup
	ctx     context.Context // of the running functions; nil: none run
	end     context.CancelCauseFunc
	epoch   uint32 // in which they run
	over    chan struct{}
}

func newLeadership() *leadership {
	return &leadership{wake: wake.New(), over: make(chan struct{})}
}

// set notes the epoch in which the log leads.
func (l *leadership) set(epoch uint32) {
	l.mu.Lock()
	l.wanted = epoch
	l.mu.Unlock()
	l.wake.Send()
}

// run begins and ends the functions until close. values supplies the values of their contexts.
func (l *leadership) run(values context.Context) {
	defer close(l.over)
	for range l.wake {
		if !l.step(values) {
			return
		}
	}
}

// step ends the functions if their epoch is over, and begins them in the next one. It returns false
// after close.
func (l *leadership) step(values context.Context) bool {
	l.mu.Lock()
	stays := l.ctx != nil && l.epoch == l.wanted && !l.ended
	if l.ctx != nil && !stays {
		cause := ErrDeposed
		if l.epoch == l.wanted {
			cause = ErrClosed
		}
		l.end(cause) // under the lock, so that do begins none after the wait
	}
	l.mu.Unlock()
	if stays {
		return true
	}
	l.running.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx, l.epoch = nil, 0
	if l.ended {
		return false
	}
	if l.wanted != 0 {
		l.epoch = l.wanted
		l.ctx, l.end = context.WithCancelCause(values)
		for _, f := range l.does {
			l.beginLocked(f)
		}
	}
	return true
}

func (l *leadership) beginLocked(f func(ctx context.Context)) {
	ctx := l.ctx
	l.running.Go(func() { f(ctx) })
}

// do adds a function, and begins it if this broker leads.
func (l *leadership) do(f func(ctx context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.does = append(l.does, f)
	if l.ctx != nil && l.ctx.Err() == nil && !l.ended {
		l.beginLocked(f)
	}
}

// close ends the functions and waits for them. They do not begin again. Calling it twice is
// safe.
func (l *leadership) close() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.wake.Send()
	<-l.over
}

// WhileLeading calls f in a goroutine in each epoch in which this broker leads, at once if it leads
// now. ctx ends with the epoch: with the cause ErrDeposed, or with ErrClosed at EndWhileLeading and Close. f
// must then return soon, because the next epoch and Close wait for it.
func (b *Broker) WhileLeading(f func(ctx context.Context)) { b.leading.do(f) }

// EndWhileLeading ends what runs while this broker leads, and waits for that. The broker continues to lead
// and to accept appends. Close calls it.
func (b *Broker) EndWhileLeading() { b.leading.close() }

// LeadingEpoch returns the epoch in which this broker leads as far as it knows: another broker may have taken
// over unnoticed. 0: it does not lead. The state of a leader includes all commits before its epoch.
func (b *Broker) LeadingEpoch() uint32 {
	if s := b.log.Status(); s.Role == core.RoleLeader {
		return s.Epoch
	}
	return 0
}

// NewProducerID returns an id for an idempotent producer of a principal, "" for the root key, that no
// other leader gives. ErrNotLeader: this broker does not lead. ErrProducersFull: the first append of the
// producer would be refused.
func (b *Broker) NewProducerID(principal string) (int64, error) {
	epoch := b.LeadingEpoch()
	if epoch == 0 {
		return 0, state.ErrNotLeader
	}
	if err := b.log.RefusesProducer(principal); err != nil {
		return 0, err
	}
	return state.ProducerID(b.opt.Core.Shard, epoch, b.producers.Add(1)), nil
}

// ProducerExpiration is how long the log remembers an idempotent producer that appends nothing.
func (b *Broker) ProducerExpiration() time.Duration {
	return cmp.Or(time.Duration(b.opt.Core.ProducerExpiration), time.Duration(core.ProducerExpiration))
}

// Leads reports whether this broker leads, as LeadingEpoch does.
func (b *Broker) Leads() bool { return b.LeadingEpoch() != 0 }

// Follows reports whether this broker follows another one: it is read-only, or waits to lead.
func (b *Broker) Follows() bool {
	return b.ReadOnly() || b.log.Status().Role == core.RoleFollower
}

// MayFollow reports whether Follows may be true now or later.
func (b *Broker) MayFollow() bool { return b.ReadOnly() || b.opt.Standby || b.opt.Core.Standby }

// Stand makes a broker that follows lead, as log.Log.Stand does. A caller that does not know whether
// the broker has applied the whole log calls Confirm before. ErrNotLeader: another broker writes the
// log.
func (b *Broker) Stand(ctx context.Context) error { return b.log.Stand(ctx) }

// Succeed is Stand against an epoch whose leader has ended, as log.Log.Succeed is.
func (b *Broker) Succeed(ctx context.Context) error { return b.log.Succeed(ctx) }

// Report returns what the goroutine that owns the log knows, as log.Log.Report does.
func (b *Broker) Report(ctx context.Context) (state.Report, error) { return b.log.Report(ctx) }

// Reach lets a broker that follows read the log up to pos, as log.Log.Reach does.
func (b *Broker) Reach(pos state.Position) { b.log.Reach(pos) }

// Heard sets whether the leader feeds this broker, as log.Log.Heard does.
func (b *Broker) Heard(heard bool) { b.log.Heard(heard) }

// Feed gives a broker that follows a slot of its leader, as log.Log.Feed does.
func (b *Broker) Feed(prefix []byte) error { return b.log.Feed(prefix) }

// roleChanged is the log's hook.
func (b *Broker) roleChanged(s log.Status) {
	epoch := uint32(0)
	if s.Role == core.RoleLeader {
		epoch = s.Epoch
	}
	b.leading.set(epoch)
	b.advanced() // followers of the broker look at its role
}

// Level is the format level of the bucket.
type Level = log.Level

// Level returns the format level of the bucket. It makes no request.
func (b *Broker) Level() Level { return b.log.Level() }

// Raise raises the bucket to the highest format level that this program and Options.RaiseMax allow,
// waits until that is committed, and returns the level. From then on, programs that do not know that
// level refuse the bucket. A bucket at that level already does not change. Errors: those of an append.
func (b *Broker) Raise(ctx context.Context) (Level, error) {
	to := b.Level().Allowed
	if to <= state.LevelFirst {
		return b.Level(), nil
	}
	c := changeOf("cluster.upgrade", access.Cluster, access.ClusterName, "level", strconv.Itoa(int(to)))
	if err := b.propose(ctx, state.RaiseTo(to), c); err != nil && !errors.Is(err, state.ErrLevelKnown) {
		return Level{}, err
	}
	return b.Level(), nil
}

// LogTime is the log's time.
type LogTime struct {
	Last time.Time // append time of the last commit; zero: no commit
	Now  time.Time // the time that a commit would have by the broker's clock
	Err  error     // ErrClock if no commit is made at that time, or nil
}

// LogTime returns the log's time. It makes no request.
func (b *Broker) LogTime() (t LogTime) {
	b.log.Read(func(s *state.State) {
		if s.AppendTime > 0 {
			t.Last = time.UnixMicro(s.AppendTime)
		}
	})
	t.Now, t.Err = b.log.Now(), b.log.ClockError()
	return t
}

// Now returns the log's time. With doubted, nothing must be deleted because of its age by that time
// (rule R15).
func (b *Broker) Now() (now time.Time, doubted bool) { return b.opt.Now(), b.log.TimeDoubted() }

// ResetTime accepts the machine's clock as correct and waits until that is committed. A log whose
// time is later goes back to the clock (rule R15): its next commits have earlier times than the
// commits before. Else the log does not change. Errors: ErrClock if the store's clock contradicts
// the machine's; ErrLevel; those of an append.
func (b *Broker) ResetTime(ctx context.Context) (LogTime, error) {
	if err := b.refuses(ctx); err != nil {
		return LogTime{}, err
	}
	if at := b.Level().Now; at < state.LevelRecovery {
		return LogTime{}, &state.LevelError{Needs: state.LevelRecovery, Has: at}
	}
	r, err := b.log.ResetTime()
	if err != nil {
		return LogTime{}, err
	}
	c := changeOf("cluster.reset-time", access.Cluster, access.ClusterName, "time", time.UnixMicro(r.Time).UTC().Format(time.RFC3339))
	if err = b.propose(ctx, r, c); err != nil && !errors.Is(err, state.ErrNotLater) {
		return LogTime{}, err
	}
	return b.LogTime(), nil
}

// View returns the committed state, immutable, or nil unless this broker leads. Package compact
// uses it.
func (b *Broker) View() *state.State { return b.log.View() }

// NextPack numbers the packs of this process. The name of a pack has the nonce of its epoch, so no
// name is used twice (rule R1).
func (b *Broker) NextPack() uint64 { return b.packs.Add(1) }

// Install commits the record that installs a stored pack of an epoch (rule R8). In another epoch it
// is rejected.
func (b *Broker) Install(ctx context.Context, epoch uint32, c *state.PackContent) error {
	op := core.Op{Record: state.Record{Kind: state.PackInstall, Pack: c}, Own: true, Epoch: epoch}
	return b.log.ProposeAll([]core.Op{op}).Wait(ctx)[0].Err()
}

// Compacted commits the records of finished compactions in an epoch. It returns the first error.
func (b *Broker) Compacted(ctx context.Context, epoch uint32, recs []state.Record) error {
	ops := make([]core.Op, len(recs))
	for i := range recs {
		ops[i] = core.Op{Record: recs[i], Own: true, Epoch: epoch}
	}
	results := b.log.ProposeDeferred(ops).Wait(ctx)
	for i := range results {
		if err := results[i].Err(); err != nil {
			return err
		}
	}
	return nil
}

// StateMemory returns about how many bytes of memory the state takes, and the limit.
func (b *Broker) StateMemory() (held state.Memory, most int64) {
	b.log.Read(func(s *state.State) { held = s.Memory() })
	return held, b.opt.Core.StateMax
}

// StateFull returns a *StateFullError if the state has reached its limit, so that nothing may be
// created; else nil. It makes no request.
func (b *Broker) StateFull() error {
	if held, most := b.StateMemory(); most > 0 && held.Sum() > most {
		return &state.StateFullError{Held: held, Max: most}
	}
	return nil
}

// Chain returns the known epochs, ascending, and the committed position, which is in the last of
// them.
func (b *Broker) Chain() (epochs []state.Epoch, end state.Position) {
	b.log.Read(func(s *state.State) { epochs, end = slices.Clone(s.Epochs), s.Pos })
	return epochs, end
}

// SlotHead reads the head of a commit object. It returns nil if the object is gone, unreadable, or
// of an unknown epoch.
func (b *Broker) SlotHead(ctx context.Context, pos state.Position) (*record.Head, error) {
	return b.log.SlotHead(ctx, pos)
}

// StoredBytes returns the size of the batches in the bucket, with those that packs still hold
// after they were deleted. It visits every partition.
func (b *Broker) StoredBytes() (n int64) {
	b.log.Read(func(s *state.State) { n = s.Bytes() })
	return n
}
