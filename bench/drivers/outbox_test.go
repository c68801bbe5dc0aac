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
	b := newOutbox(100)
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

func TestPutWaitsForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newOutbox(4)
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
	b := newOutbox(100)
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
