package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// openBroker is a real broker on a store in memory, and a client of it.
func openBroker(t *testing.T) (*client.Client, *broker.Broker, objstore.Store) {
	t.Helper()
	ctx, store := context.Background(), objstore.NewMemory()
	b, err := broker.Open(ctx, broker.Options{Options: log.Options{Store: store, NoWait: true, Logger: slog.New(slog.DiscardHandler)}})
	must.NoError(t, err)
	authority := auth.New(auth.Options{Broker: b, RootKey: testKey})
	t.Cleanup(authority.Close)
	a := must.Get(httpapi.New(b, httpapi.Options{Auth: authority}))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv, served := a.Server(), make(chan struct{})
	go func() {
		_ = srv.Serve(l)
		close(served)
	}()
	c := must.Get(client.New("http://"+l.Addr().String(), client.Options{APIKey: testKey, RetryTime: -1}))(t)
	t.Cleanup(func() {
		c.Close()
		_ = srv.Close()
		<-served
		_ = b.Close(ctx)
	})
	return c, b, store
}

// compactedBroker is a real broker with a compacted topic t of two partitions. Compaction leaves
// offsets 10, 12, 19 and 30 of the first partition's 40, and nothing of the second, which ends at
// 20.
func compactedBroker(t *testing.T) (*client.Client, *broker.Broker) {
	t.Helper()
	c, b, store := openBroker(t)
	_, err := c.CreateTopic(t.Context(), "t", client.TopicSpec{Partitions: 2, Settings: map[string]string{"cleanup-policy": "compact", "delete-retention-time": "0s"}})
	must.NoError(t, err)
	stays := map[int]string{10: "ten", 12: "twelve", 19: "nineteen", 30: "thirty"}
	for i := range 40 {
		r := record.Record{Key: []byte("other")}
		if key, ok := stays[i]; ok {
			r.Key = []byte(key)
		}
		if i < 35 { // tombstones at the end
			r.Value = fmt.Append(nil, i)
		}
		putRecord(t, c, 0, r)
		if i < 20 {
			putRecord(t, c, 1, record.Record{Key: []byte("k")})
		}
	}
	compactAll(t, b, store, len(stays))
	return c, b
}

func putRecord(t *testing.T, c *client.Client, partition int32, r record.Record) {
	t.Helper()
	if _, err := c.Produce(t.Context(), "t", []record.Record{r}, client.ProduceOptions{Partition: &partition}); err != nil {
		t.Error(err)
	}
}

// compactAll compacts until topic t has the wanted number of records.
func compactAll(t *testing.T, b *broker.Broker, store objstore.Store, want int) {
	t.Helper()
	m := compact.Open(compact.Options{Log: b, Store: store, TempDir: t.TempDir(), Every: time.Hour, Policy: compact.Policy{Age: time.Microsecond, Small: 2}})
	defer m.Close()
	sebtest.Eventually(t, fmt.Sprintf("%d records are left", want), func() bool {
		must.Get(m.Once(t.Context()))(t)
		n := 0
		for _, p := range b.View().TopicByName("t").Partitions.All() {
			for _, r := range p.Ranges {
				n += int(r.Records)
			}
		}
		return n == want
	})
}

// TestRecordsOfACompactedTopic reads from every offset to the end, in answers of several sizes.
func TestRecordsOfACompactedTopic(t *testing.T) {
	c, _ := compactedBroker(t)
	left := []int64{10, 12, 19, 30}
	for _, maxBytes := range []int{0, 1, 200} {
		for begin := range int64(41) {
			var got, want []int64
			for r, err := range c.Records(t.Context(), "t", client.ReadOptions{Offset: begin, MaxBytes: maxBytes}) {
				must.NoError(t, err)
				check.Equalf(t, string(r.Value), fmt.Sprint(r.Offset), "offset %d holds %q", r.Offset, r.Value)
				got = append(got, r.Offset)
			}
			for _, o := range left {
				if o >= begin {
					want = append(want, o)
				}
			}
			check.EqualSlicesf(t, got, want, "from %d, %d bytes", begin, maxBytes)
		}
	}
	for r, err := range c.Records(t.Context(), "t", client.ReadOptions{Partition: 1}) {
		t.Errorf("partition 1: %v, %v", r, err)
	}
}

// TestFollowBehindAGap: a read that follows from a removed offset gets new records.
func TestFollowBehindAGap(t *testing.T) {
	c, _ := compactedBroker(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var put sync.WaitGroup
	put.Go(func() { putRecord(t, c, 1, record.Record{Key: []byte("k"), Value: []byte("new")}) })
	came := false
	for r, err := range c.Records(ctx, "t", client.ReadOptions{Partition: 1, Offset: 3, Follow: true}) {
		if err != nil || r.Offset != 20 || string(r.Value) != "new" {
			t.Errorf("%v, %v", r, err)
		}
		came = true
		break
	}
	if put.Wait(); !came {
		t.Error("no new record")
	}
}

// TestConsumerOfACompactedTopic: over several restarts a consumer gets each remaining record once.
// It commits beyond removed offsets at the end, so that no lag remains.
func TestConsumerOfACompactedTopic(t *testing.T) {
	c, _ := compactedBroker(t)
	var got []string
	for range 2 { // two records per round
		k := consumer(t, c, client.ConsumerOptions{CommitEvery: -1, MaxBytes: 1})
		for range 2 {
			m := must.Get(k.Next(t.Context()))(t)
			got = append(got, string(m.Value))
			k.Done()
		}
		must.NoError(t, k.Commit(t.Context()))
		must.NoError(t, k.Close(t.Context()))
	}
	check.Equalf(t, committedOf(t, c)[0], 31, "committed offset")
	if all := rest(t, consumer(t, c, client.ConsumerOptions{CommitEvery: -1})); all != "" || strings.Join(got, " ") != "10 12 19 30" {
		t.Errorf("%v, then %q", got, all)
	}
	k := consumer(t, c, client.ConsumerOptions{})
	check.Equal(t, rest(t, k), "")
	must.NoError(t, k.Close(t.Context()))
	noLag(t, c)
}

func noLag(t *testing.T, c *client.Client) {
	t.Helper()
	g, err := c.Group(t.Context(), "g")
	if err != nil || g.Lag != 0 || len(g.Offsets) != 2 {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestFollowingConsumerCommitsPastGaps: a waiting consumer commits beyond removed offsets, and gets
// new records.
func TestFollowingConsumerCommitsPastGaps(t *testing.T) {
	c, _ := compactedBroker(t)
	k := consumer(t, c, client.ConsumerOptions{Follow: true, CommitEvery: time.Millisecond})
	values, failed := make(chan string, 10), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for m, err := range k.Records(ctx) {
			if err != nil {
				failed <- err
				return
			}
			values <- string(m.Value)
		}
		close(failed)
	}()
	sebtest.Eventually(t, "the group has four values and no lag", func() bool {
		g, err := c.Group(t.Context(), "g")
		return err == nil && g.Lag == 0 && len(g.Offsets) == 2 && len(values) == 4
	})
	putRecord(t, c, 1, record.Record{Key: []byte("k"), Value: []byte("new")})
	for _, want := range []string{"10", "12", "19", "30", "new"} {
		select {
		case v := <-values:
			check.Equal(t, v, want)
		case err := <-failed:
			t.Fatal(err)
		}
	}
	cancel()
	check.NoError(t, <-failed)
}
