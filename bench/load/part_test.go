package load_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/bench/load"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// hub connects the parts of a run within the test.
type hub struct {
	w     *workload.Workload
	begin chan struct{} // closed when all are ready
	over  chan struct{}
	swap  chan struct{} // closed when all have sent their receipts

	mu          sync.Mutex // guards the following fields
	ready       int
	totals      []load.Totals
	given       int
	seen        [][]load.Receipts // receipts for each part
	assignments []load.Assignment
}

// member connects a part to a hub.
type member struct {
	*hub
	part int
}

func newHub(t *testing.T, w *workload.Workload, parts int) *hub {
	t.Helper()
	assignments := must.Get(load.Assign(w, parts))(t)
	return &hub{
		w: w, begin: make(chan struct{}), over: make(chan struct{}), swap: make(chan struct{}), assignments: assignments,
		totals: make([]load.Totals, parts), seen: make([][]load.Receipts, parts),
	}
}

func (m member) Ready(context.Context) (time.Time, error) {
	m.mu.Lock()
	m.ready++
	if m.ready == len(m.assignments) {
		close(m.begin)
	}
	m.mu.Unlock()
	<-m.begin
	return time.Now().Add(time.Second), nil
}

func (m member) Report(t load.Totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.totals[m.part] = t
	if load.Complete(m.w, m.totals, false) {
		select {
		case <-m.over:
		default:
			close(m.over)
		}
	}
}

func (m member) Over() <-chan struct{} { return m.over }

func (m member) Exchange(_ context.Context, mine []load.Receipts) ([]load.Receipts, error) {
	m.mu.Lock()
	for _, s := range mine {
		for i, d := range m.assignments {
			if s.Publisher >= d.PublisherFirst && s.Publisher < d.PublisherFirst+d.Publishers {
				m.seen[i] = append(m.seen[i], s)
			}
		}
	}
	if m.given++; m.given == len(m.assignments) {
		close(m.swap)
	}
	m.mu.Unlock()
	<-m.swap
	return m.seen[m.part], nil
}

// guest is a simulation that another part closes.
type guest struct{ *simulation }

func (guest) Teardown(context.Context) error { return nil }

// together performs a run in parts, each with its own clock, against one simulation.
func runParts(t *testing.T, s *simulation, w workload.Workload, parts int) (merged result.Run, each []result.Run) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		must.Get(s.open(t.Context(), sut.Config{}))(t)
		h := newHub(t, &w, parts)
		each = make([]result.Run, parts)
		var machines sync.WaitGroup
		for i := range parts {
			time.Sleep(777 * time.Millisecond)
			c := load.NewStandardClock()
			machines.Go(func() {
				res, err := load.Run(t.Context(), load.Options{
					Workload: w, Clock: c, Run: 42, Part: i, Parts: parts, Others: member{h, i},
					Open: func(context.Context, sut.Config) (sut.System, error) { return guest{s}, nil },
				})
				if err != nil {
					t.Error(err)
					return
				}
				each[i] = *res
			})
		}
		machines.Wait()
		check.NoError(t, s.Teardown(t.Context()))
		var err error
		if merged, err = result.Merge(each); err != nil {
			t.Fatal(err)
		}
	})
	return merged, each
}

func TestParts(t *testing.T) {
	w := simWorkload()
	w.Publishers, w.Subscribers, w.Topics = 5, 3, 1
	alone := simulate(t, &simulation{service: time.Microsecond}, w)
	t.Run("several processes give the same result as one", func(t *testing.T) {
		m, each := runParts(t, &simulation{service: time.Microsecond}, w, 2)
		c, want := m.Counts, alone.Counts
		own := c
		own.Others, own.Reordered = want.Others, want.Reordered
		own.SentRate, own.ReceivedRate = want.SentRate, want.ReceivedRate
		if own != want || c.Others == 0 || len(m.Errors) != 0 {
			t.Errorf("together %+v, alone %+v, errors %v", c, want, m.Errors)
		}
		if c.SentRate < 999 || c.SentRate > 1001 || c.ReceivedRate < 2990 || c.ReceivedRate > 3001 {
			t.Errorf("%v sent and %v received a second", c.SentRate, c.ReceivedRate)
		}
		// Part 0 has two publishers and two subscribers, part 1 three and one.
		if n := m.Curves.E2EIntended.Count; n != 2*4000+6000 || m.Curves.E2EIntended.Negative != 0 {
			t.Errorf("%d samples end to end, %d negative", n, m.Curves.E2EIntended.Negative)
		}
		if n, o := each[0].Curves.E2EIntended.Count, each[1].Counts.Others; n != 8000 || o != 2*2200 {
			t.Errorf("the first part measured %d, the second received %d of the first part's messages", n, o)
		}
		if d := histogram(t, m.Curves.E2EIntended).Max(); d > 10*time.Microsecond {
			t.Errorf("latency of up to %v: times of different clocks were compared", d)
		}
	})
	t.Run("a message lost on its way to another part counts as lost", func(t *testing.T) {
		// Subscriber 1 is in the second part.
		s := &simulation{service: time.Microsecond, deliver: func(n, subscriber int) int {
			if subscriber == 2 && n%101 == 0 {
				return 0
			}
			return 1
		}}
		m, each := runParts(t, s, w, 2)
		c := m.Counts
		if c.Expected != 33_000 || c.Lost != 109 || c.Received != 33_000-109 || c.Clean() {
			t.Errorf("%+v", c)
		}
		if each[0].Counts.Lost == 0 || each[1].Counts.Lost == 0 {
			t.Errorf("lost messages per part: %d and %d, want them counted where they were sent", each[0].Counts.Lost, each[1].Counts.Lost)
		}
	})
	t.Run("a message that arrives there twice is a duplicate", func(t *testing.T) {
		s := &simulation{service: time.Microsecond, deliver: func(n, subscriber int) int {
			if subscriber == 2 && n%101 == 0 {
				return 2
			}
			return 1
		}}
		m, _ := runParts(t, s, w, 2)
		if c := m.Counts; c.Duplicates != 109 || c.Lost != 0 || c.Received != 33_000 {
			t.Errorf("%+v", c)
		}
	})
}

// TestPartsShare lets the subscribers of two parts share the messages of a topic.
func TestPartsShare(t *testing.T) {
	w := simWorkload()
	w.Publishers, w.Subscribers, w.Shared = 4, 2, true
	t.Run("a message that another part received is not lost", func(t *testing.T) {
		m, _ := runParts(t, &simulation{service: time.Microsecond, deliver: func(n, subscriber int) int {
			if n/3%2 == subscriber {
				return 1
			}
			return 0
		}}, w, 2)
		if c := m.Counts; !c.Clean() || c.Expected != 11_000 || c.Received != 11_000 || c.Others == 0 || c.Unexpected != 0 {
			t.Errorf("%+v", c)
		}
		if n := m.Curves.E2EIntended.Count; n < 4000 || n > 6000 {
			t.Errorf("%d samples", n)
		}
	})
	t.Run("a message that both parts received is a duplicate", func(t *testing.T) {
		m, _ := runParts(t, &simulation{service: time.Microsecond}, w, 2)
		if c := m.Counts; c.Duplicates != 11_000 || c.Received != 11_000 || c.Lost != 0 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("a message that no part received is lost, and counts as late", func(t *testing.T) {
		m, _ := runParts(t, &simulation{service: time.Microsecond, deliver: func(n, subscriber int) int {
			if n%1000 != 5 && n%2 == subscriber {
				return 1
			}
			return 0
		}}, w, 2)
		if c := m.Counts; c.Lost != 11 || c.Received != 10_989 {
			t.Errorf("%+v", c)
		}
		check.Equalf(t, above(histogram(t, m.Curves.E2EIntended), 9*time.Second), 10, "samples of at least the timeout")
	})
}

func TestAssign(t *testing.T) {
	w := workload.Default()
	w.Publishers, w.Topics, w.Subscribers = 7, 3, 2
	assignments := must.Get(load.Assign(&w, 3))(t)
	next := 0
	var all []load.Group
	for i, d := range assignments {
		if d.PublisherFirst != next || d.Publishers < 2 {
			t.Errorf("part %d has %d publishers from %d, want them from %d", i, d.Publishers, d.PublisherFirst, next)
		}
		next += d.Publishers
		all = append(all, d.Subscribers...)
		for _, g := range d.Subscribers {
			publishes := false
			for p := d.PublisherFirst; p < d.PublisherFirst+d.Publishers; p++ {
				publishes = publishes || p%w.Topics == g.Topic
			}
			if !publishes {
				t.Errorf("part %d receives %+v but sends nothing to it", i, g)
			}
		}
	}
	slices.SortFunc(all, func(a, b load.Group) int { return 10*(a.Topic-b.Topic) + a.Member - b.Member })
	if next != 7 || !slices.Equal(all, []load.Group{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}) {
		t.Errorf("%d publishers, subscribers %v", next, all)
	}
	for _, n := range []int{0, 8} {
		check.Error(t, check.Err(load.Assign(&w, n)), "no error for seven publishers in %d parts", n)
	}
}

func TestPartsRefused(t *testing.T) {
	w := simWorkload()
	w.Publishers = 3
	check.ErrorContainsf(t, check.Err(load.Run(t.Context(), load.Options{Workload: w, Part: 3, Parts: 3})), "part 3 of 3", "part 4 of 3")
	w.Faults = []workload.Fault{{Kind: workload.Command, Run: "true"}}
	check.ErrorContainsf(t, check.Err(load.Run(t.Context(), load.Options{Workload: w, Parts: 3})), "load machines", "a command")
}

// TestInside lets each part use its own system.
func TestInside(t *testing.T) {
	w := workload.Default()
	w.Warmup, w.Duration, w.Timeout = 0, workload.Duration(200*time.Millisecond), workload.Duration(time.Minute)
	w.Rate, w.Publishers, w.Subscribers = 1000*workload.PerSecond, 3, 2
	var parts []result.Run
	for i := range 2 {
		res, err := load.Run(t.Context(), load.Options{
			Workload: w, Clock: load.NewMonotonicClock(0), Run: 7, Part: i, Parts: 2, Target: workload.Target{Driver: "noop"},
		})
		must.NoError(t, err)
		parts = append(parts, *res)
	}
	m := must.Get(result.Merge(parts))(t)
	if c := m.Counts; c.Sent != 200 || c.Expected != 200 || c.Received != 200 || c.Others != 0 || !c.Clean() {
		t.Errorf("%+v", c)
	}
}
