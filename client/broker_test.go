package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

const testKey = "secret"

// startBroker starts a real broker on a bucket in memory.
func startBroker() (address string, stop func()) {
	ctx := context.Background()
	b, err := broker.Open(ctx, broker.Options{Options: log.Options{Store: objstore.NewMemory(), NoWait: true, Logger: slog.New(slog.DiscardHandler)}, AutoCreate: true})
	if err != nil {
		panic(err)
	}
	authority := auth.New(auth.Options{Broker: b, RootKey: testKey})
	a, err := httpapi.New(b, httpapi.Options{Auth: authority})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv := a.Server()
	done := make(chan struct{})
	go func() {
		_ = srv.Serve(l)
		close(done)
	}()
	return "http://" + l.Addr().String(), func() {
		_ = srv.Shutdown(ctx)
		<-done
		authority.Close()
		_ = b.Close(ctx)
	}
}

func realBroker(t *testing.T) *client.Client {
	t.Helper()
	address, stop := startBroker()
	t.Cleanup(stop)
	c := must.Get(client.New(address, client.Options{APIKey: testKey, RetryTime: -1}))(t)
	t.Cleanup(c.Close)
	return c
}

// everyKind has records with null, empty, text and binary keys, values and headers.
func everyKind() []record.Record {
	return []record.Record{
		{Key: []byte("k"), Value: []byte("text"), Timestamp: 1, Headers: []record.Header{{Key: "h", Value: []byte("v")}, {Key: "h", Value: []byte{0xff}}, {Key: "n"}}},
		{Key: []byte{}, Value: []byte{}, Timestamp: 2},
		{Key: []byte{0xff, 0xfe}, Value: []byte{0, 0xff}, Timestamp: 3},
		{Key: []byte("tombstone"), Value: nil, Timestamp: 4},
		{Key: nil, Value: []byte(`"<&>` + "\u2028"), Timestamp: 5},
	}
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	c := realBroker(t)
	for name, o := range map[string]client.ProduceOptions{"by key": {}, "to a partition": {Partition: new(int32(0))}} {
		topic := "one"
		if o.Partition != nil {
			topic = "two"
		}
		produced, err := c.Produce(t.Context(), topic, everyKind(), o)
		if err != nil || !reflect.DeepEqual(produced, []client.ProduceResult{{Partition: 0, First: 0, Count: 5}}) {
			t.Fatalf("%s: %v, %v", name, produced, err)
		}
		var got []record.Record
		for r, err := range c.Records(t.Context(), topic, client.ReadOptions{}) {
			must.NoError(t, err)
			got = append(got, copyOf(r))
		}
		want := everyKind()
		for i := range want {
			want[i].Offset = int64(i)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got  %v\nwant %v", name, got, want)
		}
	}
}

// copyOf copies a record and keeps null and empty apart.
func copyOf(r *record.Record) record.Record {
	dup := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		return append([]byte{}, b...)
	}
	out := record.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: dup(r.Key), Value: dup(r.Value)}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, record.Header{Key: string([]byte(h.Key)), Value: dup(h.Value)})
	}
	return out
}

func TestKeysSpreadOverPartitions(t *testing.T) {
	c := realBroker(t)
	must.Get(c.CreateTopic(t.Context(), "t", client.TopicSpec{Partitions: 3}))(t)
	var recs []record.Record
	for i := range 60 {
		recs = append(recs, record.Record{Key: []byte{byte('a' + i%20)}, Value: []byte{byte(i)}})
	}
	produced, err := c.Produce(t.Context(), "t", recs, client.ProduceOptions{})
	if err != nil || len(produced) != 3 {
		t.Fatalf("%v, %v", produced, err)
	}
	where := map[string]int32{}
	total := 0
	for p := range int32(3) {
		last := -1
		for r, err := range c.Records(t.Context(), "t", client.ReadOptions{Partition: p, Offset: client.Earliest}) {
			must.NoError(t, err)
			if at, ok := where[string(r.Key)]; ok && at != p {
				t.Errorf("key %s in partitions %d and %d", r.Key, at, p)
			}
			where[string(r.Key)] = p
			if int(r.Value[0]) <= last {
				t.Errorf("order lost at %d", r.Value[0])
			}
			last = int(r.Value[0])
			total++
		}
	}
	check.Equalf(t, total, 60, "records")
}

func TestErrorsOfARealBroker(t *testing.T) {
	t.Parallel()
	c := realBroker(t)
	ctx := t.Context()
	put := func(o client.ProduceOptions) error {
		_, err := c.ProduceValues(ctx, "t", [][]byte{[]byte("v")}, o)
		return err
	}
	must.NoError(t, put(client.ProduceOptions{}))
	var e *client.Error
	if err := put(client.ProduceOptions{ExpectedOffset: new(int64(9))}); !errors.Is(err, client.ErrOffsetMismatch) || !errors.As(err, &e) || e.NextOffset != 1 {
		t.Errorf("expected offset 9: %v", err)
	}
	check.NoErrorf(t, put(client.ProduceOptions{ExpectedOffset: new(int64(1))}), "expected offset 1")
	if err := put(client.ProduceOptions{Partition: new(int32(7))}); !errors.Is(err, client.ErrUnknownPartition) || !errors.Is(err, client.ErrRejected) {
		t.Errorf("partition 7: %v", err)
	}
	check.ErrorIsf(t, check.Err(c.ProduceBatches(ctx, "t", []byte("not a batch"), client.ProduceOptions{})), client.ErrBadRequest, "not a batch")
	check.ErrorIsf(t, check.Err(c.ProduceValues(ctx, "t", [][]byte{make([]byte, 40<<20)}, client.ProduceOptions{})), client.ErrTooLarge, "40 MiB")
	check.ErrorIsf(t, check.Err(c.Topic(ctx, "none")), client.ErrUnknownTopic, "unknown topic")
	check.ErrorIsf(t, check.Err(c.CreateTopic(ctx, "t", client.TopicSpec{})), client.ErrTopicExists, "create twice")
	check.ErrorIsf(t, check.Err(c.UpdateTopic(ctx, "none", client.TopicSpec{Partitions: 2})), client.ErrUnknownTopic, "update of an unknown topic")
	for _, err := range c.Records(ctx, "t", client.ReadOptions{Partition: 3}) {
		check.ErrorIsf(t, err, client.ErrUnknownPartition, "records of partition 3")
	}
	wrong := must.Get(client.New(client.Base(c), client.Options{APIKey: "wrong"}))(t)
	check.ErrorIsf(t, check.Err(wrong.Topics(ctx)), client.ErrUnauthorized, "wrong key")
}

func TestFollowReturnsNewRecords(t *testing.T) {
	c := realBroker(t)
	put := func(v string) {
		if _, err := c.ProduceValues(t.Context(), "t", [][]byte{[]byte(v)}, client.ProduceOptions{}); err != nil {
			t.Error(err)
		}
	}
	put("0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := byte('0')
	var last error
	for r, err := range c.Records(ctx, "t", client.ReadOptions{Follow: true}) {
		if err != nil {
			last = err
			break
		}
		check.Equalf(t, string(r.Value), string(n), "got %q, want %q", r.Value, n)
		if n++; n == '5' {
			cancel()
			continue
		}
		put(string(n))
	}
	if !errors.Is(last, context.Canceled) || n != '5' {
		t.Errorf("ended at %q with %v", n, last)
	}
}
