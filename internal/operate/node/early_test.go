package node

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// asking is a remote store that notes GETs of the cluster object.
type asking struct {
	objstore.Store
	once  sync.Once
	asked chan struct{} // closed by the first
	gets  int
}

func (s *asking) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if key == core.MetaKey {
		s.gets++
		s.once.Do(func() { close(s.asked) })
	}
	return s.Store.Get(ctx, key, r)
}

// TestJoiningAndTheClusterObject: a start on a remote store asks for the cluster object while it looks
// for other brokers, and once.
func TestJoiningAndTheClusterObject(t *testing.T) {
	store := objstore.NewMemory()
	first := open(t, Options{Store: store, DataDir: t.TempDir()})
	must.NoError(t, first.Close(t.Context()))
	s := &asking{Store: store, asked: make(chan struct{})}
	o := Options{Store: s, DataDir: t.TempDir(), Join: func(ctx context.Context, _ Joining) (Joined, error) {
		select {
		case <-s.asked:
			return Joined{}, nil
		case <-ctx.Done():
			return Joined{}, context.Cause(ctx)
		}
	}}
	n := open(t, o)
	if !n.Leads() || s.gets != 1 {
		t.Errorf("leads: %v, after %d GETs of the cluster object", n.Leads(), s.gets)
	}
	failed := errors.New("failed")
	o.DataDir, o.Join = t.TempDir(), func(context.Context, Joining) (Joined, error) { return Joined{}, failed }
	if _, err := Open(t.Context(), o); !errors.Is(err, failed) {
		t.Errorf("open after a failed join: %v", err)
	}
}
