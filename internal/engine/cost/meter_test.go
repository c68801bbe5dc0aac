package cost_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// object is a commit object of a chain.
type object struct {
	pos  state.Position
	kind record.Kind
	time time.Time // append time; of a SEAL that of the slot before it
	put  time.Time
	gone bool // collected
}

// chain is a log with a broker that leads its last epoch.
type chain struct {
	now     time.Time
	last    time.Time
	epochs  []state.Epoch
	end     state.Position
	objects []object
	reads   int
	err     error // of reads
	bytes   int64
	follows bool
	used    map[uint32]bool // epochs that the state keeps
}

func newChain(now time.Time) *chain {
	c := &chain{now: now, last: time.Unix(0, 0), epochs: []state.Epoch{{Nonce: nonceOf(0)}}}
	c.restart()
	return c
}

func nonceOf(epoch uint32) (id record.ID) {
	binary.BigEndian.PutUint32(id[:], epoch+1)
	return id
}

// restart seals the epoch, as each start of a broker does.
func (c *chain) restart() {
	c.objects = append(c.objects, object{c.end, record.KindSeal, c.last, c.now, false})
	c.epochs = slices.Clone(c.epochs)
	c.epochs[len(c.epochs)-1].Seal = c.end.Slot
	c.end = state.Position{Epoch: c.end.Epoch + 1}
	c.epochs = append(c.epochs, state.Epoch{Number: c.end.Epoch, Nonce: nonceOf(c.end.Epoch)})
	if old := len(c.epochs) - state.EpochsKept - 1; old > 0 {
		c.epochs = slices.DeleteFunc(slices.Clone(c.epochs), func(e state.Epoch) bool {
			return e.Number+state.EpochsKept < c.end.Epoch && !c.used[e.Number]
		})
	}
}

func (c *chain) commit(n int, every time.Duration) {
	for range n {
		c.now = c.now.Add(every)
		c.last = c.now
		c.objects = append(c.objects, object{c.end, record.KindData, c.now, c.now, false})
		c.end.Slot++
	}
}

// collect deletes DATA before the newest keep objects.
func (c *chain) collect(keep int) {
	for i := range c.objects[:max(0, len(c.objects)-keep)] {
		c.objects[i].gone = c.objects[i].kind == record.KindData
	}
}

// since counts the objects that were stored since a time.
func (c *chain) since(t time.Time) (n int64) {
	for i := range c.objects {
		if !c.objects[i].put.Before(t) {
			n++
		}
	}
	return n
}

// LeadingEpoch is the newest epoch, as of a broker that starts on the chain.
func (c *chain) LeadingEpoch() uint32 {
	if c.follows {
		return 0
	}
	return c.end.Epoch
}

func (c *chain) Cluster() record.ID { return nonceOf(0) }
func (c *chain) StoredBytes() int64 { return c.bytes }

func (c *chain) LogPosition() (state.Position, record.ID, bool) {
	return c.end, nonceOf(c.end.Epoch), true
}

func (c *chain) Chain() ([]state.Epoch, state.Position) { return c.epochs, c.end }

func (c *chain) Passed(pos state.Position, nonce record.ID) bool {
	return !c.end.Less(pos) && nonce == nonceOf(pos.Epoch)
}

func (c *chain) SlotHead(_ context.Context, pos state.Position) (*record.Head, error) {
	if c.reads++; c.err != nil {
		return nil, c.err
	}
	for i := range c.objects {
		if o := &c.objects[i]; o.pos == pos && !o.gone {
			return &record.Head{Kind: o.kind, Time: o.time.UnixMicro()}, nil
		}
	}
	return nil, nil
}

// sent is a store's count of requests.
type sent objstore.Requests

func (s *sent) Requests() objstore.Requests { return objstore.Requests(*s) }

// broker is a broker on a chain with a data folder.
type broker struct {
	*chain
	meter  *cost.Meter
	sent   *sent
	saved  []byte // the file
	saves  int
	saveAs error
	// budget, if not "", is that of the broker, with the limiter of its last start
	budget  string
	limiter *cost.Limiter
}

func newBroker(c *chain) *broker {
	b := &broker{chain: c}
	b.open()
	return b
}

// open starts the broker's process.
func (b *broker) open() {
	prices, _ := cost.Preset("s3-standard")
	b.sent = &sent{Put: 2, List: 2, Get: 3} // a start puts its SEAL twice
	now := func() time.Time { return b.now }
	if b.budget != "" {
		b.limiter = newLimiter(b.budget, now)
	}
	b.meter = cost.Open(cost.Options{
		Log: b.chain, Requests: b.sent, Prices: prices, Limiter: b.limiter, Store: "s3://b", Saved: b.saved, Logger: slog.New(slog.DiscardHandler),
		Save: func(file []byte) error {
			if b.saves++; b.saveAs == nil {
				b.saved = file
			}
			return b.saveAs
		},
		Now: now,
	})
	b.meter.Sample()
}

// write commits objects with one PUT each.
func (b *broker) write(n int, every time.Duration) {
	b.commit(n, every)
	b.sent.Put += int64(n)
}

// kill ends the process and starts another, without a last save.
func (b *broker) kill() {
	b.restart()
	b.open()
}

// line returns the requests of a kind.
func line(t *testing.T, c cost.Report, kind string) cost.Requests {
	t.Helper()
	for _, r := range c.Requests {
		if r.Kind == kind {
			return r
		}
	}
	t.Fatalf("no requests of kind %q in %+v", kind, c)
	return cost.Requests{}
}

// counts reports a difference from a number of commit objects since a time.
func (b *broker) counts(t *testing.T, want int64, since time.Time) {
	t.Helper()
	if got := line(t, b.meter.Report(), "commit"); got.Count != want || !got.Since.Equal(since) {
		t.Errorf("%d commit objects since %v, want %d since %v", got.Count, got.Since, want, since)
	}
}

var november = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// TestRestartsKeepTheCount: after stops and kills, also before the file was written, the count is
// the number of commit objects in the bucket.
func TestRestartsKeepTheCount(t *testing.T) {
	b := newBroker(newChain(november.Add(36 * time.Hour)))
	for i := range 40 {
		b.write(7, time.Second)
		switch i % 3 {
		case 0:
			b.meter.Close()
		case 1:
			b.meter.Sample()
		}
		b.kill()
		b.collect(10)
		b.counts(t, b.since(november), november)
	}
	// Each start: one PUT of the SEAL for the second time.
	if got := line(t, b.meter.Report(), "put"); got.Count < 40 || got.Count > 41 {
		t.Errorf("%d other PUTs, want that of each of 41 starts", got.Count)
	}
}

// lose ends the process and starts another without the data folder.
func (b *broker) lose(t *testing.T) {
	t.Helper()
	b.saved, b.reads = nil, 0
	if b.kill(); b.reads > 100 {
		t.Errorf("%d reads", b.reads)
	}
}

// TestLostFolder: the count is derived from the log.
func TestLostFolder(t *testing.T) {
	before := november.Add(-24 * time.Hour)
	for name, write := range map[string]func(b *broker){
		"one epoch": func(b *broker) { b.write(5000, time.Minute) },
		"begin now": func(b *broker) { b.write(24*60-1, time.Minute) },
		"starts without a commit": func(b *broker) {
			b.write(100, time.Minute)
			b.now = november.Add(time.Hour)
			for range 5 {
				b.kill()
			}
		},
		"several epochs": func(b *broker) {
			for range 12 {
				b.write(300, time.Minute)
				b.kill()
			}
		},
	} {
		b := newBroker(newChain(before))
		write(b)
		if b.now.Before(november) {
			b.now = november
		}
		b.lose(t)
		if b.counts(t, b.since(november), november); t.Failed() {
			t.Fatalf("%s, %d reads", name, b.reads)
		}
		if b.reads > 45 {
			t.Errorf("%s: %d reads", name, b.reads)
		}
	}
}

// TestLostBegin: the log no longer tells where the month began, so the answer says since when it
// counts.
func TestLostBegin(t *testing.T) {
	before := november.Add(-24 * time.Hour)
	t.Run("one epoch", func(t *testing.T) {
		b := newBroker(newChain(before))
		b.write(5000, time.Minute)
		b.collect(1000)
		oldest := b.objects[len(b.objects)-1000].time
		b.lose(t)
		b.counts(t, 1001, oldest)
	})
	t.Run("only SEALs are left", func(t *testing.T) {
		b := newBroker(newChain(before))
		b.write(48*60, time.Minute)
		first := b.last
		for range 5 {
			b.kill()
			b.write(100, time.Minute)
		}
		b.collect(1)
		b.lose(t)
		b.counts(t, b.since(first.Add(time.Second))+1, first) // and the SEAL of that time
	})
	t.Run("a late SEAL has a collected name", func(t *testing.T) {
		b := newBroker(newChain(november.Add(-50 * time.Minute)))
		b.write(1000, time.Minute)
		b.collect(100)
		oldest := b.objects[len(b.objects)-100].time
		for i := range b.objects[:len(b.objects)-100] {
			b.objects[i].kind, b.objects[i].gone = record.KindSeal, false
		}
		b.lose(t)
		b.counts(t, 101, oldest)
	})
	t.Run("the store does not answer", func(t *testing.T) {
		b := newBroker(newChain(before))
		b.write(5000, time.Minute)
		b.err = errors.New("no answer")
		b.lose(t)
		b.counts(t, 1, b.now)
		b.err = nil
		b.write(1, 0)
		b.counts(t, 2, b.now)
	})
	t.Run("more epochs than the state knows", func(t *testing.T) {
		b := newBroker(newChain(november))
		for range 40 {
			b.write(2, time.Minute)
			b.lose(t)
		}
		b.counts(t, 3*state.EpochsKept, b.objects[len(b.objects)-3*state.EpochsKept].time)
	})
}

// TestForgottenEpochs: other brokers started so often that the state does not know the way from the
// saved position. The count continues with the known part.
func TestForgottenEpochs(t *testing.T) {
	for _, used := range []uint32{0, 1} { // 1: the state knows the epoch of the position
		b := newBroker(newChain(november.Add(time.Hour)))
		b.used = map[uint32]bool{used: true}
		b.write(10, time.Second)
		b.meter.Close()
		for range 30 {
			b.restart()
			b.commit(1, time.Second)
		}
		b.open()
		if got, want := line(t, b.meter.Report(), "commit").Count, int64(1+10+2*state.EpochsKept+1); got != want {
			t.Errorf("epoch %d known: %d commit objects of %d, want the %d that are known", used, got, b.since(november), want)
		}
	}
}

// TestMonthChange: each month begins with its first commit object.
func TestMonthChange(t *testing.T) {
	december := november.AddDate(0, 1, 0)
	b := newBroker(newChain(december.Add(-time.Hour)))
	b.write(3600-5, time.Second)
	b.sent.List += 8
	b.meter.Sample()
	b.counts(t, b.since(november), november)
	reads := b.reads
	// Ten objects between two samples, the sixth at the begin of the month.
	b.write(10, time.Second)
	b.sent.List += 3
	b.counts(t, 6, december)
	if c := b.meter.Report(); c.Month != "2026-12" || line(t, c, "list").Count != 3 || !line(t, c, "list").Since.Equal(december) {
		t.Errorf("%+v, want 3 LISTs in 2026-12", c)
	}
	if b.reads-reads > 5 {
		t.Errorf("%d reads for 10 slots", b.reads-reads)
	}
	b.write(5, time.Second)
	b.counts(t, 11, december)
	b.kill()
	b.counts(t, 12, december)

	// The first commits of a month come long after its begin.
	january := december.AddDate(0, 1, 0)
	b.meter.Sample()
	b.now = january.Add(time.Hour)
	b.write(5, time.Second)
	b.counts(t, 5, january)

	// No commit is made in a whole month, and the broker is down when the next begins.
	b.meter.Close()
	b.now = january.AddDate(0, 2, 3)
	reads = b.reads
	b.kill()
	b.counts(t, 1, january.AddDate(0, 2, 0))
	if b.reads-reads > 3 {
		t.Errorf("%d reads at a start", b.reads-reads)
	}
}

// TestRandomLogs compares the counts of random histories with the objects that were stored.
func TestRandomLogs(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBroker(newChain(november.Add(-time.Duration(r.IntN(48)) * time.Hour)))
		for range 30 {
			switch r.IntN(6) {
			case 0:
				b.kill()
			case 1:
				b.saved = nil
				b.kill()
			case 2:
				b.meter.Sample()
			case 3:
				b.collect(r.IntN(200))
			default:
				b.write(r.IntN(300), time.Duration(1+r.IntN(600))*time.Second)
			}
			b.now = b.now.Add(time.Second)
		}
		got := line(t, b.meter.Report(), "commit")
		// Since is a whole second. A SEAL before the first DATA of the month may count.
		most, least := int64(0), int64(0)
		for i := range b.objects {
			switch o := &b.objects[i]; {
			case o.kind == record.KindSeal:
				most++
				if !o.time.Before(got.Since.Add(time.Second)) {
					least++
				}
			case !o.put.Before(got.Since):
				most++
				if !o.put.Before(got.Since.Add(time.Second)) {
					least++
				}
			}
		}
		if got.Count < least || got.Count > most || got.Since.Before(monthStart(b.now)) {
			t.Errorf("seed %d: %d commit objects since %v, want %d to %d", seed, got.Count, got.Since, least, most)
		}
	}
}

func monthStart(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// TestAnotherLogStartsAnew: the file's position is of a bucket that was replaced.
func TestAnotherLogStartsAnew(t *testing.T) {
	b := newBroker(newChain(november))
	b.write(500, time.Second)
	b.meter.Close()
	b.chain = newChain(november.Add(time.Hour))
	b.open()
	b.counts(t, 1, november)
	if got := line(t, b.meter.Report(), "list"); got.Count != 2 || !got.Since.Equal(monthStart(b.now)) {
		t.Errorf("%+v, want 2 LISTs in the month: the process has made the log", got)
	}
}

// TestSaves: the file is written at the start, at most once a minute if something has changed, and at
// the end. It keeps other buckets. An error does not disturb.
func TestSaves(t *testing.T) {
	b := &broker{chain: newChain(november), saved: []byte(`[{"store":"other","commits":7},{"store":"s3://b","commits":5}]`)}
	b.open()
	for want, step := range []func(){
		1: func() {},
		2: func() { b.write(1, time.Minute); b.meter.Sample(); b.write(1, time.Second); b.meter.Sample() },
		3: func() { b.write(1, time.Minute); b.meter.Sample(); b.now = b.now.Add(time.Hour); b.meter.Sample() },
		4: func() { b.write(1, time.Second); b.meter.Close() },
		5: func() {
			b.saveAs = errors.New("read-only")
			b.write(1, time.Minute)
			b.meter.Sample()
			b.meter.Sample()
		},
		6: func() { b.now = b.now.Add(time.Minute); b.meter.Sample() },
		7: func() { b.saveAs = nil; b.now = b.now.Add(time.Minute); b.meter.Sample(); b.meter.Close() },
	} {
		if step == nil {
			continue
		}
		if step(); b.saves != want {
			t.Errorf("step %d: written %d times", want, b.saves)
		}
	}
	var file []struct {
		Store   string
		Commits int64
	}
	if err := json.Unmarshal(b.saved, &file); err != nil || len(file) != 2 || file[0].Commits != 7 || file[1].Commits != b.since(november) {
		t.Errorf("%s, %v", b.saved, err)
	}
	b.saved = []byte("{")
	b.kill()
	b.counts(t, b.since(november), november)
}

// TestPace: an hour of requests, times 730.
func TestPace(t *testing.T) {
	b := newBroker(newChain(november))
	b.bytes = 2e9
	b.write(1000, 10*time.Millisecond) // not yet a minute
	if c := b.meter.Report(); c.PaceSeconds != 0 || line(t, c, "commit").MonthCount != 0 || c.MonthDollars != 2*0.023 {
		t.Errorf("%+v, want no pace yet", c)
	}
	for range 3 * 360 {
		b.write(10, time.Second)
		b.sent.Get += 2
		b.meter.Sample()
	}
	c := b.meter.Report()
	if commits, gets := line(t, c, "commit"), line(t, c, "get"); c.PaceSeconds <= 3540 || c.PaceSeconds > 3600 || commits.MonthCount != 3600*730 || gets.MonthCount != 720*730 {
		t.Errorf("%+v, want 3,600 commit objects and 720 GETs an hour", c)
	}
	if want := 730*(3600*5+720*0.4)/1e6 + 2*0.023; c.MonthDollars < want-0.01 || c.MonthDollars > want+0.01 {
		t.Errorf("$%g a month, want %g", c.MonthDollars, want)
	}
	if want := (float64(b.since(november)+1+2)*5 + float64(3+2*3*360)*0.4) / 1e6; c.Dollars < want-1e-9 || c.Dollars > want+1e-9 || b.meter.Dollars() != c.Dollars {
		t.Errorf("$%g this month, want %g", c.Dollars, want)
	}
	// An hour without requests: nothing is read or written.
	b.now = b.now.Add(time.Minute)
	b.meter.Sample()
	reads, saves := b.reads, b.saves
	for range 70 {
		b.now = b.now.Add(time.Minute)
		b.meter.Sample()
	}
	if c := b.meter.Report(); c.MonthDollars != 2*0.023 {
		t.Errorf("$%g a month when idle, want only the storage", c.MonthDollars)
	}
	if b.reads != reads || b.saves != saves {
		t.Errorf("%d reads and %d writes of the file in an idle hour", b.reads-reads, b.saves-saves)
	}
}

// TestFollower: all PUTs of a read-only broker are its own, and the commit objects those of the
// leader.
func TestFollower(t *testing.T) {
	c := newChain(november)
	c.follows = true
	b := newBroker(c)
	b.sent.Put = 0
	b.commit(10, time.Second)
	if got := b.meter.Report(); line(t, got, "commit").Count != 11 || line(t, got, "put").Count != 0 {
		t.Errorf("%+v, want 11 commit objects and no PUT", got)
	}
}

// TestTermsOfOneProcess: a broker leads, follows another one, and leads again. Each commit object is
// counted once, whether it was counted before the end of its epoch or not.
func TestTermsOfOneProcess(t *testing.T) {
	b := newBroker(newChain(november))
	want := func(commits, puts int64) {
		t.Helper()
		got := b.meter.Report()
		if n, m := line(t, got, "commit").Count, line(t, got, "put").Count; n != commits || m != puts {
			t.Errorf("%d commit objects and %d other PUTs, want %d and %d", n, m, commits, puts)
		}
	}
	want(1, 1) // a start puts its SEAL twice
	b.write(10, time.Second)
	want(11, 1)
	b.write(5, time.Second)
	b.follows = true
	want(16, 1)
	b.restart()
	want(17, 1)
	b.commit(100, time.Second)
	want(117, 1)
	b.restart()
	b.follows = false
	b.sent.Put += 2
	b.write(3, time.Second)
	want(121, 2)
	b.write(2, time.Second)
	b.restart()
	b.commit(7, time.Second)
	b.restart()
	b.sent.Put += 2
	want(132, 3)
}
