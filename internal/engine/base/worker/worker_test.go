package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/test/check"
)

// queue is a Source in memory. A message is leased, settled, or ready at a time.
type queue struct {
	mu       sync.Mutex // guards all fields
	messages []*message
	byID     map[string]*message
	run      func(ctx context.Context, id string) error
	down     error         // of each call
	slow     time.Duration // of each settlement
	unknown  int           // settlements to answer with errAgain, though they are stored
	calls    []string      // settlements as text, but no extensions
	extends  int
	leases   []int // sizes asked for
}

type message struct {
	id    string
	at    time.Time // ready, or the end of the lease
	lease int       // number of the newest lease; -1: it is done
	dead  bool
	tries int
}

var (
	errAgain = errors.New("again")
	errFinal = errors.New("final")
	errStale = errors.New("stale")
	errGrave = errors.New("no dead-letter queue")
)

func (q *queue) Judge(err error) Judgement {
	switch {
	case errors.Is(err, errAgain), errors.Is(err, context.Canceled):
		return Again
	case errors.Is(err, errStale):
		return Lost
	case errors.Is(err, errGrave):
		return NoDeadLetter
	}
	return Final
}

func (q *queue) Visibility(context.Context) (time.Duration, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return 30 * time.Second, q.down
}

func (q *queue) Lease(ctx context.Context, r Request) (list []Lease, err error) {
	q.mu.Lock()
	q.leases = append(q.leases, r.Max)
	q.mu.Unlock()
	for end := time.Now().Add(r.Wait); ; {
		q.mu.Lock()
		err := q.down
		for _, m := range q.messages {
			if len(list) < r.Max && m.lease >= 0 && !m.at.After(time.Now()) && err == nil {
				m.lease++
				m.tries++
				m.at = time.Now().Add(r.Visibility)
				list = append(list, Lease{m.id, fmt.Sprint(m.id, "/", m.lease), func(ctx context.Context) error { return q.run(ctx, m.id) }})
			}
		}
		q.mu.Unlock()
		if err != nil || len(list) > 0 || !time.Now().Before(end) {
			return list, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (q *queue) Settle(ctx context.Context, list []Settlement) ([]error, error) {
	q.mu.Lock()
	slow := q.slow
	q.mu.Unlock()
	if list[0].Do != Extend {
		time.Sleep(slow)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.down != nil {
		return nil, q.down
	}
	results := make([]error, len(list))
	var texts []string
	for i, s := range list {
		results[i] = q.settle(s)
		if s.Do == Extend {
			q.extends++
			continue
		}
		text := s.Receipt + " " + s.Do
		if s.Delay != nil {
			text += " " + s.Delay.String()
		}
		texts = append(texts, strings.TrimSpace(text+" "+s.Reason))
	}
	if len(texts) > 0 {
		q.calls = append(q.calls, texts...)
		if q.unknown > 0 {
			q.unknown--
			return nil, errAgain
		}
	}
	return results, nil
}

func (q *queue) settle(s Settlement) error {
	id, _, _ := strings.Cut(s.Receipt, "/")
	if m := q.byID[id]; m.lease >= 0 && fmt.Sprint(m.id, "/", m.lease) == s.Receipt {
		switch s.Do {
		case Done:
			m.lease = -1
		case Dead:
			if !m.dead {
				return errGrave
			}
			m.lease = -1
		case Retry:
			m.lease += 1000 // the receipt is stale
			m.at = time.Now().Add(time.Hour)
			if s.Delay != nil {
				m.at = time.Now().Add(*s.Delay)
			}
		case Extend:
			m.at = time.Now().Add(*s.Delay)
		}
		return nil
	}
	return errStale
}

func newQueue(ids ...string) *queue {
	q := &queue{byID: map[string]*message{}}
	for _, id := range ids {
		q.byID[id] = &message{id: id, dead: true}
		q.messages = append(q.messages, q.byID[id])
	}
	return q
}

func (q *queue) locked(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
}

// said returns the settlements, sorted.
func (q *queue) said() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	slices.Sort(q.calls)
	return strings.Join(q.calls, "; ")
}

func numbered(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint("m", i))
	}
	return ids
}

// TestOutcomes: what a function returns becomes the settlement of its message.
func TestOutcomes(t *testing.T) {
	reasons := map[string]string{
		strings.Repeat("a", 600):       strings.Repeat("a", 512),
		strings.Repeat("é", 300):       strings.Repeat("é", 256),
		"x" + strings.Repeat("é", 300): "x" + strings.Repeat("é", 255),
		"a\xffb":                       "a\uFFFDb",
	}
	for given, want := range reasons {
		check.Equal(t, reason(errors.New(given)), want)
	}
	for want, f := range map[string]func(context.Context) error{
		"m/1 done":               func(context.Context) error { return nil },
		"m/1 retry mailbox full": func(context.Context) error { return errors.New("mailbox full") },
		"m/1 retry 5m0s send: greylist": func(context.Context) error {
			return fmt.Errorf("send: %w", RetryAfter(5*time.Minute, errors.New("greylist")))
		},
		"m/1 retry 0s again after 0s":                func(context.Context) error { return RetryAfter(-1, nil) },
		"m/1 dead no such user":                      func(context.Context) error { return GiveUp(errors.New("no such user")) },
		"m/1 retry panic: boom":                      func(context.Context) error { panic("boom") },
		"m/1 retry the function ended its goroutine": func(context.Context) error { runtime.Goexit(); return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue("m")
			q.run = func(ctx context.Context, _ string) error {
				if q.messages[0].tries > 1 {
					return nil
				}
				return f(ctx)
			}
			check.NoError(t, Run(t.Context(), q, Options{UntilEmpty: true}))
			check.Equal(t, strings.Split(q.said(), "; ")[0], want)
		})
	}
}

// TestConcurrency: as many functions run at once as the options say, and no more messages are leased.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, running, most := newQueue(numbered(100)...), 0, 0
		q.run = func(context.Context, string) error {
			q.locked(func() { running++; most = max(most, running) })
			time.Sleep(time.Second)
			q.locked(func() { running-- })
			return nil
		}
		began := time.Now()
		check.NoError(t, Run(t.Context(), q, Options{Concurrency: 10, UntilEmpty: true}))
		check.Equal(t, most, 10)
		check.Equal(t, slices.Max(q.leases), 10)
		check.Equal(t, time.Since(began), 10*time.Second+busyWait)
	})
}

// TestBackground: a function does not wait for the settlement of the message before, but the worker does not
// run ahead of the store without a bound.
func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, ran := newQueue(numbered(3*unsettledMax)...), 0
		q.slow = 15 * time.Second
		q.run = func(context.Context, string) error { q.locked(func() { ran++ }); return nil }
		done := make(chan error)
		go func() { done <- Run(t.Context(), q, Options{Concurrency: 100, UntilEmpty: true}) }()
		time.Sleep(time.Second)
		synctest.Wait()
		q.locked(func() {
			check.Equalf(t, ran >= unsettledMax && ran <= unsettledMax+100, true, "%d functions ran before the first settlement", ran)
		})
		check.NoError(t, <-done)
		check.Equal(t, len(q.calls), 3*unsettledMax)
	})
}

// TestExtend: a lease is extended while its function runs, and while its settlement is on its way.
func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("m")
		q.slow = 2 * time.Minute
		q.run = func(ctx context.Context, _ string) error {
			time.Sleep(10 * time.Minute)
			return ctx.Err()
		}
		check.NoError(t, Run(t.Context(), q, Options{UntilEmpty: true, Concurrency: 2}))
		check.Equal(t, q.said(), "m/1 done")
		check.Equalf(t, q.messages[0].tries, 1, "leases")
		check.Equalf(t, q.extends >= 40 && q.extends <= 72, true, "%d extensions", q.extends)
	})
}

// TestNoExtend: the context of the function ends before the lease.
func TestNoExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, began := newQueue("m"), time.Now()
		q.run = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			check.Equal(t, time.Since(began), 29*time.Second)
			return context.Cause(ctx)
		}
		check.NoError(t, Run(t.Context(), q, Options{UntilEmpty: true, NoExtend: true}))
		check.Equal(t, q.said(), "m/1 retry "+ErrLeaseOver.Error())
	})
}

// TestLost: the loss of a lease ends the context of its function, and nothing is said of the message.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, told := newQueue("m"), []error{}
		q.run = func(ctx context.Context, id string) error {
			q.locked(func() { q.messages[0].lease = -1 })
			<-ctx.Done()
			check.ErrorIs(t, context.Cause(ctx), ErrLost)
			return nil
		}
		check.NoError(t, Run(t.Context(), q, Options{UntilEmpty: true, OnError: func(err error) { told = append(told, err) }}))
		check.Equal(t, q.said(), "")
		if len(told) != 1 || !errors.Is(told[0], ErrLost) || !strings.HasPrefix(told[0].Error(), "message m: done: ") {
			t.Errorf("told %v", told)
		}
	})
}

// TestUnknownOutcome: a settlement whose answer is lost is sent again, and its stale receipt is no error of Run.
func TestUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("m")
		q.unknown = 2
		q.run = func(context.Context, string) error { return nil }
		check.NoError(t, Run(t.Context(), q, Options{UntilEmpty: true}))
		check.Equal(t, q.said(), "m/1 done; m/1 done; m/1 done")
	})
}

// TestNoDeadLetterQueue: a message that cannot go to a dead-letter queue comes again.
func TestNoDeadLetterQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("m")
		q.messages[0].dead = false
		q.run = func(context.Context, string) error { return GiveUp(errors.New("x")) }
		check.NoError(t, Run(t.Context(), q, Options{UntilEmpty: true}))
		check.Equal(t, q.said(), "m/1 dead x; m/1 retry x")
	})
}

// TestStop: after the end of its context Run leases no more, and waits for the functions and their settlements.
func TestStop(t *testing.T) {
	for grace, want := range map[time.Duration]string{0: "m0/1 done; m1/1 done", time.Minute: "m0/1 retry 0s the worker stops; m1/1 done"} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(numbered(3)...)
			q.slow = time.Second
			q.run = func(ctx context.Context, id string) error {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(map[string]time.Duration{"m0": time.Hour, "m1": 10 * time.Second}[id]):
					return nil
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, cancel)
			check.NoError(t, Run(ctx, q, Options{Concurrency: 2, GracePeriod: grace}))
			check.Equal(t, q.said(), want)
		})
	}
}

// TestUnsettled: Run says that settlements were not stored when it cannot repeat them any more.
func TestUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(numbered(2)...)
		ctx, cancel := context.WithCancel(t.Context())
		q.run = func(context.Context, string) error {
			cancel()
			q.locked(func() { q.down = errAgain })
			return nil
		}
		err := Run(ctx, q, Options{Concurrency: 2})
		check.ErrorIs(t, err, errAgain)
		check.ErrorContains(t, err, "2 settlements are not stored")
	})
}

// TestDown: a source that does not answer is asked again, from the first call on; other errors end Run.
func TestDown(t *testing.T) {
	for _, last := range []error{nil, errFinal} {
		synctest.Test(t, func(t *testing.T) {
			q, told := newQueue("m", "n"), 0
			q.down = errAgain
			q.run = func(context.Context, string) error { return nil }
			time.AfterFunc(time.Hour, func() { q.locked(func() { q.down = last }) })
			err := Run(t.Context(), q, Options{UntilEmpty: true, OnError: func(error) { q.locked(func() { told++ }) }})
			if !errors.Is(err, last) || told == 0 {
				t.Errorf("%v, told %d errors; want %v", err, told, last)
			}
			check.Equal(t, q.said(), map[bool]string{true: "m/1 done; n/1 done"}[last == nil])
		})
	}
}

// TestRefused: an error of a lease that no repetition changes ends Run, also long after the start.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, told := newQueue(), []error{}
		time.AfterFunc(time.Hour, func() { q.locked(func() { q.down = errFinal }) })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		check.ErrorIs(t, Run(ctx, q, Options{OnError: func(err error) { told = append(told, err) }}), errFinal)
		check.NoError(t, ctx.Err())
		check.Equal(t, len(told), 0)
	})
}

// TestDeadCalls: a lease that is not answered is asked for again.
func TestDeadCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, told := newQueue("m"), 0
		q.run = func(context.Context, string) error { return nil }
		s := &silent{queue: q}
		check.NoError(t, Run(t.Context(), s, Options{UntilEmpty: true, OnError: func(error) { told++ }}))
		check.Equal(t, told, 1)
		check.Equal(t, q.said(), "m/1 done")
	})
}

// silent does not answer its first lease.
type silent struct {
	*queue
	asked bool
}

func (s *silent) Lease(ctx context.Context, r Request) ([]Lease, error) {
	if !s.asked {
		s.asked = true
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.queue.Lease(ctx, r)
}

// TestExtendFails: an extension that fails is told, and tried again.
func TestExtendFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, told := newQueue("m"), []error{}
		q.run = func(context.Context, string) error {
			q.locked(func() { q.down = errAgain })
			time.Sleep(12 * time.Second)
			q.locked(func() { q.down = nil })
			time.Sleep(time.Minute)
			return nil
		}
		check.NoError(t, Run(t.Context(), q, Options{UntilEmpty: true, OnError: func(err error) { told = append(told, err) }}))
		check.Equal(t, q.said(), "m/1 done")
		if len(told) != 1 || told[0].Error() != "extend: again" {
			t.Errorf("told %v", told)
		}
	})
}

// TestDownWithMessages: messages whose functions have returned are settled when the source answers again.
func TestDownWithMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(numbered(5)...)
		q.run = func(_ context.Context, id string) error {
			if q.locked(func() { q.down = errAgain }); id == "m4" {
				time.AfterFunc(20*time.Second, func() { q.locked(func() { q.down = nil }) })
			}
			return nil
		}
		check.NoError(t, Run(t.Context(), q, Options{UntilEmpty: true, Concurrency: 5}))
		check.Equal(t, q.said(), "m0/1 done; m1/1 done; m2/1 done; m3/1 done; m4/1 done")
	})
}

// TestOptionsAreChecked: all faults are reported at once.
func TestOptionsAreChecked(t *testing.T) {
	err := Run(t.Context(), newQueue(), Options{Concurrency: -1, Visibility: time.Millisecond, GracePeriod: -1})
	for _, want := range []string{"concurrency: -1", "visibility: 1ms", "grace period: -1ns"} {
		check.ErrorContains(t, cmp.Or(err, errors.New("none")), want)
	}
}
