package log_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
)

// journaler is a store that records claims.
type journaler struct {
	*hooked
	fails error // of each claim

	mu    sync.Mutex // guards the fields below
	owned []string   // folders; those with objects twice
}

func newJournaler() *journaler { return &journaler{hooked: newHooked(objstore.NewMemory())} }

func (j *journaler) Own(ctx context.Context, folder string) error {
	entries, _, err := j.Store.List(ctx, objstore.ListOptions{Prefix: folder + "/", Max: 1})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owned = append(j.owned, folder)
	switch {
	case err != nil:
		return err
	case len(entries) > 0:
		j.owned = append(j.owned, folder)
		return objstore.ErrExists
	}
	return j.fails
}

// claims returns the epochs that were claimed.
func (j *journaler) claims() (epochs []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, folder := range j.owned {
		epoch, _, _ := strings.Cut(path.Base(folder), "-")
		epochs = append(epochs, strings.TrimLeft(epoch, "0"))
	}
	return epochs
}

func TestJournal(t *testing.T) {
	t.Run("each leader claims the folder of its epoch", func(t *testing.T) {
		store := newJournaler()
		for range 2 {
			l := open(t, options(store))
			topic(t, l, fmt.Sprint("t", l.Status().Epoch), 1)
			if !l.Status().Journaled {
				t.Error("the epoch has no journal")
			}
			l.Kill()
		}
		check.EqualSlicesf(t, store.claims(), []string{"1", "2"}, "claimed epochs")
	})
	t.Run("a follower claims nothing", func(t *testing.T) {
		store := newJournaler()
		open(t, options(store)).Kill()
		o := options(store)
		o.Core.ReadOnly = true
		open(t, o)
		if got := store.claims(); len(got) != 1 {
			t.Errorf("claimed epochs %v", got)
		}
	})
	t.Run("not at a lower format level", func(t *testing.T) {
		store := newJournaler()
		must.Get(forged.OldBucket(t.Context(), store.Store))(t)
		o := options(store)
		o.Core.RaiseAfter = 1
		l := open(t, o)
		topic(t, l, "raises", 1)
		if got := store.claims(); len(got) > 0 || l.Status().Journaled {
			t.Errorf("claimed %v", got)
		}
		l.Kill()
		if l = open(t, o); !l.Status().Journaled {
			t.Error("no journal in the epoch after the raise")
		}
	})
	for _, err := range []error{objstore.ErrUnsuitable, objstore.ErrExists, objstore.ErrNoVerdict, objstore.ErrRefused, context.DeadlineExceeded} {
		t.Run(fmt.Sprintf("leads with files after: %v", err), func(t *testing.T) {
			store := newJournaler()
			store.fails = fmt.Errorf("own: %w", err)
			l := open(t, options(store))
			topic(t, l, "a", 1)
			if l.Status().Journaled || len(store.claims()) != 1 {
				t.Errorf("status %+v, claims %v", l.Status(), store.claims())
			}
		})
	}
}

// TestObjectsInTurn checks that a journaled log does not wait for more appends, and that those which
// arrive while an object is being stored are the next one.
func TestObjectsInTurn(t *testing.T) {
	inTurn := func(s objstore.Store) log.Options {
		o := options(s)
		o.Batch = log.Config{Wait: time.Hour, InTurn: true}
		return o
	}
	store := newJournaler()
	l := open(t, inTurn(store))
	id := topic(t, l, "t", 1)
	held, release := make(chan string, 10), make(chan struct{})
	store.set(func(_ context.Context, key string, _ objstore.Body, pass func() error) error {
		held <- key
		<-release
		return pass()
	})
	first := l.Submit([]log.Append{batch(t, id, 0, "a")})
	<-held
	var rest []*log.Ticket
	for _, v := range []string{"b", "c", "d"} {
		rest = append(rest, l.Submit([]log.Append{batch(t, id, 0, v)}))
	}
	if err := l.Alive(t.Context()); err != nil || len(held) > 0 {
		t.Fatalf("%v; %d objects in flight beside the first", err, len(held))
	}
	close(release)
	for _, k := range append([]*log.Ticket{first}, rest...) {
		must.NoError(t, wait(t, k)[0].Err())
	}
	check.Equalf(t, len(held), 1, "objects for the appends that arrived meanwhile")
	check.EqualSlicesf(t, contents(t, l, store, id, 0), []string{"a", "b", "c", "d"}, "records")

	files := newHooked(objstore.NewMemory())
	l = open(t, inTurn(files))
	before := files.requests()
	l.Propose(state.Record{Kind: state.TopicCreate, Topic: record.NewID(), Name: "t", Partitions: 1})
	if err := l.Alive(t.Context()); err != nil || files.requests() != before {
		t.Errorf("%v; a log without a journal sent %d requests before the wait was over", err, files.requests()-before)
	}
}

func TestJournalOfAWrappedStore(t *testing.T) {
	if l := open(t, options(newHooked(objstore.NewMemory()))); l.Status().Journaled {
		t.Error("a store without journals has one")
	}
	if l := open(t, options(wrapping{newJournaler()})); !l.Status().Journaled {
		t.Error("a wrapped store has no journal")
	}
}

// wrapping is a store around another.
type wrapping struct{ objstore.Store }

func (w wrapping) Unwrap() objstore.Store { return w.Store }
