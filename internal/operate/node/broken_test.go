package node

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// fragile is a store that fails after an fsync error.
type fragile struct {
	objstore.Store
	broken chan struct{}
	err    error
}

func (f *fragile) Broken() <-chan struct{} { return f.broken }
func (f *fragile) BrokenBy() error         { return f.err }

func TestABrokenStoreIsReported(t *testing.T) {
	f := &fragile{Store: objstore.NewMemory(), broken: make(chan struct{}), err: fmt.Errorf("disk: %w", objstore.ErrBroken)}
	n := must.Get(Open(t.Context(), Options{Store: f}))(t)
	defer func() { _ = n.Close(t.Context()) }()
	close(f.broken)
	<-n.Broken()
	if err := n.BrokenBy(); !errors.Is(err, objstore.ErrBroken) {
		t.Errorf("broken by %v", err)
	}
	whole := must.Get(Open(t.Context(), Options{Store: objstore.NewMemory()}))(t)
	defer func() { _ = whole.Close(t.Context()) }()
	if whole.Broken() != nil || whole.BrokenBy() != nil {
		t.Error("a store without fsync can be broken")
	}
}
