package log_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/log"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hooked is a store whose requests a test can intercept. A hook that returns pass forwards the
// request.
type hooked struct {
	objstore.Store
	mu    sync.Mutex
	onPut func(ctx context.Context, key string, body objstore.Body, pass func() error) error
	onGet func(ctx context.Context, key string, r objstore.Range) error
	skew  time.Duration

	puts map[string][][]byte // bytes of each attempt
	gets int
	all  int
}

func newHooked(s objstore.Store) *hooked { return &hooked{Store: s, puts: map[string][][]byte{}} }

func (h *hooked) set(f func(ctx context.Context, key string, body objstore.Body, pass func() error) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onPut = f
}

func (h *hooked) Put(ctx context.Context, key string, body objstore.Body) error {
	var b []byte
	for _, p := range body.Parts {
		b = append(b, p...)
	}
	h.mu.Lock()
	h.puts[key] = append(h.puts[key], b)
	h.all++
	hook := h.onPut
	h.mu.Unlock()
	pass := func() error { return h.Store.Put(ctx, key, body) }
	if hook != nil {
		return hook(ctx, key, body, pass)
	}
	return pass()
}

func (h *hooked) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	h.mu.Lock()
	h.gets++
	h.all++
	hook := h.onGet
	h.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, key, r); err != nil {
			return objstore.Object{}, err
		}
	}
	return h.Store.Get(ctx, key, r)
}

func (h *hooked) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	h.mu.Lock()
	h.all++
	h.mu.Unlock()
	return h.Store.List(ctx, o)
}

func (h *hooked) ClockSkew() (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.skew, true
}

func (h *hooked) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all
}

func (h *hooked) attempts(key string) [][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.puts[key]
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func options(s objstore.Store) log.Options {
	return log.Options{
		Store: s, Logger: quiet(), Batch: log.Config{Wait: time.Millisecond},
		Core: core.Config{RetryMin: 1e6, RetryMax: 5e6, RefusedRetry: 5e6},
	}
}

func open(t testing.TB, o log.Options) *log.Log {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	l := must.Get(log.Open(ctx, o))(t)
	t.Cleanup(l.Kill)
	return l
}

// wait is Ticket.Wait with a deadline that fails the test.
func wait(t testing.TB, k *log.Ticket) []log.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	return k.Wait(ctx)
}

// topic creates a topic and returns its ID.
func topic(t testing.TB, l *log.Log, name string, partitions uint32) record.ID {
	t.Helper()
	id := record.NewID()
	r := wait(t, l.Propose(state.Record{Kind: state.TopicCreate, Topic: id, Name: name, Partitions: partitions}))
	must.NoError(t, r[0].Err())
	return id
}

// batch returns an append of one batch with the given values.
func batch(t testing.TB, id record.ID, partition uint32, values ...string) log.Append {
	t.Helper()
	data, sum := recordtest.Encode(recordtest.Values(values...), record.EncodeOptions{})
	return log.Append{Data: data, Head: core.Append{
		Topic: id, Partition: partition, Span: uint32(sum.Span), Records: uint32(sum.Records), Bytes: uint32(len(data)),
		MinTime: sum.MinTimestamp, MaxTime: sum.MaxTimestamp, Expected: -1,
	}}
}

// contents reads a partition's values from the store, located by the log's committed state, in
// offset order.
func contents(t testing.TB, l *log.Log, s objstore.Store, id record.ID, partition int) []string {
	t.Helper()
	type place struct {
		state.Range
		key string
	}
	var places []place
	l.Read(func(s *state.State) {
		if top := s.Topic(id); top != nil {
			for _, r := range top.Partitions.At(int(partition)).Ranges {
				places = append(places, place{r, s.Key(r.Epoch, r.Slot)})
			}
		}
	})
	var values []string
	for _, p := range places {
		obj := must.Get(s.Get(context.Background(), p.key, objstore.Range{Offset: int64(p.Pos), Length: int64(p.Len)}))(t)
		b, err := io.ReadAll(obj.Body)
		obj.Body.Close()
		must.NoError(t, err)
		must.Get(record.Verify(b))(t)
		var r record.Reader
		for r.Reset(b, p.Base); r.Next(); {
			if rec := r.Record(); rec.Offset != int64(len(values)) {
				t.Fatalf("offset %d after %d records", rec.Offset, len(values))
			}
			values = append(values, string(r.Record().Value))
		}
		must.NoError(t, r.Err())
	}
	return values
}

func key(epoch uint32, slot int) func(string) bool {
	return func(k string) bool {
		var shard, e uint32
		var nonce string
		var n int
		if _, err := fmt.Sscanf(k, "s%04d/wal/%010d-%32s/%020d", &shard, &e, &nonce, &n); err != nil {
			return false
		}
		return e == epoch && n == slot
	}
}
