package queue_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestQueueFigures: the numbers of a queue, and what happened to its messages.
func TestQueueFigures(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("mails", "max-deliveries", "2", "backoff", "1h")
	f.send("mails", text("leased"), text("retry"), text("dead"), text("done"), text("ready"), queue.Message{Value: []byte("delayed"), Delay: time.Hour})
	list := f.lease("mails", 4)
	must.Equal(t, len(list), 4)
	must.NoError(t, f.settle("mails", queue.Retry, list[1]))
	must.NoError(t, f.settle("mails", queue.Kill, list[2]))
	must.NoError(t, f.settle("mails", queue.Finish, list[3]))
	sebtest.Eventually(t, "the letter", func() bool {
		i := f.info("mails")
		return i.Dead == 1 && i.Dying == 0
	})
	all := f.q.Figures()
	must.Equal(t, len(all), 2)
	mails, letters := &all[0], &all[1]
	got := [...]int64{mails.Ready, mails.InFlight, mails.Delayed, mails.Retrying, mails.Dying, mails.Info.Dead, mails.Left(), mails.Sent}
	must.Equalf(t, got, [...]int64{1, 1, 1, 1, 0, 1, 4, 6}, "ready, leased, delayed, retry, dying, dead, left and sent")
	got = [...]int64{mails.Leased, mails.Done, mails.Retried, mails.Dead, mails.LeasesOver, letters.Left(), letters.Ready, 0}
	must.Equalf(t, got, [...]int64{4, 1, 1, 1, 0, 1, 1, 0}, "what happened")
	check.Equalf(t, [...]bool{mails.Letters, letters.Letters}, [...]bool{false, true}, "which are dead-letter queues")
	if mails.OldestReady.Before(mails.Oldest) || mails.OldestReady.IsZero() || mails.OldestReadyAge < 0 {
		t.Errorf("oldest %s, oldest ready %s of age %s", mails.Oldest, mails.OldestReady, mails.OldestReadyAge)
	}

	must.Get(f.q.Update(t.Context(), "mails", queue.Spec{Settings: map[string]string{"paused": "true"}}))(t)
	if i := f.info("mails"); !i.OldestReady.IsZero() || i.Ready != 1 {
		t.Errorf("a paused queue has its oldest ready message at %s of %d", i.OldestReady, i.Ready)
	}
	must.Get(f.q.Update(t.Context(), "mails", queue.Spec{Settings: map[string]string{"paused": "", "key-limit": "7"}}))(t)
	must.NoError(t, f.settle("mails", queue.Finish, list[0]))
	if all := f.q.Figures(); all[0].Done != 2 || all[0].Leased != 4 {
		t.Errorf("after it was opened again: %d done, %d leased, want 2 and 4", all[0].Done, all[0].Leased)
	}
}

// TestOldestReady: a message waits for a worker from the end of its delay on. One that comes back waits since it was
// sent, so that the age shows workers that fail.
func TestOldestReady(t *testing.T) {
	var ahead atomic.Int64
	f := openWith(t, objstore.NewMemory(), func(o *broker.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	f.create("q", "visibility", "10m", "backoff", "30m")
	age := func(want time.Duration) {
		t.Helper()
		if got := f.q.Figures()[0].OldestReadyAge; got < want || got > want+time.Minute {
			t.Errorf("a message has been ready for %s, want %s", got, want)
		}
	}
	f.send("q", queue.Message{Value: []byte("a"), Delay: 2 * time.Hour}, queue.Message{Value: []byte("b"), Delay: time.Hour})
	age(0)
	ahead.Add(int64(90 * time.Minute))
	age(30 * time.Minute) // b
	ahead.Add(int64(45 * time.Minute))
	age(75 * time.Minute) // still b, although a is before it
	must.Equal(t, len(f.lease("q", 2)), 2)
	f.send("q", text("a slot that has the leases"))
	must.NoError(t, f.settle("q", queue.Finish, f.lease("q", 1)[0]))
	age(0)
	ahead.Add(int64(25 * time.Minute))
	sebtest.Eventually(t, "the leases have ended", func() bool { return f.info("q").InFlight == 0 })
	age(160 * time.Minute)
}

func (f *fixture) info(name string) queue.Info {
	f.t.Helper()
	return must.Get(f.q.Info(name))(f.t)
}
