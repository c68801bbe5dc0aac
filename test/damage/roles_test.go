package damage_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/recordtest"
)

// timeout is far above the duration of any step on a slow machine.
const timeout = time.Minute

// watched is a store that ends a context when a program repeats a request without an end, as it does
// when it takes damage for a store that does not answer.
type watched struct {
	objstore.Store
	stop context.CancelCauseFunc

	mu   sync.Mutex // guards seen
	seen map[string]int
}

const repeatsMax = 300

var errStuck = errors.New("the same request again and again")

func (w *watched) Unwrap() objstore.Store { return w.Store }

func (w *watched) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	w.note(fmt.Sprint("get ", key, r))
	return w.Store.Get(ctx, key, r)
}

func (w *watched) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	w.note(fmt.Sprint("list ", o))
	return w.Store.List(ctx, o)
}

func (w *watched) note(request string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[request]++; w.seen[request] == repeatsMax {
		w.stop(fmt.Errorf("%w: %s", errStuck, request))
	}
}

// reading is what a reader gets.
type reading struct {
	values map[string]sum   // by "topic/partition@offset"
	errs   map[string]error // by the same
	next   map[string]int64 // by "topic/partition"
}

// read reads every offset below those of the log, each with a request of its own.
func (l *truth) read(ctx context.Context, b *broker.Broker) *reading {
	r := &reading{values: map[string]sum{}, errs: map[string]error{}, next: map[string]int64{}}
	for _, topic := range b.Topics(ctx) {
		for i, p := range topic.Partitions {
			name := fmt.Sprintf("%s/%d", topic.Name, i)
			r.next[name] = p.Next
			for offset := p.Start; offset < min(p.Next, l.next[name]); {
				next := r.readAt(ctx, b, broker.Want{Topic: topic.Name, Partition: int32(i), Offset: offset})
				offset = max(offset+1, next)
			}
		}
	}
	return r
}

// readAt reads records from an offset on, and returns the offset behind them.
func (r *reading) readAt(ctx context.Context, b *broker.Broker, want broker.Want) (next int64) {
	at := func(offset int64) string { return fmt.Sprintf("%s/%d@%d", want.Topic, want.Partition, offset) }
	f, err := b.Fetch(ctx, []broker.Want{want}, 0, 0)
	if err != nil {
		r.errs[at(want.Offset)] = err
		return 0
	}
	defer f.Release()
	if err := f.Parts[0].Err; err != nil {
		r.errs[at(want.Offset)] = err
		return 0
	}
	next = want.Offset
	var reader record.Reader
	for _, c := range f.Parts[0].Chunks {
		bytes := slices.Concat(c.Parts...)
		if c.Section != nil {
			if bytes, err = io.ReadAll(c.Section); err != nil {
				r.errs[at(next)] = err
				return 0
			}
		}
		for reader.Reset(bytes, next); reader.Next(); next = reader.Offset() + 1 {
			r.values[at(reader.Offset())] = sumOf(reader.Record().Value)
		}
		if err := reader.Err(); err != nil {
			r.errs[at(next)] = fmt.Errorf("a reader got: %w", err)
			return 0
		}
	}
	return next
}

// role is a way to start a broker.
type role struct {
	name string
	seen bool // with the position of a data directory
	set  func(*broker.Options)
}

var (
	leader = role{"leader", false, func(*broker.Options) {}}
	roles  = []role{
		{follower, false, func(o *broker.Options) { o.Core.ReadOnly = true }},
		leader,
		{"leader that has seen the end", true, func(*broker.Options) {}},
		{standby, false, func(o *broker.Options) { o.Standby, o.Core.Standby = true, true }},
	}
)

// A standby follows first, and then takes over. A follower never writes.
const (
	follower = "follower"
	standby  = "standby"
)

// result is the result of starting a role.
type result struct {
	err  error // the refusal
	seen *reading
	at   map[string]int64 // offsets of the records that a leader accepted later
	errs []error          // of these records
}

// start starts a role on a bucket in a folder.
func (l *truth) start(t testing.TB, dir string, as role) (r result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	disk, err := objstore.OpenDisk(dir, objstore.DiskOptions{NoSync: true, Existing: as.name == follower})
	if err != nil {
		return result{err: err}
	}
	defer disk.Close()
	o := options(&watched{Store: disk, stop: stop, seen: map[string]int{}}, never)
	as.set(&o)
	if as.seen {
		o.Core.Seen = []core.Seen{l.seen}
	}
	b, err := broker.Open(ctx, o)
	if err != nil {
		return result{err: cmp.Or(context.Cause(ctx), err)}
	}
	defer kill(b)
	if as.name == standby {
		if err := b.Stand(ctx); err != nil {
			return result{err: cmp.Or(context.Cause(ctx), err)}
		}
	}
	r = result{seen: l.read(ctx, b), at: map[string]int64{}}
	if as.name == follower {
		return r
	}
	for name := range l.next {
		topic, partition, _ := strings.Cut(name, "/")
		answer := brokertest.Try(ctx, b, brokertest.Append(topic, int(partition[0]-'0'), recordtest.Values("new")...))
		if answer.Err != nil {
			r.errs = append(r.errs, fmt.Errorf("append to %s: %w", name, answer.Err))
			continue
		}
		r.at[name] = answer.Base
	}
	return r
}

// check runs fsck.
func check(t testing.TB, dir string) (damages []fsck.Finding, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	disk, err := objstore.OpenDisk(dir, objstore.DiskOptions{NoSync: true, Existing: true})
	if err != nil {
		return nil, err
	}
	defer disk.Close()
	_, err = fsck.Run(ctx, fsck.Options{Store: &watched{Store: disk, stop: stop, seen: map[string]int{}}, Found: func(f fsck.Finding) {
		if f.Severity == fsck.Damage {
			damages = append(damages, f)
		}
	}})
	if err != nil {
		err = cmp.Or(context.Cause(ctx), err)
	}
	return damages, err
}
