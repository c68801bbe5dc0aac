package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the pools last longer, which saves CPU time
	goleak.VerifyTestMain(m)
}

func disk(t testing.TB) objstore.Store {
	t.Helper()
	d := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestClean(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(testing.TB) objstore.Store{
		"memory": func(testing.TB) objstore.Store { return objstore.NewMemory() },
		"disk":   disk,
		"s3": func(t testing.TB) objstore.Store {
			s := testenv.S3ForTest(t.(*testing.T))
			o := anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey}
			store := must.Get(anystore.Open(t.Context(), s.Spec("p"), o))(t)
			t.Cleanup(func() { _ = store.(*s3.Store).Close() })
			return store
		},
	} {
		for _, snapshotSlots := range []int{1000, 4} {
			t.Run(fmt.Sprintf("%s %d", name, snapshotSlots), func(t *testing.T) {
				s := store(t)
				want := live(t, s, snapshotSlots)
				before := settled(t, s)
				r := clean(t, s)
				if r.Records != want || r.Topics != 1 || r.Partitions != 2 || r.Epoch != 3 || r.Grew {
					t.Errorf("want %d records: %+v", want, r)
				}
				if after := keys(t, s); !maps.Equal(before, after) {
					t.Error("the bucket was changed")
				}
				if int(r.Listed.Objects) != len(before) || r.Seals != 3 {
					t.Errorf("%d objects, %+v", len(before), r)
				}
				if n := r.Verified.Objects + r.Superseded.Objects + r.Orphans.Objects; n < r.Listed.Objects {
					t.Errorf("%d of %d objects have a place in the report: %+v", n, r.Listed.Objects, r)
				}
				if snapshotSlots == 4 && (r.Snapshots < 2 || r.Compared == 0 || r.Packs == 0) {
					t.Errorf("snapshots: %+v", r)
				}
			})
		}
	}
}

func TestNoLog(t *testing.T) {
	s := objstore.NewMemory()
	if _, _, err := verify(t, fsck.Options{Store: s}); !errors.Is(err, fsck.ErrNoLog) {
		t.Errorf("empty bucket: %v", err)
	}
	put(t, s, "meta/cluster", []byte("{"))
	if _, _, err := verify(t, fsck.Options{Store: s}); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("nothing but a broken cluster object: %v", err)
	}
}

// TestFaultyStore: dropped responses and truncated reads are not damage.
func TestFaultyStore(t *testing.T) {
	t.Parallel()
	s := objstore.NewMemory()
	live(t, s, 4)
	rates := storetest.Rates{storetest.Before: .03, storetest.Lost: .03, storetest.Throttle: .03, storetest.Truncate: .05}
	f := storetest.NewFaulty(s, 1, storetest.Faults{Get: rates, List: rates})
	clean(t, f)
	if f.Injected(storetest.Before)+f.Injected(storetest.Lost)+f.Injected(storetest.Truncate)+f.Injected(storetest.Throttle) == 0 {
		t.Error("no fault came up")
	}
}

// TestBesideABroker: concurrent writes, snapshots, trims and collections of a broker are not
// damage.
func TestBesideABroker(t *testing.T) {
	t.Parallel()
	s := objstore.NewMemory()
	b := open(t, options(s, 6))
	create(t, b, "t", 1)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			time.Sleep(time.Millisecond) // the latency of a store
			produce(t, b, "t", 0, "value")
			if i%10 == 9 {
				if _, err := b.Trim(context.Background(), "t", 0, int64(i-3)); err != nil {
					t.Error(err)
				}
			}
			if i%100 == 99 { // the next broker takes over
				next := open(t, options(s, 6))
				kill(b)
				b = next
			}
		}
	})
	grew := 0
	for range sebtest.Runs(25, 10) {
		if r := clean(t, slow{s}); r.Grew {
			grew++
		}
	}
	close(done)
	wg.Wait()
	if grew == 0 {
		t.Error("the log never grew during a check")
	}
	kill(b)
	clean(t, s)
}

// slow is a store with slow requests.
type slow struct{ objstore.Store }

func (s slow) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	time.Sleep(200 * time.Microsecond)
	return s.Store.Get(ctx, key, r)
}

// TestAfterKills: brokers killed at any time leave a clean bucket.
func TestAfterKills(t *testing.T) {
	sebtest.Long(t, "TestBackupOfABusyBroker remains")
	t.Parallel()
	for _, s := range []objstore.Store{objstore.NewMemory(), disk(t)} {
		for run := range 12 {
			b := open(t, options(s, 5))
			if run == 0 {
				create(t, b, "t", 3)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			for p := range 3 {
				wg.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						brokertest.Try(ctx, b, brokertest.Append("t", p, recordtest.Values(fmt.Sprint(run, p, i))...))
					}
				})
			}
			time.Sleep(time.Duration(run) * 2 * time.Millisecond)
			kill(b)
			cancel()
			wg.Wait()
			clean(t, s)
		}
	}
}
