package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// keyedBroker starts a broker with a key index and its HTTP API on a bucket in a folder, and
// returns a client.
func keyedBroker(t *testing.T, change ...func(*node.Options)) *client.Client {
	t.Helper()
	o := node.Options{Bucket: "file:" + t.TempDir(), DataDir: t.TempDir(), BatchWait: node.BatchNone, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	n := must.Get(node.Open(t.Context(), o))(t)
	authority := auth.New(auth.Options{Broker: n.Broker, RootKey: testKey})
	t.Cleanup(authority.Close)
	a := must.Get(httpapi.New(n.Broker, httpapi.Options{Auth: authority, Keys: n.Keys()}))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv, done := a.Server(), make(chan struct{})
	go func() {
		_ = srv.Serve(l)
		close(done)
	}()
	c := must.Get(client.New("http://"+l.Addr().String(), client.Options{APIKey: testKey, RetryTime: -1}))(t)
	t.Cleanup(func() {
		c.Close()
		_ = srv.Shutdown(context.Background())
		<-done
		check.NoError(t, n.Close(context.Background()))
	})
	return c
}

// write appends records by key and returns the end of each partition.
func write(t *testing.T, c *client.Client, topic string, recs ...record.Record) map[int32]int64 {
	t.Helper()
	produced := must.Get(c.Produce(t.Context(), topic, recs, client.ProduceOptions{}))(t)
	ends := map[int32]int64{}
	for _, p := range produced {
		ends[p.Partition] = max(ends[p.Partition], p.First+p.Count)
	}
	return ends
}

// sees waits until the key index has every record below the given ends.
func sees(t *testing.T, c *client.Client, topic string, ends map[int32]int64) {
	t.Helper()
	for p, end := range ends {
		o := client.KeysOptions{PageSize: 1, Partition: &p}
		o.MinOffset = new(end - 1)
		for _, err := range c.Keys(t.Context(), topic, o) {
			must.NoError(t, err)
			break
		}
	}
}

func all[T any](t *testing.T, seq iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for v, err := range seq {
		must.NoError(t, err)
		list = append(list, v)
	}
	return list
}

func TestKeysOfEveryKind(t *testing.T) {
	c := keyedBroker(t)
	ctx := t.Context()
	must.Get(c.CreateTopic(ctx, "t", client.TopicSpec{Partitions: 3, Settings: map[string]string{"cleanup-policy": "compact"}}))(t)
	recs := []record.Record{
		{Key: []byte{}, Value: []byte{}, Timestamp: 1},
		{Key: []byte("a/b?c&d=é"), Value: []byte("x"), Timestamp: 2, Headers: []record.Header{{Key: "h", Value: []byte("v")}, {Key: "n"}, {Key: "b", Value: []byte{0xff}}}},
		{Key: []byte{0xff, 0xfe}, Value: []byte{0, 0xff}, Timestamp: 3},
		{Key: []byte("gone"), Value: []byte("old"), Timestamp: 4},
		{Value: []byte("no key"), Timestamp: 5},
		{Key: bytes.Repeat([]byte("é"), 4096), Value: []byte("long key"), Timestamp: 6},
		{Key: []byte("gone"), Timestamp: 7},
	}
	ends := write(t, c, "t", recs...)
	sees(t, c, "t", ends)
	for _, r := range recs[:6] {
		got, err := c.Key(ctx, "t", r.Key, client.KeyOptions{})
		switch {
		case r.Key == nil:
			if err == nil || errors.Is(err, client.ErrKeyNotFound) {
				t.Errorf("no key: %v", err)
			}
		case string(r.Key) == "gone":
			check.ErrorIsf(t, err, client.ErrKeyNotFound, "tombstone: %+v", got)
			h := all(t, c.KeyHistory(ctx, "t", r.Key, client.KeyHistoryOptions{PageSize: 1}))
			if len(h) != 2 || h[0].Value != nil || string(h[1].Value) != "old" || h[0].Offset <= h[1].Offset {
				t.Errorf("history: %+v", h)
			}
		default:
			r.Offset = got.Offset
			if err != nil || !reflect.DeepEqual(got.Record, r) {
				t.Errorf("got %v, %v, want %v", got, err, r)
			}
			h := all(t, c.KeyHistory(ctx, "t", r.Key, client.KeyHistoryOptions{OldestFirst: true}))
			if len(h) != 1 || !reflect.DeepEqual(h[0], got) {
				t.Errorf("history: %v, want %v", h, got)
			}
		}
	}
	want := []string{"", "a/b?c&d=é", strings.Repeat("é", 4096), "\xff\xfe"}
	for page := range 5 {
		var got []string
		for _, k := range all(t, c.Keys(ctx, "t", client.KeysOptions{PageSize: page})) {
			got = append(got, string(k.Key))
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %.50q", page, got)
		}
	}
	if got := all(t, c.Keys(ctx, "t", client.KeysOptions{Prefix: []byte("a"), After: []byte{}})); len(got) != 1 || string(got[0].Key) != want[1] || got[0].Timestamp != 2 {
		t.Errorf("%+v", got)
	}
}

func TestErrorsOfKeys(t *testing.T) {
	c := keyedBroker(t)
	ctx := t.Context()
	write(t, c, "plain", record.Record{Key: []byte("k"), Value: []byte("v")})
	must.Get(c.CreateTopic(ctx, "t", client.TopicSpec{Settings: map[string]string{"key-index": "true"}}))(t)
	first := func(topic string, o client.KeysOptions) error {
		for _, err := range c.Keys(ctx, topic, o) {
			return err
		}
		return nil
	}
	check.ErrorIs(t, check.Err(c.Key(ctx, "plain", []byte("k"), client.KeyOptions{})), client.ErrKeyIndexOff)
	check.ErrorIs(t, first("plain", client.KeysOptions{}), client.ErrKeyIndexOff)
	for _, err := range c.KeyHistory(ctx, "none", []byte("k"), client.KeyHistoryOptions{}) {
		check.ErrorIs(t, err, client.ErrUnknownTopic)
	}
	for _, err := range c.KeyHistory(ctx, "t", nil, client.KeyHistoryOptions{}) {
		check.Error(t, err, "history of a nil key: no error")
	}
	check.ErrorIs(t, first("t", client.KeysOptions{Freshness: client.Freshness{MinOffset: new(int64(7)), Wait: 1e6}}), client.ErrKeyIndexBehind)
	check.ErrorIs(t, check.Err(c.Key(ctx, "t", bytes.Repeat([]byte("k"), 8193), client.KeyOptions{})), client.ErrBadRequest)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	check.ErrorIs(t, check.Err(c.Key(canceled, "t", []byte("k"), client.KeyOptions{})), context.Canceled)
}

func TestKeyReadsItsWrite(t *testing.T) {
	c := keyedBroker(t)
	must.Get(c.CreateTopic(t.Context(), "t", client.TopicSpec{Partitions: 4, Settings: map[string]string{"key-index": "true"}}))(t)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			key := fmt.Appendf(nil, "key %d", worker)
			for i := range sebtest.Runs(100, 30) {
				rec := record.Record{Key: key, Value: fmt.Append(nil, i), Timestamp: 1}
				if i%10 == 9 {
					rec.Value = nil
				}
				produced, err := c.Produce(t.Context(), "t", []record.Record{rec}, client.ProduceOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				var o client.KeyOptions
				o.MinOffset = &produced[0].First
				got, err := c.Key(t.Context(), "t", key, o)
				if rec.Value == nil {
					check.ErrorIsf(t, err, client.ErrKeyNotFound, "%s after its tombstone %d: %+v", key, i, got)
				} else if err != nil || got.Offset != produced[0].First || got.Partition != produced[0].Partition || string(got.Value) != fmt.Sprint(i) {
					t.Errorf("%s: %+v, %v, want %d at %+v", key, got, err, i, produced[0])
				}
			}
		})
	}
	wg.Wait()
}

// TestKeysArePagedWhileWritesGoOn: a key that always has a value is listed exactly once, whatever
// is written to it or to other keys.
func TestKeysArePagedWhileWritesGoOn(t *testing.T) {
	stable := sebtest.Runs(10_000, 2000)
	c := keyedBroker(t)
	ctx, cancel := context.WithCancel(t.Context())
	must.Get(c.CreateTopic(ctx, "t", client.TopicSpec{Partitions: 2, Settings: map[string]string{"key-index": "true"}}))(t)
	recs := make([]record.Record, stable)
	for i := range recs {
		recs[i] = record.Record{Key: fmt.Appendf(nil, "s%05d", i), Value: []byte("v"), Timestamp: 1}
	}
	sees(t, c, "t", write(t, c, "t", recs...))

	var wg sync.WaitGroup
	for worker := range 2 {
		rng := rand.New(rand.NewPCG(uint64(worker), 7))
		wg.Go(func() {
			for n := int64(2); ctx.Err() == nil; n++ {
				batch := make([]record.Record, 50)
				for i := range batch {
					k := rng.IntN(stable)
					r := record.Record{Key: fmt.Appendf(nil, "s%05d", k), Value: []byte("newer"), Timestamp: n}
					switch rng.IntN(4) {
					case 0: // this key is deleted and written again
						r.Key = fmt.Appendf(nil, "s%05d-%d", k, rng.IntN(3))
					case 1:
						r.Key, r.Value = fmt.Appendf(nil, "s%05d-%d", k, rng.IntN(3)), nil
					}
					batch[i] = r
				}
				if _, err := c.Produce(ctx, "t", batch, client.ProduceOptions{}); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, page := range []int{97, 1000, 10_000} {
		fresh := make([]bool, stable)
		last, others := "", 0
		for k, err := range c.Keys(t.Context(), "t", client.KeysOptions{PageSize: page}) {
			must.NoError(t, err)
			if key := string(k.Key); key <= last {
				t.Fatalf("pages of %d: %q after %q", page, key, last)
			}
			last = string(k.Key)
			var i int
			if len(last) > 6 {
				others++
				continue
			}
			if _, err := fmt.Sscanf(last, "s%d", &i); err != nil || fresh[i] {
				t.Fatalf("pages of %d: %q twice, or %v", page, last, err)
			}
			fresh[i] = true
		}
		if i := slices.Index(fresh, false); i >= 0 {
			t.Errorf("pages of %d: key %d was missed", page, i)
		}
		t.Logf("pages of %d: %d other keys", page, others)
	}
	cancel()
	wg.Wait()
}
