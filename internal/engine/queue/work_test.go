package queue_test

import (
	"fmt"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestLeaseWithoutWaitFindsStoredMessages: also if their keys must be read first.
func TestLeaseWithoutWaitFindsStoredMessages(t *testing.T) {
	f := open(t, objstore.NewMemory())
	for _, mode := range []string{"fair", "order"} {
		f.create(mode, "key-mode", mode)
		for i := range 200 {
			f.send(mode, queue.Message{Key: []byte("k"), Value: fmt.Append(nil, i)})
			l := must.Get(f.q.Lease(t.Context(), queue.LeaseRequest{Queue: mode}))(t)
			if len(l.List) != 1 {
				t.Fatalf("%s: %d messages after send %d", mode, len(l.List), i)
			}
			check.NoErrorf(t, f.settle(mode, queue.Finish, l.List[0]), "%s", mode)
			l.Release()
		}
	}
}
