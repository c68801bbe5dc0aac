package drivers

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/test/must"
)

// TestOvertakingRequestsStayInOrder uses a broker in this process, to which five goroutines race.
func TestOvertakingRequestsStayInOrder(t *testing.T) {
	b := must.Get(seb.Open(t.Context(), seb.Options{Bucket: "mem:"}))(t)
	defer b.Close(context.Background())
	must.Get(b.CreateTopic(t.Context(), "x", seb.TopicSpec{Partitions: 1}))(t)
	const runs, messages = 20, 200
	var mu sync.Mutex // guards gaps and faults
	gaps, faults := 0, []error(nil)
	o := sebQueueOptions{
		inflight: inflightOrdered, batchMax: 20, queueMax: sebQueueBytes,
		isGap: func(err error) bool {
			gap := errors.Is(err, seb.ErrSequenceGap)
			mu.Lock()
			defer mu.Unlock()
			if gap {
				gaps++
			}
			return gap
		},
		produceTo: func(ctx context.Context, partition int32, batches []byte) error {
			// A random delay, as in a network, changes the order.
			time.Sleep(rand.N(100 * time.Microsecond))
			_, err := b.ProduceBatches(ctx, "x", partition, batches)
			return err
		},
	}
	for range runs {
		l := newSebQueue(t.Context(), 0, o)
		for i := range messages {
			l.box.Put(t.Context(), queued{Payload: []byte{byte(i)}, Done: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				faults = append(faults, err)
			}})
		}
		l.close(t.Context())
	}
	if err := errors.Join(faults...); err != nil || len(faults) != runs*messages {
		t.Fatalf("%d of %d messages are done: %v", len(faults), runs*messages, err)
	}
	if gaps == 0 {
		t.Error("no request overtook another")
	}
	next := 0
	for r, err := range b.Records(t.Context(), "x", seb.ReadOptions{}) {
		must.NoError(t, err)
		must.Equalf(t, int(r.Value[0]), next%messages, "record %d is message %d", r.Offset, r.Value[0])
		next++
	}
	if next != runs*messages {
		t.Errorf("%d records, want %d", next, runs*messages)
	}
}
