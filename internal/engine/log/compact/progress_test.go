package compact_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// watched is a store that calls a function before each GET.
type watched struct {
	objstore.Store
	get func()
}

// Get implements objstore.Store.
func (w watched) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	w.get()
	return w.Store.Get(ctx, key, r)
}

// TestProgress observes a pass of two portions at each of its reads.
func TestProgress(t *testing.T) {
	store := objstore.NewMemory()
	b := openBroker(t, store)
	must.Get(b.CreateTopic(t.Context(), "t", broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact"}}))(t)
	var progress compact.Progress
	var seen []compact.Pass
	policy := config
	policy.Small = 100
	m := compact.Open(compact.Options{
		Log: b, TempDir: t.TempDir(), Policy: policy, Every: time.Hour, Progress: &progress,
		Store: watched{store, func() {
			if p := progress.Pass(); p.Phase != "" {
				seen = append(seen, p)
			}
		}},
	})
	defer m.Close()
	for i := range 80 {
		brokertest.Produce(t, b, "t", 0, record.Record{Timestamp: 1, Key: fmt.Append(nil, i%50), Value: make([]byte, 1500)})
	}
	for len(seen) == 0 {
		must.Equalf(t, must.Get(m.Once(t.Context()))(t), true, "a pack or a pass")
	}
	topic := b.View().TopicByName("t")
	check.Equalf(t, topic.Partitions.At(0).Records, 50, "remaining records")
	type step struct {
		phase       compact.Phase
		read, bytes int64
	}
	var got []step
	for _, p := range seen {
		check.Equalf(t, p.Topic, topic.ID, "topic")
		check.Equalf(t, p.Partitions, 1, "partitions")
		got = append(got, step{p.Phase, p.Read, p.Bytes})
	}
	must.Equalf(t, len(got), 3, "reads of %+v: two of all records, one of the range that loses some", got)
	size := got[0].bytes / 2
	check.EqualSlices(t, got, []step{
		{compact.Sorting, 0, 2 * size}, {compact.Sorting, got[1].read, 2 * size}, {compact.Dropping, size, size + got[1].read},
	})
	check.Equalf(t, progress.Pass(), compact.Pass{}, "after the pass")
}
