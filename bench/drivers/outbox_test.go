package drivers

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/sebbroker/seb/test/must"
)

func message(text string, done *[]error) queued {
	return queued{Payload: []byte(text), Done: func(err error) { *done = append(*done, err) }}
}

func TestOutboxOrderAndLimits(t *testing.T) {
	b := newOutbox(100, 0)
	var done []error
	for _, text := range []string{"a", "bb", "ccc", "dddd"} {
		b.Put(t.Context(), message(text, &done))
	}
	b.Close()
	var got []string
	for _, limit := range [][2]int{{10, 3}, {1, 100}, {10, 1}} {
		list := must.Get(b.Take(limit[0], limit[1]))(t)
		text := ""
		for _, m := range list {
			text += string(m.Payload) + " "
		}
		got = append(got, text)
		doneAll(list, nil)
	}
	if got[0] != "a bb " || got[1] != "ccc " || got[2] != "dddd " {
		t.Errorf("taken: %q", got)
	}
	if _, err := b.Take(1, 1); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	if len(done) != 4 || errors.Join(done...) != nil {
		t.Errorf("done: %v", done)
	}
	b.Put(t.Context(), message("late", &done))
	if len(done) != 5 || !errors.Is(done[4], errClosed) {
		t.Errorf("after Close: %v", done)
	}
}

// TestBatchesAreTakenTogether: a batch is not taken before it is complete, unless nothing follows, and
// the limit of the outbox does not keep a batch from becoming complete.
func TestBatchesAreTakenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newOutbox(2, 3)
		taken := make(chan int)
		go func() {
			defer close(taken)
			for list, err := b.Take(100, 100); err == nil; list, err = b.Take(100, 100) {
				taken <- len(list)
				doneAll(list, nil)
			}
		}()
		var done []error
		put := func() { b.Put(t.Context(), message("m", &done)) }
		put()
		put()
		synctest.Wait()
		select {
		case n := <-taken:
			t.Fatalf("took %d of 3 messages", n)
		default:
		}
		put()
		if n := <-taken; n != 3 {
			t.Errorf("took %d messages, want the batch of 3", n)
		}
		put()
		b.Close()
		if n := <-taken; n != 1 {
			t.Errorf("took %d messages after the end, want the rest, 1", n)
		}
		if n, more := <-taken; more {
			t.Errorf("took %d messages of an empty outbox", n)
		}
	})
}

func TestPutWaitsForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newOutbox(4, 0)
		var done []error
		b.Put(t.Context(), message("larger than the box", &done))
		added := false
		go func() {
			b.Put(t.Context(), message("b", &done))
			added = true
		}()
		synctest.Wait()
		if added {
			t.Fatal("Put waits although there is space")
		}
		if list, err := b.Take(10, 10); err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		synctest.Wait()
		if !added {
			t.Fatal("Put returned without space")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		go cancel(why)
		b.Put(ctx, message("ccccc", &done))
		if len(done) != 1 || !errors.Is(done[0], why) {
			t.Errorf("done: %v", done)
		}
	})
}

func TestFailEndsQueuedMessages(t *testing.T) {
	b := newOutbox(100, 0)
	var done []error
	b.Put(t.Context(), message("a", &done))
	why := errors.New("why")
	b.Fail(why)
	b.Put(t.Context(), message("b", &done))
	if len(done) != 2 || !errors.Is(done[0], why) || !errors.Is(done[1], why) {
		t.Errorf("done: %v", done)
	}
	if _, err := b.Take(1, 1); err != io.EOF {
		t.Error(err)
	}
}
