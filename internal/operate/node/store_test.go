package node

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

// far is a store in memory that looks like a remote one, and records PUTs.
type far struct {
	objstore.Store
	lies bool // it accepts every name again

	mu   sync.Mutex // guards puts
	puts []string
}

func (f *far) Put(ctx context.Context, key string, body objstore.Body) error {
	f.mu.Lock()
	f.puts = append(f.puts, key)
	f.mu.Unlock()
	if f.lies {
		if err := f.Store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return f.Store.Put(ctx, key, body)
}

// log returns the PUTs outside of the check, and whether the check continued after the first of
// them.
func (f *far) log() (puts []string, early bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range f.puts {
		if !strings.HasPrefix(key, "probe/") {
			puts = append(puts, key)
		} else if len(puts) > 0 {
			early = true
		}
	}
	return puts, early
}

func TestNothingIsWrittenBeforeTheStoreHasPassed(t *testing.T) {
	store := &far{Store: objstore.NewMemory()}
	n := must.Get(Open(t.Context(), Options{Store: store, DataDir: t.TempDir()}))(t)
	defer n.Close(t.Context())
	puts, early := store.log()
	if len(puts) == 0 || early {
		t.Errorf("put %q, before the end of the check: %v", puts, early)
	}
}

func TestStoreThatFailsTheCheckIsNotWritten(t *testing.T) {
	store := &far{Store: objstore.NewMemory(), lies: true}
	_, err := Open(t.Context(), Options{Store: store, DataDir: t.TempDir()})
	var failed *objstore.CheckError
	if !errors.As(err, &failed) || failed.Check != objstore.CheckPutIfAbsent {
		t.Errorf("got %v", err)
	}
	if puts, _ := store.log(); len(puts) > 0 {
		t.Errorf("put %q", puts)
	}
}

// TestAStandbyChecksTheStoreWhenItTakesOver: a node that follows puts nothing when it opens, so the
// check waits for its takeover.
func TestAStandbyChecksTheStoreWhenItTakesOver(t *testing.T) {
	memory := objstore.NewMemory()
	leader := must.Get(Open(t.Context(), Options{Store: memory, DataDir: t.TempDir()}))(t)
	defer leader.Close(t.Context())
	store := &far{Store: memory}
	n := must.Get(Open(t.Context(), Options{Store: store, DataDir: t.TempDir(), Standby: true, Follow: true}))(t)
	defer n.Close(t.Context())
	if puts, _ := store.log(); len(puts) > 0 || len(store.puts) > 0 {
		t.Errorf("a follower put %q", store.puts)
	}
	takeOver(t, n)
	if puts, early := store.log(); len(puts) == 0 || early {
		t.Errorf("put %q, before the end of the check: %v", puts, early)
	}
}

// TestANewerBucketIsNotEvenChecked: on a remote store that this data folder does not know, nothing
// is written, not even a probe.
func TestANewerBucketIsNotEvenChecked(t *testing.T) {
	for _, newer := range forged.NewerBuckets {
		t.Run(newer.Name, func(t *testing.T) {
			store := &far{Store: objstore.NewMemory()}
			must.NoError(t, newer.Found(t.Context(), store.Store))
			before := must.Get(storetest.Checksums(t.Context(), store.Store))(t)
			if _, err := Open(t.Context(), Options{Store: store, DataDir: t.TempDir()}); !errors.Is(err, state.ErrNewer) {
				t.Errorf("got %v", err)
			}
			if after, err := storetest.Checksums(t.Context(), store.Store); err != nil || len(store.puts) > 0 || !maps.Equal(before, after) {
				t.Errorf("put %q; before %v, after %v, %v", store.puts, before, after, err)
			}
		})
	}
}

func TestCanceledOpenNamesTheStoreCheck(t *testing.T) {
	stop := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	_, err := Open(ctx, Options{Store: &far{Store: objstore.NewMemory()}})
	var failed *objstore.CheckError
	if !errors.Is(err, stop) || errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
}
