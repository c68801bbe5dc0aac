package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/history"
)

// totals are the sums of all runs.
type totals struct {
	runs, exact int
	undecided   int
	checked     int
	stats       history.Stats
	counts      map[string]int64
	store, wire map[faultproxy.Kind]int64
	leads       []time.Duration
}

// campaign is a series of runs of fresh seeds, several at a time.
type campaign struct {
	t      *testing.T
	shared *shared
	began  time.Time
	length time.Duration
	atOnce int
	runs   int           // bound; 0: none
	time   time.Duration // end after this time; 0: none
	kills  int64         // end after this many; 0: none
	only   string        // kind of bucket; "": all

	mu      sync.Mutex // guards the fields below
	next    uint64     // seed
	taken   int
	running map[*run]bool // running
	sum     totals
}

func newCampaign(t *testing.T, w *shared) *campaign {
	t.Helper()
	c := &campaign{
		t: t, shared: w, began: time.Now(), length: *lengthFlag, next: *seedFlag, atOnce: 1, only: *onlyFlag, running: map[*run]bool{},
		sum: totals{counts: map[string]int64{}, store: map[faultproxy.Kind]int64{}, wire: map[faultproxy.Kind]int64{}},
	}
	if c.next == 0 {
		c.next = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	switch {
	case *timeFlag > 0 || *killsFlag > 0:
		c.time, c.kills, c.atOnce = *timeFlag, *killsFlag, max(*atOnceFlag, 1)
	case *seedFlag == 0:
		// One run on the server, one on a folder.
		c.next, c.length, c.runs = c.next/3*3+1, shortLength, 2
	default:
		c.runs = 1
	}
	return c
}

// take returns the next plan, or nil.
func (c *campaign) take(ctx context.Context) *plan {
	if ctx.Err() != nil || c.over() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs > 0 && c.taken == c.runs {
		return nil
	}
	c.taken++
	for {
		p := newPlan(c.next, c.length)
		c.next++
		if c.only == "" || c.only == p.bucketKind() {
			return p
		}
	}
}

// over reports whether no further run starts; running ones continue with their calm.
func (c *campaign) over() bool {
	return c.t.Failed() || c.time > 0 && time.Since(c.began) >= c.time || c.kills > 0 && c.killed() >= c.kills
}

// killed returns the number of killed brokers so far.
func (c *campaign) killed() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.sum.counts[string(actKill)]
	for r := range c.running {
		n += r.counts.get(string(actKill))
	}
	return n
}

// long reports whether runs get only a line of output each.
func (c *campaign) long() bool { return c.time > 0 || c.kills > 0 }

// one executes one plan and checks it.
func (c *campaign) one(ctx context.Context, p *plan) {
	repeat := fmt.Sprintf("go test ./test/torture -run '^TestTorture$' -v -seed=%d -length=%v\n%v", p.seed, p.length, p)
	if !c.long() {
		c.t.Log(repeat)
	}
	r, violations, err := c.shared.try(ctx, p, func(r *run) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running[r] = true
	}, c.over)
	check.NoErrorf(c.t, err, "seed %d", p.seed)
	if r == nil {
		return
	}
	if ctx.Err() != nil { // brokers and server may have got the same signal
		if len(r.faults) > 0 {
			c.t.Logf("seed %d, when it was stopped: %q", p.seed, r.faults)
		}
		r.faults = nil
	}
	c.add(r)
	ok := len(violations) == 0 && len(r.faults) == 0
	if p.exact && ok && !r.failed.Load() && ctx.Err() == nil {
		ok = c.exact(r) && ok
	}
	if !ok && c.long() {
		c.t.Log(repeat)
	}
	if !ok || !c.long() {
		c.t.Logf("%v: %s", time.Since(r.began).Round(time.Millisecond), r.summary())
	}
	if c.long() {
		c.t.Log(c.progress(r))
	}
	if !ok || err != nil {
		c.shared.report(c.t, r, violations)
		return
	}
	r.remove(c.t)
}

// exact searches for an order of a run's operations.
func (c *campaign) exact(r *run) (ok bool) {
	l, err := r.exact()
	if err != nil {
		c.t.Errorf("seed %d: %v", r.p.seed, err)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.exact++
	c.sum.checked += l.Checked
	c.sum.undecided += l.Undecided
	for _, fault := range l.Faults {
		c.t.Error(fault)
	}
	return len(l.Faults) == 0
}

// add adds a finished run to the totals.
func (c *campaign) add(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, r)
	sum := &c.sum
	sum.runs++
	sum.stats.Add(r.rec.Stats())
	sum.leads = append(sum.leads, r.leads...)
	addAll(sum.counts, r.counts.all())
	addAll(sum.store, r.storeFaults())
	addAll(sum.wire, r.wireFaults())
}

// progress describes a run and the state of the campaign in a line.
func (c *campaign) progress(r *run) string {
	n, took := c.killed(), time.Since(c.began)
	of, left := "", time.Duration(0)
	if c.kills > 0 {
		of = fmt.Sprintf(" of %d", c.kills)
		left = time.Duration(float64(took) * float64(max(c.kills-n, 0)) / float64(max(n, 1)))
	}
	if byTime := max(c.time-took, 0); c.time > 0 && (c.kills == 0 || byTime < left) {
		left = byTime
	}
	c.mu.Lock()
	runs := c.sum.runs
	c.mu.Unlock()
	aimed := ""
	if p := r.p.focus.name; p != "" {
		aimed = fmt.Sprintf(", of them %d at %s", r.counts.get("killed at "+p), p)
	}
	return fmt.Sprintf("seed %d: %s, %d brokers, %d SIGKILL in %v%s; in all %d runs, %d%s SIGKILL, %.0f a minute, %v left", r.p.seed, r.p.bucketKind(), r.p.slots,
		r.counts.get(string(actKill)), time.Since(r.began).Round(100*time.Millisecond), aimed, runs, n, of, float64(n)/took.Minutes(), left.Round(time.Second))
}

func (r *run) summary() string {
	s := r.rec.Stats()
	text := fmt.Sprintf("starts %s; %d appends acknowledged with %d records, %d rejected, %d unknown (%d records of them found), %d records read, %d stale answers; %s",
		quantiles(r.leads), s.Acked, s.Records, s.Rejected, s.Unknown, s.Late, s.Read, s.Stale, listed(r.counts.all()))
	if !r.p.disk {
		text += "\n  store: " + listed(r.storeFaults())
	}
	return text + "\n  wire: " + listed(r.wireFaults())
}

// quantiles formats the distribution of times.
func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	d = slices.Sorted(slices.Values(d))
	at := func(q int) time.Duration { return d[(len(d)-1)*q/100].Round(time.Millisecond) }
	return fmt.Sprintf("%d (half within %v, 90 %% within %v, all within %v)", len(d), at(50), at(90), at(100))
}

// print prints the totals of the campaign.
func (c *campaign) print() {
	c.t.Helper()
	sum, took := &c.sum, time.Since(c.began)
	s := &sum.stats
	kills := sum.counts[string(actKill)]
	points, deaths, others := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for name, n := range sum.counts {
		if point, ok := strings.CutPrefix(name, "at "); ok {
			points[point] = n
		} else if point, ok := strings.CutPrefix(name, "killed at "); ok {
			deaths[point] = n
		} else {
			others[name] = n
		}
	}
	c.t.Logf("on %v\n%d runs in %v: %d SIGKILL (%.0f a minute), of them %d while starting; %d SIGSTOP; %d takeovers from a living broker; starts %s\n"+
		"%d appends acknowledged with %d records, %d rejected, %d unknown of which %d records were found; %d records read; %d commits, %d fetches, %d trims; %d answers by deposed brokers\n"+
		"exact: %d runs, %d operations ordered, %d partitions undecided\nfaults at the store: %s\nfaults on the wire: %s\nat failpoints: %s\nall: %s\n"+
		"killed at failpoints: %s\nfailpoints, something happened %s\nfailpoints, killed %s",
		machine.Here(), sum.runs, took.Round(time.Second), kills, float64(kills)/took.Minutes(), sum.counts["SIGKILL while starting"],
		sum.counts[string(actStop)]+sum.counts["failpoint stop"], sum.counts["fenced"], quantiles(sum.leads),
		s.Acked, s.Records, s.Rejected, s.Unknown, s.Late, s.Read, s.Commits, s.Fetches, s.Trims, s.Stale,
		sum.exact, sum.checked, sum.undecided, listed(sum.store), listed(sum.wire), listed(points), listed(others),
		listed(deaths), missed(points), missed(deaths))
}
