package torture

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/testenv"
)

var idleFor = flag.Duration("idle", 4*time.Second, "time to count an idle broker's requests (full run: 10m)")

// counted is a real S3 server behind a counting proxy: the store's view of the bill.
type counted struct {
	*testenv.S3Proxy
	last testenv.S3Counts
}

func newCounted(t *testing.T) *counted { return &counted{S3Proxy: testenv.CountedS3(t)} }

// take returns the counts since the last call.
func (c *counted) take() testenv.S3Counts {
	before := c.last
	c.last = c.Counts()
	return c.last.Sub(before)
}

func open(t *testing.T, spec string, wait time.Duration) *node.Node {
	t.Helper()
	n := must.Get(node.Open(t.Context(), node.Options{Bucket: spec, DataDir: t.TempDir(), BatchWait: wait}))(t)
	t.Cleanup(func() { n.Close(context.Background()) })
	return n
}

// TestIdleBrokerAsksNothing: an idle broker sends no request without readers, and with waiting
// readers at most one a minute.
func TestIdleBrokerAsksNothing(t *testing.T) {
	t.Parallel()
	store := newCounted(t)
	n := open(t, store.Spec("idle"), 10*time.Millisecond)
	must.NoError(t, n.EnsureTopic(t.Context(), "t"))
	brokertest.Produce(t, n, "t", 0, recordtest.Values("x")...)
	store.take()
	watch(*idleFor)
	if counts := store.take(); counts.Total() > 0 {
		t.Errorf("an idle broker sent %v in %v", counts, *idleFor)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), *idleFor)
	defer cancel()
	for range 10 {
		wg.Go(func() {
			for ctx.Err() == nil {
				f, err := n.Fetch(ctx, []broker.Want{{Topic: "t", Offset: 1}}, 1, *idleFor)
				if err == nil {
					f.Release()
				}
			}
		})
	}
	wg.Wait()
	counts := store.take()
	if most := int(*idleFor/time.Minute) + 1; counts.Total() > most {
		t.Errorf("with waiting readers an idle broker sent %v in %v, limit %d", counts, *idleFor, most)
	}
	t.Logf("%v idle without readers: 0 requests; %v with 10 readers: %v", *idleFor, *idleFor, counts)
}

// watch waits while nothing may happen, which no condition can detect.
func watch(d time.Duration) { <-time.After(d) }
