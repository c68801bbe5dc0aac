package torture

import (
	"context"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// TestFollower counts the requests to the store of a consumer that keeps up with a busy topic, with
// default settings: none at all.
func TestFollower(t *testing.T) {
	during := 3 * time.Second
	if *long {
		during = time.Minute
	}
	p := newFixture(t)
	b := p.serve()
	busy := &ledger{name: "busy", unknown: map[int]bool{}}
	l := must.Get(newLoad(b.address, []*ledger{busy}))(t)
	must.NoError(t, l.create(busy))
	before := p.proxy.Counts()
	for range 4 { // in parallel, so that every object has some
		l.others.Go(func() {
			for !l.stop.Load() {
				if _, err := l.safe.Produce(t.Context(), busy.name, records(busy, 200), client.ProduceOptions{}); err != nil {
					l.fail(err)
					return
				}
				l.requests.Add(200)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.writers.Go(func() {
		at := int64(0)
		for r, err := range l.reader.Records(ctx, busy.name, client.ReadOptions{Follow: true}) {
			if err != nil {
				if ctx.Err() == nil {
					l.fail(err)
				}
				return
			}
			check.Equalf(t, r.Offset, at, "offset")
			at++
			l.consumed.Add(1)
		}
	})
	<-time.After(during)
	l.stop.Store(true)
	l.others.Wait()
	sebtest.Eventually(t, "the consumer keeps up", func() bool { return l.consumed.Load() == l.requests.Load() })
	counts := p.proxy.Counts().Sub(before)
	cancel()
	l.writers.Wait()
	select {
	case err := <-l.failed:
		t.Fatalf("%v\n%s", err, b.Log())
	default:
	}
	t.Logf("%v: %d records written, %d consumed immediately; %v", during, l.requests.Load(), l.consumed.Load(), counts)
	if l.consumed.Load() == 0 {
		t.Error("nothing was written")
	}
	if counts.Of(testenv.Get) > 0 || counts.Of(testenv.List) > 0 {
		t.Errorf("reading caused requests to the store: %v", counts)
	}
}
