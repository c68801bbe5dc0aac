package torture

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/node"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	idleFor  = flag.Duration("idle", 4*time.Second, "time to count an idle broker's requests (full run: 10m)")
	writeFor = flag.Duration("write", 4*time.Second, "time to write 1 and 20 topics (full run: 1m)")
	waitFor  = flag.Duration("batch-wait", 250*time.Millisecond, "batch wait time for that (full run: 1s)")
)

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
	n, err := node.Open(t.Context(), node.Options{Bucket: spec, DataDir: t.TempDir(), BatchWait: wait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(context.Background()) })
	return n
}

func batch(t *testing.T, values ...string) ([]byte, record.Summary) {
	t.Helper()
	var recs []record.Record
	for _, v := range values {
		recs = append(recs, record.Record{Value: []byte(v), Timestamp: 1})
	}
	data, sum, err := record.Append(nil, recs, record.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return data, sum
}

func produce(t *testing.T, n *node.Node, topic, value string) {
	t.Helper()
	data, sum := batch(t, value)
	r := n.Submit(t.Context(), []broker.Append{{Topic: topic, Data: data, Summary: sum, ExpectedOffset: -1}}).Wait(t.Context())
	if r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
}

// TestIdleBrokerAsksNothing: an idle broker sends no request without readers, and with waiting
// readers at most one a minute.
func TestIdleBrokerAsksNothing(t *testing.T) {
	store := newCounted(t)
	n := open(t, store.Spec("idle"), 10*time.Millisecond)
	if err := n.EnsureTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	produce(t, n, "t", "x")
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

// TestPutsDoNotGrowWithTopics: 1 and 20 topics cause the same number of PUTs.
func TestPutsDoNotGrowWithTopics(t *testing.T) {
	store := newCounted(t)
	puts := map[int]int{}
	for _, topics := range []int{1, 20} {
		n := open(t, store.Spec(fmt.Sprintf("topics%d", topics)), *waitFor)
		for i := range topics {
			if err := n.EnsureTopic(t.Context(), fmt.Sprint("t", i)); err != nil {
				t.Fatal(err)
			}
		}
		store.take()
		acks := write(t, n, topics)
		counts := store.take()
		puts[topics] = counts.Of(testenv.Put)
		t.Logf("%d topics for %v at %v: %v, %d records acknowledged", topics, *writeFor, *waitFor, counts, acks)
		if other := counts.Total() - counts.Of(testenv.Put); other > 0 {
			t.Errorf("%d topics: %d requests other than PUT", topics, other)
		}
		if acks < topics {
			t.Errorf("%d topics: %d records acknowledged", topics, acks)
		}
		n.Close(t.Context())
	}
	// One per batch wait, for any number of topics; fewer on a slow machine.
	if most := int(*writeFor / *waitFor) + 2; puts[1] > most || puts[20] > most {
		t.Errorf("PUTs by number of topics: %v, at most %d", puts, most)
	}
}

// write keeps every topic busy with one producer each and returns the number of acknowledged
// records.
func write(t *testing.T, n *node.Node, topics int) int {
	ctx, cancel := context.WithTimeout(t.Context(), *writeFor)
	defer cancel()
	var mu sync.Mutex
	acks := 0
	var wg sync.WaitGroup
	data, sum := batch(t, strings.Repeat("x", 100))
	for i := range topics {
		wg.Go(func() {
			for ctx.Err() == nil {
				r := n.Submit(t.Context(), []broker.Append{{
					Topic: fmt.Sprint("t", i), Data: append([]byte(nil), data...), Summary: sum, ExpectedOffset: -1,
				}}).Wait(t.Context())
				if r[0].Err != nil {
					t.Error(r[0].Err)
					return
				}
				mu.Lock()
				acks++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return acks
}

// watch waits while nothing may happen, which no condition can detect.
func watch(d time.Duration) { <-time.After(d) }
