package broker_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hooked is a store whose requests a test can intercept.
type hooked struct {
	objstore.Store
	onPut atomic.Pointer[func(ctx context.Context, key string) error]
	onGet atomic.Pointer[func(ctx context.Context, key string, r objstore.Range) error]
	gets  atomic.Int64
}

func (h *hooked) Put(ctx context.Context, key string, body objstore.Body) error {
	if f := h.onPut.Load(); f != nil {
		if err := (*f)(ctx, key); err != nil {
			return err
		}
	}
	return h.Store.Put(ctx, key, body)
}

func (h *hooked) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if f := h.onGet.Load(); f != nil {
		if err := (*f)(ctx, key, r); err != nil {
			return objstore.Object{}, err
		}
	}
	o, err := h.Store.Get(ctx, key, r)
	if err == nil {
		h.gets.Add(1) // late probes beyond the end of the log count too; they find nothing
	}
	return o, err
}

func options(s objstore.Store) broker.Options {
	b := budget.New(64 << 20)
	b.Buffers().Poison()
	return broker.Options{
		Options:    log.Options{Store: s, Budget: b, Batch: log.Config{Wait: time.Millisecond}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Core: retries()},
		AutoCreate: true,
	}
}

func open(t testing.TB, o broker.Options) *broker.Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	b := must.Get(broker.Open(ctx, o))(t)
	t.Cleanup(func() { kill(b) })
	return b
}

// waitingFetches is the metric of the fetches that wait for data.
func waitingFetches(set *metrics.Set) float64 {
	return set.GetOrCreateGauge("seb_broker_waiting_fetches", nil).Get()
}

// kill stops a broker without a flush.
func kill(b *broker.Broker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = b.Close(ctx)
}

func disk(t testing.TB) objstore.Store {
	t.Helper()
	d := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func create(t testing.TB, b *broker.Broker, name string, partitions int) {
	t.Helper()
	must.Get(b.CreateTopic(context.Background(), name, broker.TopicSpec{Partitions: partitions}))(t)
}

func data(t testing.TB, topic string, partition int, values ...string) broker.Append {
	t.Helper()
	return brokertest.Append(topic, partition, recordtest.Values(values...)...)
}

// produce appends one batch and waits for a limited time.
func produce(t testing.TB, b *broker.Broker, topic string, partition int, values ...string) broker.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	return b.Submit(ctx, []broker.Append{data(t, topic, partition, values...)}).Wait(ctx)[0]
}

func mustProduce(t testing.TB, b *broker.Broker, topic string, partition int, values ...string) int64 {
	t.Helper()
	r := produce(t, b, topic, partition, values...)
	must.NoError(t, r.Err)
	return r.Base
}

// values decodes a part's records from an offset on, and returns the offset after them.
func values(t testing.TB, p *broker.FetchedPart, offset int64) (vals []string, next int64) {
	t.Helper()
	next = offset
	for i := range p.Chunks {
		c := &p.Chunks[i]
		b := brokertest.Bytes(t, c)
		if int64(len(b)) != c.Size || !c.Verified {
			t.Fatalf("chunk of %d bytes has size %d, verified %v", len(b), c.Size, c.Verified)
		}
		sum := must.Get(record.Verify(b))(t)
		if sum.Span != c.End-c.Base || record.Batch(b).BaseOffset() != c.Base {
			t.Fatalf("chunk [%d,%d) holds %d offsets from %d", c.Base, c.End, sum.Span, record.Batch(b).BaseOffset())
		}
		if i == 0 && (c.Base > offset || c.End <= offset) || i > 0 && c.Base != p.Chunks[i-1].End {
			t.Fatalf("chunk %d is [%d,%d), want it to begin at %d", i, c.Base, c.End, offset)
		}
		var r record.Reader
		for r.Reset(b, next); r.Next(); {
			must.Equalf(t, r.Record().Offset, next, "offset")
			vals = append(vals, string(r.Record().Value))
			next++
		}
		must.NoError(t, r.Err())
	}
	return vals, next
}

// consume reads a partition from an offset to its end.
func consume(t testing.TB, b *broker.Broker, topic string, partition int, offset int64) []string {
	t.Helper()
	var all []string
	for {
		f := must.Get(b.Fetch(context.Background(), []broker.Want{{Topic: topic, Partition: int32(partition), Offset: offset}}, 0, 0))(t)
		p := &f.Parts[0]
		must.NoError(t, p.Err)
		vals, next := values(t, p, offset)
		end := p.HighWatermark
		f.Release()
		all = append(all, vals...)
		if next == end {
			return all
		}
		if next == offset {
			t.Fatalf("no data at offset %d of %d", offset, end)
		}
		offset = next
	}
}

// ledger records the results of producers.
type ledger struct {
	mu       sync.Mutex
	acked    map[position]string
	unknown  map[string]bool
	rejected map[string]bool
}

type position struct {
	topic     string
	partition int
	offset    int64
}

func newLedger() *ledger {
	return &ledger{acked: map[position]string{}, unknown: map[string]bool{}, rejected: map[string]bool{}}
}

func (l *ledger) note(t testing.TB, topic string, partition int, vals []string, r broker.Result, unknown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, v := range vals {
		switch {
		case r.Err == nil:
			p := position{topic, partition, r.Base + int64(i)}
			if other, taken := l.acked[p]; taken {
				t.Errorf("%+v acked for %s and %s", p, other, v)
			}
			l.acked[p] = v
		case unknown:
			l.unknown[v] = true
		default:
			l.rejected[v] = true
		}
	}
}

// check reads all records and compares them with the results of the producers. Acked records are at
// their offsets, rejected ones are absent, unknown ones are stored at most once.
func (l *ledger) check(t testing.TB, b *broker.Broker) {
	t.Helper()
	seen := map[string]bool{}
	left := len(l.acked)
	for _, info := range b.Topics(context.Background()) {
		for p := range info.Partitions {
			for o, v := range consume(t, b, info.Name, p, 0) {
				if seen[v] {
					t.Fatalf("%s is stored twice", v)
				}
				seen[v] = true
				want, acked := l.acked[position{info.Name, p, int64(o)}]
				switch {
				case acked && want != v:
					t.Fatalf("%s %d %d: %s acked, %s stored", info.Name, p, o, want, v)
				case acked:
					left--
				case l.rejected[v]:
					t.Fatalf("%s was rejected, but is stored", v)
				case !l.unknown[v]:
					t.Fatalf("%s is stored, but was not sent", v)
				}
			}
		}
	}
	if left != 0 {
		t.Fatalf("%d of %d acked records are missing", left, len(l.acked))
	}
}

func value(producer, i, j int) string { return fmt.Sprintf("%d.%d.%d", producer, i, j) }

// retries returns a configuration with short retry delays.
func retries() core.Config {
	const ms = core.Duration(time.Millisecond)
	return core.Config{RetryMin: ms, RetryMax: 5 * ms, RefusedRetry: 5 * ms}
}
