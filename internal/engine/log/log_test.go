package log_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestEveryAckIsStoredAtItsOffset(t *testing.T) {
	store := objstore.NewMemory()
	l := open(t, options(store))
	ids := []record.ID{topic(t, l, "a", 3), topic(t, l, "b", 1)}
	type ack struct {
		topic, partition int
		base             int64
		values           []string
	}
	var mu sync.Mutex
	var acks []ack
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			for i := range 40 {
				a := ack{topic: i % 2, partition: (p + i) % 3 * ((i + 1) % 2)}
				for j := range 1 + i%4 {
					a.values = append(a.values, fmt.Sprintf("%d.%d.%d", p, i, j))
				}
				r := wait(t, l.Submit([]log.Append{batch(t, ids[a.topic], uint32(a.partition), a.values...)}))
				if err := r[0].Err(); err != nil || r[0].Span != int64(len(a.values)) || r[0].Time == 0 {
					t.Errorf("%+v: %v", r[0], err)
					return
				}
				a.base = r[0].Base
				mu.Lock()
				acks = append(acks, a)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	verify := func(l *log.Log) {
		t.Helper()
		var have [2][3][]string
		for ti := range ids {
			for p := range 3 - 2*ti {
				have[ti][p] = contents(t, l, store, ids[ti], p)
			}
		}
		n := 0
		for _, a := range acks {
			n += len(a.values)
			for i, v := range a.values {
				if got := have[a.topic][a.partition]; a.base+int64(i) >= int64(len(got)) || got[a.base+int64(i)] != v {
					t.Fatalf("topic %d partition %d offset %d is not %q", a.topic, a.partition, a.base+int64(i), v)
				}
			}
		}
		for ti := range have {
			for p := range have[ti] {
				n -= len(have[ti][p])
			}
		}
		must.Equalf(t, n, 0, "acked records are not stored")
	}
	verify(l)
	l.Kill()
	verify(open(t, options(store)))
}

func TestSecondLogFencesTheFirst(t *testing.T) {
	store := objstore.NewMemory()
	first := open(t, options(store))
	id := topic(t, first, "a", 1)
	must.NoError(t, wait(t, first.Submit([]log.Append{batch(t, id, 0, "one")}))[0].Err())
	o := options(store)
	o.Core.Advertised = "http://second:8080"
	second := open(t, o)
	if second.Status().Epoch <= first.Status().Epoch {
		t.Fatalf("epochs %d, %d", first.Status().Epoch, second.Status().Epoch)
	}
	// Its PUT meets the SEAL.
	err := wait(t, first.Submit([]log.Append{batch(t, id, 0, "two")}))[0].Err()
	must.ErrorIsf(t, err, state.ErrOutcomeUnknown, "sent by a fenced log")
	<-first.Done()
	var fenced *state.FencedError
	if s := first.Status(); s.Role != core.RoleFenced || !errors.As(s.Ended, &fenced) || fenced.Leader != "http://second:8080" || fenced.Epoch != second.Status().Epoch ||
		s.Epoch != fenced.Epoch-1 { // its state is of its own epoch
		t.Fatalf("status %+v", s)
	}
	err = wait(t, first.Submit([]log.Append{batch(t, id, 0, "three")}))[0].Err()
	must.ErrorIsf(t, err, state.ErrFenced, "submitted to a fenced log")
	if first.Ready() == nil || second.Ready() != nil {
		t.Fatalf("ready: %v, %v", first.Ready(), second.Ready())
	}
	must.NoError(t, wait(t, second.Submit([]log.Append{batch(t, id, 0, "four")}))[0].Err())
	if got := contents(t, second, store, id, 0); fmt.Sprint(got) != "[one four]" {
		t.Fatalf("has %v", got)
	}
}

func TestHangingStore(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	l := open(t, options(store))
	id := topic(t, l, "a", 1)
	began := make(chan struct{}, 100)
	store.set(func(ctx context.Context, _ string, _ objstore.Body, _ func() error) error {
		began <- struct{}{}
		<-ctx.Done()
		return fmt.Errorf("put: %w: %w", objstore.ErrNoVerdict, ctx.Err())
	})
	var sent []*log.Ticket
	for i := range 4 { // the window
		sent = append(sent, l.Submit([]log.Append{batch(t, id, 0, fmt.Sprint(i))}))
		<-began
	}
	released := 0
	a := batch(t, id, 0, "queued")
	a.Release = func() { released++ }
	queued := l.Submit([]log.Append{a})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := queued.Wait(ctx)[0].Err(); !errors.Is(err, log.ErrNotSent) || !errors.Is(err, context.Canceled) {
		t.Fatalf("not sent: %v", err)
	}
	if released != 1 {
		t.Fatalf("data of removed appends was released %d times", released)
	}
	for _, k := range sent {
		must.ErrorIsf(t, k.Wait(ctx)[0].Err(), state.ErrOutcomeUnknown, "sent")
	}
	closing, done := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer done()
	must.ErrorIsf(t, l.Close(closing), context.DeadlineExceeded, "close")
	// Nothing was stored, so the next log has an empty topic.
	store.set(nil)
	if got := contents(t, open(t, options(store)), store, id, 0); len(got) != 0 {
		t.Fatalf("has %v", got)
	}
}

func TestQueueIsBounded(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	o := options(store)
	o.QueueBytes = 1000
	l := open(t, o)
	id := topic(t, l, "a", 1)
	block := make(chan struct{})
	store.set(func(_ context.Context, _ string, _ objstore.Body, pass func() error) error {
		<-block
		return pass()
	})
	value := strings.Repeat("x", 300)
	var acked, full int
	var tickets []*log.Ticket
	for range 200 {
		k := l.Submit([]log.Append{batch(t, id, 0, value)})
		select {
		case <-k.Done():
			must.ErrorIs(t, wait(t, k)[0].Err(), log.ErrQueueFull)
			full++
		default:
			tickets = append(tickets, k)
		}
	}
	if full == 0 {
		t.Fatal("200 appends of 300 bytes fit into 1000")
	}
	close(block)
	for _, k := range tickets {
		must.NoError(t, wait(t, k)[0].Err())
		acked++
	}
	if got := contents(t, l, store, id, 0); len(got) != acked {
		t.Fatalf("%d acked, %d stored", acked, len(got))
	}
}

func TestRefusingStoreRecoversWithoutARestart(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	l := open(t, options(store))
	id := topic(t, l, "a", 1)
	refused := make(chan struct{}, 1000)
	store.set(func(context.Context, string, objstore.Body, func() error) error {
		refused <- struct{}{}
		return fmt.Errorf("put: %w: key revoked", objstore.ErrRefused)
	})
	first := l.Submit([]log.Append{batch(t, id, 0, "first")})
	<-refused
	var err error
	for !errors.Is(err, state.ErrStoreUnavailable) { // until the owner has the answer
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		err = l.Submit([]log.Append{batch(t, id, 0, "second")}).Wait(ctx)[0].Err()
		cancel()
	}
	must.Containsf(t, err.Error(), "key revoked", "while the store refuses: %v", err)
	must.ErrorContainsf(t, l.Ready(), "key revoked", "ready")
	store.set(nil)
	must.NoErrorf(t, wait(t, first)[0].Err(), "sent before")
	must.NoError(t, wait(t, l.Submit([]log.Append{batch(t, id, 0, "third")}))[0].Err())
	must.NoError(t, l.Ready())
	if got := contents(t, l, store, id, 0); got[0] != "first" || got[len(got)-1] != "third" {
		t.Fatalf("has %v", got)
	}
}

func TestLostAnswerIsOneRecord(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	l := open(t, options(store))
	id := topic(t, l, "a", 1)
	lost := 0
	store.set(func(_ context.Context, _ string, _ objstore.Body, pass func() error) error {
		err := pass()
		if lost < 2 && err == nil {
			lost++
			return fmt.Errorf("put: %w: connection reset", objstore.ErrNoVerdict)
		}
		return err
	})
	for i := range 4 {
		r := wait(t, l.Submit([]log.Append{batch(t, id, 0, fmt.Sprint(i))}))
		if err := r[0].Err(); err != nil || r[0].Base != int64(i) {
			t.Fatalf("%+v %v", r[0], err)
		}
	}
	if got := contents(t, l, store, id, 0); fmt.Sprint(got) != "[0 1 2 3]" {
		t.Fatalf("has %v", got)
	}
	for k, attempts := range store.puts {
		for _, b := range attempts {
			must.Equalf(t, string(b), string(attempts[0]), "attempts for %s differ", k)
		}
	}
}

func TestOwnSlotCutOffInTheStoreIsNotAcked(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	l := open(t, options(store))
	id := topic(t, l, "a", 1)
	store.set(func(ctx context.Context, key string, body objstore.Body, _ func() error) error {
		if len(store.attempts(key)) > 1 {
			return store.Store.Put(ctx, key, body)
		}
		// a store that keeps half of the bytes when the connection breaks
		whole := store.attempts(key)[0]
		check.NoError(t, store.Store.Put(ctx, key, objstore.NewBody(whole[:len(whole)-10])))
		return fmt.Errorf("put: %w", objstore.ErrNoVerdict)
	})
	err := wait(t, l.Submit([]log.Append{batch(t, id, 0, strings.Repeat("x", 100))}))[0].Err()
	must.ErrorIsf(t, err, state.ErrOutcomeUnknown, "answer")
	<-l.Done()
	if s := l.Status(); s.Role != core.RoleStopped || !errors.Is(s.Err, record.ErrCorrupt) {
		t.Fatalf("status %+v", s)
	}
	err = wait(t, l.Submit([]log.Append{batch(t, id, 0, "x")}))[0].Err()
	must.ErrorIsf(t, err, state.ErrCorrupt, "later")
}

// TestEnoughBytesEndTheWait checks that an object leaves once it has enough bytes, and the next one
// when it is twice as large or when the first is stored.
func TestEnoughBytesEndTheWait(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	first := open(t, options(store))
	id := topic(t, first, "a", 1)
	first.Kill()
	o := options(store)
	o.Batch.Wait, o.Batch.BytesEnough = time.Hour, 1000
	l := open(t, o)
	began, block := make(chan struct{}, 4), make(chan struct{})
	store.set(func(_ context.Context, _ string, _ objstore.Body, pass func() error) error {
		began <- struct{}{}
		<-block
		return pass()
	})
	large := strings.Repeat("x", 1500)
	tickets := []*log.Ticket{l.Submit([]log.Append{batch(t, id, 0, large)})}
	<-began
	tickets = append(tickets, l.Submit([]log.Append{batch(t, id, 0, large)}))
	time.Sleep(20 * time.Millisecond)
	if len(began) > 0 {
		t.Error("an object left that is not larger than the one being stored")
	}
	tickets = append(tickets, l.Submit([]log.Append{batch(t, id, 0, large)}))
	<-began
	tickets = append(tickets, l.Submit([]log.Append{batch(t, id, 0, large)}))
	close(block)
	for _, k := range tickets {
		must.NoError(t, wait(t, k)[0].Err())
	}
}

func TestCloseFlushes(t *testing.T) {
	store := objstore.NewMemory()
	o := options(store)
	o.Batch.Wait = time.Hour
	created := options(store)
	first := open(t, created)
	id := topic(t, first, "a", 1)
	first.Kill()
	l := open(t, o)
	var tickets []*log.Ticket
	for i := range 50 {
		tickets = append(tickets, l.Submit([]log.Append{batch(t, id, 0, fmt.Sprint(i))}))
	}
	must.NoError(t, l.Close(context.Background()))
	for i, k := range tickets {
		if r := wait(t, k); r[0].Err() != nil || r[0].Base != int64(i) {
			t.Fatalf("%+v %v", r[0], r[0].Err())
		}
	}
	released := false
	a := batch(t, id, 0, "late")
	a.Release = func() { released = true }
	if err := wait(t, l.Submit([]log.Append{a}))[0].Err(); !errors.Is(err, log.ErrClosed) || !released {
		t.Fatalf("after close: %v, released %v", err, released)
	}
	must.ErrorIsf(t, l.Confirm(context.Background()), log.ErrClosed, "confirm after close")
	must.NoError(t, l.Close(context.Background()))
	<-l.Done()
}

func TestMembersAreAnsweredIndividually(t *testing.T) {
	store := objstore.NewMemory()
	l := open(t, options(store))
	id := topic(t, l, "a", 2)
	wrong := batch(t, id, 0, "x")
	wrong.Head.Expected = 7
	right := batch(t, id, 1, "y")
	right.Head.Expected = 0
	r := wait(t, l.Submit([]log.Append{
		batch(t, id, 0, "a", "b"), wrong, batch(t, record.NewID(), 0, "z"), batch(t, id, 2, "z"), right, batch(t, id, 0, "c"),
	}))
	for i, want := range []error{nil, state.ErrOffsetMismatch, state.ErrUnknownTopic, state.ErrUnknownPartition, nil, nil} {
		check.ErrorIsf(t, r[i].Err(), want, "append %d", i)
	}
	var mismatch *state.OffsetMismatchError
	if !errors.As(r[1].Err(), &mismatch) || mismatch.Expected != 7 || mismatch.Next != 2 || r[5].Base != 2 {
		t.Fatalf("%+v %+v", mismatch, r)
	}
	if got := contents(t, l, store, id, 0); fmt.Sprint(got) != "[a b c]" {
		t.Fatalf("has %v", got)
	}
}
