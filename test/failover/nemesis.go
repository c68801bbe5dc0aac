package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/testenv"
)

// The faults of namespaces. Those of a store are at the broker that leads, or at another one.
const (
	StopStandby  Fault = "stop-standby"  // SIGSTOP of a broker that does not lead
	TermStandby  Fault = "term-standby"  // SIGTERM of a broker that does not lead
	Cut          Fault = "cut"           // the leader's link is down
	CutStandby   Fault = "cut-standby"   // the link of a broker that does not lead is down
	CutPair      Fault = "cut-pair"      // nothing passes between two brokers
	OneWay       Fault = "one-way"       // nothing passes from one broker to another
	Power        Fault = "power"         // the leader's link is down, later SIGKILL
	PowerStandby Fault = "power-standby" // the same of a broker that does not lead
	StoreRefused Fault = "store-refused" // connections to the store are reset
	StoreSlow    Fault = "store-slow"    // requests to the store take up to 2 s more
	StoreHung    Fault = "store-hung"    // the store takes requests and does not answer
	Store503     Fault = "store-503"     // the store answers SlowDown
	StoreCut     Fault = "store-cut"     // packets to the store are dropped
	SlowList     Fault = "slow-list"     // a LIST takes 10 s, and the leader may be killed
	Unregister   Fault = "unregister"    // the registration of a broker is deleted
	Busy         Fault = "busy"          // another process computes on each core
	Full         Fault = "full"          // the disk of a broker is full
	Several      Fault = "several"       // two or three of these at once
	Flap         Fault = "flap"          // no link between brokers for 10 s, and then for 10 s all
	RollApart    Fault = "roll-apart"    // Roll without links between brokers
)

var networkFaults = []Fault{
	StopStandby, TermStandby, Cut, CutStandby, CutPair, OneWay, Power, PowerStandby, StoreRefused, StoreSlow, StoreHung,
	Store503, StoreCut, SlowList, Unregister, Busy, Full, Several, Flap, RollApart,
}

const (
	wholeMax     = 10 * time.Second // from the end of a fault until all brokers see each other
	flapTime     = 10 * time.Second
	slowListTime = 10 * time.Second
	dataSize     = 64 << 20 // of the disk of a broker
)

// trouble is a fault that begins and ends.
type trouble struct {
	what  string
	may   int  // takeovers that it may cost
	must  bool // it costs them
	begin func(ctx context.Context) error
	end   func(ctx context.Context) error
}

// duration returns a time; with Options.Shuffle a random one from 0.1 to 60 s, mostly short.
func (c *campaign) duration(fixed time.Duration) time.Duration {
	if !c.o.Shuffle {
		return fixed
	}
	const least, most = 0.1, 60
	return time.Duration(least * math.Pow(most/least, math.Pow(c.rng.Float64(), 1.5)) * float64(time.Second))
}

// hold waits, and counts requests by minute.
func (i *injection) hold(ctx context.Context, until time.Time) error {
	f := i.c.fleet
	before := f.requests()
	for left := time.Until(until); left > 0; left = time.Until(until) {
		if !sleep(ctx, min(left, time.Minute)) {
			return ctx.Err()
		}
		if left < time.Minute {
			continue
		}
		now := f.requests()
		i.round.Minutes = append(i.round.Minutes, now.Sub(before).Total())
		_, epoch := f.leader(ctx)
		i.c.o.Progress(fmt.Sprintf("%s: epoch %d, requests of the last minute: %v", i.round.Fault, epoch, now.Sub(before)))
		before = now
	}
	return nil
}

// disturb causes a fault of namespaces, ends it, and waits until the brokers are whole again.
func (i *injection) disturb(ctx context.Context, fault Fault) error {
	f := i.c.fleet
	kinds := []Fault{fault}
	if fault == Several {
		some := []Fault{Kill, Stop, StopStandby, Cut, CutStandby, CutPair, OneWay, Power, StoreRefused, StoreSlow, StoreHung, Store503, StoreCut, Unregister, Busy}
		i.c.rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		kinds = some[:2+i.c.rng.IntN(2)]
	}
	d := i.c.duration(i.c.o.Hold)
	until := time.Now().Add(d)
	var ends []func(context.Context) error
	var err error
	must := false
	for _, kind := range kinds {
		t := i.trouble(kind)
		i.due += t.may
		must = must || t.must
		i.round.What = strings.TrimPrefix(i.round.What+", "+t.what, ", ")
		err = errors.Join(err, t.begin(ctx))
		ends = append(ends, t.end)
	}
	i.round.What += fmt.Sprintf(" for %v", d.Round(time.Millisecond))
	i.c.o.Progress(i.round.What)
	if fault == RollApart {
		err = errors.Join(err, i.roll(ctx))
	} else if err == nil {
		err = i.await(ctx, until, must)
	}
	for _, end := range slices.Backward(ends) {
		err = errors.Join(err, end(context.WithoutCancel(ctx)))
	}
	for _, s := range f.slots {
		s.stopped = false
	}
	if err != nil {
		return err
	}
	return i.whole(ctx)
}

// await lets a fault last, and measures the takeover that it may cause.
func (i *injection) await(ctx context.Context, until time.Time, must bool) error {
	if must { // clients may wait for the end of another fault
		if _, _, err := i.c.fleet.awaitLeader(ctx, i.before+1); err != nil {
			return err
		}
		i.round.Led = time.Since(i.c.began) - i.round.From
	} else if i.due > 0 {
		limited, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		if err := i.recovered(limited); err != nil && limited.Err() == nil {
			return err
		}
	}
	return i.hold(ctx, until)
}

// whole waits until all brokers are ready and see each other.
func (i *injection) whole(ctx context.Context) error {
	f := i.c.fleet
	since := time.Now()
	var missing, last string
	err := await(ctx, "the brokers see each other", func() (bool, error) {
		last, missing = missing, f.missing(ctx)
		return missing == "", nil
	})
	i.round.Whole = time.Since(since)
	if i.round.Whole > wholeMax {
		i.c.violation("round %d of %s (%s), healed at %s: whole after %v; missing until then: %s", i.round.Number, i.round.Fault,
			i.round.What, since.UTC().Format(time.TimeOnly), i.round.Whole.Round(time.Millisecond), cmp.Or(missing, last))
		if ctx.Err() == nil {
			return nil
		}
	}
	return err
}

// missing returns what keeps the brokers from being whole; "": nothing.
func (f *fleet) missing(ctx context.Context) string {
	running := f.running(nil)
	for _, s := range running {
		ask, cancel := context.WithTimeout(ctx, askTime)
		all, err := s.status.Cluster(ask)
		cancel()
		if err != nil {
			return fmt.Sprintf("%v: %v", s, err)
		}
		up, leads := 0, 0
		for _, m := range all.Members {
			if m.State == api.MemberUp {
				up++
			}
			if m.State == api.MemberUp && m.Role == api.MemberLeader {
				leads++
			}
		}
		if up != len(running) || leads != 1 {
			return fmt.Sprintf("%v sees %d brokers and %d leaders: %+v", s, up, leads, all)
		}
	}
	return ""
}

// pick returns the leader, or another broker, that no trouble of this injection has.
func (i *injection) pick(leader bool) *slot {
	others := slices.DeleteFunc(i.c.fleet.running(i.leader), func(s *slot) bool { return slices.Contains(i.used, s) })
	s := i.leader
	if n := len(others); n > 0 && (!leader || slices.Contains(i.used, s)) {
		s = others[i.c.rng.IntN(n)]
	}
	i.used = append(i.used, s)
	return s
}

// trouble prepares a fault.
func (i *injection) trouble(fault Fault) *trouble {
	switch fault {
	case Kill, Stop, Cut, Power:
		return i.stopping(fault, i.pick(true))
	case StopStandby, TermStandby, CutStandby, PowerStandby:
		return i.stopping(fault, i.pick(false))
	case StoreRefused, StoreSlow, StoreHung, Store503, StoreCut:
		return i.storeTrouble(fault)
	case SlowList:
		return i.slowList()
	case CutPair, OneWay:
		return i.betweenTwo(fault)
	case Flap, RollApart:
		return i.apart(fault)
	case Unregister:
		return i.unregister()
	case Busy:
		return i.busy()
	case Full:
		s := i.pick(i.c.rng.IntN(2) == 0)
		name := filepath.Join(s.data, "filler")
		return &trouble{
			what:  fmt.Sprintf("full disk of %v", s),
			begin: func(context.Context) error { return fill(name) },
			end:   func(context.Context) error { return os.Remove(name) },
		}
	}
	panic("no trouble of namespaces: " + string(fault))
}

// stopping is a fault of the whole broker.
func (i *injection) stopping(fault Fault, s *slot) *trouble {
	f := i.c.fleet
	t := &trouble{what: fmt.Sprintf("%s of %v", fault, s)}
	if s == i.leader {
		t.may = 1
	}
	start := func(context.Context) error { return f.start(s) }
	switch fault {
	case Kill:
		t.must = s == i.leader
		t.begin, t.end = func(context.Context) error { s.kill(); return nil }, start
	case TermStandby:
		t.begin, t.end = func(ctx context.Context) error { s.broker.Signal(syscall.SIGTERM); return f.ended(ctx, s) }, start
	case Stop, StopStandby:
		t.begin = func(context.Context) error { s.stopped = true; s.broker.Signal(syscall.SIGSTOP); return nil }
		t.end = func(context.Context) error { s.broker.Signal(syscall.SIGCONT); return nil }
	default: // Cut, CutStandby, Power, PowerStandby
		t.begin = func(ctx context.Context) error { return plug(ctx, s, false) }
		t.end = func(ctx context.Context) error {
			if fault == Cut || fault == CutStandby {
				return plug(ctx, s, true)
			}
			s.kill()
			return errors.Join(plug(ctx, s, true), start(ctx))
		}
	}
	return t
}

// storeTrouble is a fault of the store of one broker.
func (i *injection) storeTrouble(fault Fault) *trouble {
	s := i.pick(i.c.rng.IntN(3) > 0)
	t := &trouble{what: fmt.Sprintf("%s of %v", fault, s)}
	if s == i.leader {
		t.may = 1
	}
	if fault == StoreCut {
		t.begin = func(ctx context.Context) error { return blackhole(ctx, s, storeAddress, true) }
		t.end = func(ctx context.Context) error { return blackhole(ctx, s, storeAddress, false) }
		return t
	}
	config := map[Fault]faultproxy.StoreConfig{
		StoreRefused: {Rates: faultproxy.Rates{faultproxy.Reset: 1}},
		StoreSlow:    {Latency: 2 * time.Second},
		StoreHung:    {Rates: faultproxy.Rates{faultproxy.Hung: 1}},
		Store503:     {Rates: faultproxy.Rates{faultproxy.Throttled: 1}, BurstMax: time.Second},
	}[fault]
	t.begin = func(context.Context) error { s.store.SetConfig(config); return nil }
	t.end = func(context.Context) error {
		s.store.SetConfig(faultproxy.StoreConfig{})
		s.store.Unblock()
		return nil
	}
	return t
}

// slowList makes each LIST slow. In half of the rounds the leader is killed.
func (i *injection) slowList() *trouble {
	nothing := func(context.Context) error { return nil }
	t := &trouble{begin: nothing, end: nothing}
	if i.c.rng.IntN(2) == 0 {
		t = i.stopping(Kill, i.pick(true))
	}
	begin, end := t.begin, t.end
	set := func(d time.Duration) {
		for _, s := range i.c.fleet.slots {
			s.proxy.SetDelayOf(testenv.List, d)
		}
	}
	t.what = strings.TrimSpace("LIST of 10 s " + t.what)
	t.begin = func(ctx context.Context) error { set(slowListTime); return begin(ctx) }
	t.end = func(ctx context.Context) error { set(i.c.o.List); return end(ctx) }
	return t
}

// betweenTwo cuts two brokers from each other.
func (i *injection) betweenTwo(fault Fault) *trouble {
	all := i.c.fleet.running(nil)
	i.c.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	a, b := all[0], all[1]
	t := &trouble{what: fmt.Sprintf("%s from %v to %v (%v leads)", fault, a, b, i.leader)}
	t.begin = func(ctx context.Context) error { return separate(ctx, true, a, b) }
	t.end = func(ctx context.Context) error { return separate(ctx, false, a, b) }
	if fault == OneWay {
		t.begin = func(ctx context.Context) error { return blackhole(ctx, a, address(b.n), true) }
		t.end = func(ctx context.Context) error { return blackhole(ctx, a, address(b.n), false) }
	}
	return t
}

// apart cuts all brokers from each other; with Flap again and again.
func (i *injection) apart(fault Fault) *trouble {
	all := i.c.fleet.slots
	quit, done := make(chan struct{}), make(chan error, 1)
	flap := func(ctx context.Context) (err error) {
		tick := time.NewTicker(flapTime)
		defer tick.Stop()
		for cut := false; ; cut = !cut {
			select {
			case <-tick.C:
				err = errors.Join(err, separate(ctx, cut, all...))
			case <-quit:
				return err
			}
		}
	}
	return &trouble{
		what: string(fault),
		begin: func(ctx context.Context) error {
			if fault == Flap {
				go func() { done <- flap(context.WithoutCancel(ctx)) }()
			} else {
				done <- nil
			}
			return separate(ctx, true, all...)
		},
		end: func(ctx context.Context) error {
			close(quit)
			return errors.Join(<-done, separate(ctx, false, all...))
		},
	}
}

// unregister deletes the registration of one run.
func (i *injection) unregister() *trouble {
	names, _ := filepath.Glob(filepath.Join(i.c.o.Dir, "s3", testenv.Bucket, prefix, "peer", "*")) // the pattern is valid
	nothing := func(context.Context) error { return nil }
	if len(names) == 0 {
		return &trouble{what: "no registration to delete", begin: nothing, end: nothing}
	}
	name := names[i.c.rng.IntN(len(names))]
	return &trouble{
		what:  "registration " + filepath.Base(name) + " deleted",
		begin: func(context.Context) error { return os.Remove(name) },
		end:   nothing,
	}
}

// busy computes on all cores but one.
func (i *injection) busy() *trouble {
	var list []*testenv.Broker
	n := max(1, runtime.NumCPU()-1)
	return &trouble{
		what: fmt.Sprintf("%d busy cores", n),
		begin: func(context.Context) (err error) {
			for range n {
				p, fault := testenv.StartProgram("setsid", nil, nil, "sh", "-c", "while :; do :; done")
				if err = errors.Join(err, fault); fault == nil {
					list = append(list, p)
				}
			}
			return err
		},
		end: func(context.Context) error {
			for _, p := range list {
				p.Kill()
			}
			return nil
		},
	}
}

// fill writes a file until the disk is full.
func fill(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	block := make([]byte, 4<<10)
	for err == nil {
		_, err = file.Write(block)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, file.Close())
}
