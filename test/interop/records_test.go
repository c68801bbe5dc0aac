package interop

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) {
	code := testenv.Main(m)
	if compiled.dir != "" {
		_ = os.RemoveAll(compiled.dir)
	}
	os.Exit(code)
}

// report is testenv.Report for a test that has not failed.
func report(t *testing.T, client, what string, took time.Duration, figures ...string) {
	t.Helper()
	if !t.Failed() {
		testenv.Report(client, what, took, figures...)
	}
}

// A number determines a record, so that a record can be checked by itself.
// testdata/python/records.py does the same.
const keys = 10_007

var filler = strings.Repeat("seb ", 32)

func keyOf(n int) []byte { return fmt.Appendf(nil, "key-%d", n%keys) }

// valueOf returns the number, its checksum, and up to 95 bytes.
func valueOf(n int) []byte {
	text := strconv.Itoa(n)
	return fmt.Appendf(nil, "%s:%08x:%s", text, crc32.ChecksumIEEE([]byte(text)), filler[:n%96])
}

// numberOf returns the number of a key and value.
func numberOf(key, value []byte) (int, error) {
	text, _, _ := bytes.Cut(value, []byte{':'})
	n, err := strconv.Atoi(string(text))
	if err != nil || !bytes.Equal(value, valueOf(n)) || !bytes.Equal(key, keyOf(n)) {
		return 0, fmt.Errorf("key %q with value %q is not a record that was sent", key, value)
	}
	return n, nil
}

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// goClient returns franz-go, closed when the test ends.
func goClient(t *testing.T, b *testenv.InteropBroker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c := must.Get(kgo.NewClient(append(options, kgo.SeedBrokers(b.Address), kgo.SASL(plain.Auth{User: "go", Pass: testenv.InteropKey}.AsMechanism()))...))(t)
	t.Cleanup(c.Close)
	return c
}

// createTopic creates a topic over HTTP.
func createTopic(t *testing.T, b *testenv.InteropBroker, name string, partitions int) {
	t.Helper()
	c := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey}))(t)
	must.Get(c.CreateTopic(t.Context(), name, client.TopicSpec{Partitions: partitions}))(t)
}

// stored reads count records of a topic with franz-go, partition by partition in order.
func stored(t *testing.T, b *testenv.InteropBroker, topic string, count int, visit func(*kgo.Record)) {
	t.Helper()
	c := goClient(t, b, kgo.ConsumeTopics(topic))
	defer c.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for n := 0; n < count; {
		fetches := c.PollFetches(ctx)
		must.NoErrorf(t, fetches.Err(), "after %d of %d records of %s", n, count, topic)
		n += fetches.NumRecords()
		fetches.EachRecord(visit)
	}
}

// expectLog checks that a topic has the numbers from 0 to count, each once, in order in each
// partition. If codecOf is not nil it also checks the codec of the stored batches.
func expectLog(t *testing.T, b *testenv.InteropBroker, topic string, count int, codecOf func(n int) string) {
	t.Helper()
	last := make(map[int32]int)
	seen := make([]bool, count)
	total, plain := 0, 0
	for _, end := range ends(t, b, topic) {
		total += int(end)
	}
	if total != count {
		t.Fatalf("%s has %d records, %d were sent and acknowledged", topic, total, count)
	}
	stored(t, b, topic, count, func(r *kgo.Record) {
		n, err := numberOf(r.Key, r.Value)
		switch before, ok := last[r.Partition]; {
		case err != nil:
			t.Fatal(err)
		case n >= count || seen[n]:
			t.Fatalf("%d is stored twice or was never sent, at offset %d of partition %d", n, r.Offset, r.Partition)
		case ok && before > n:
			t.Fatalf("%d stands after %d in partition %d", n, before, r.Partition)
		}
		seen[n], last[r.Partition] = true, n
		if codecOf == nil {
			return
		}
		switch got, want := codecs[r.Attrs.CompressionType()], codecOf(n); got {
		case want:
		case "none":
			plain++
		default:
			t.Fatalf("%d is stored with %s, was sent with %s", n, got, want)
		}
	})
	// A batch that compression would enlarge stays uncompressed; batches of one or two records may
	// be such.
	if plain > count/100 {
		t.Fatalf("%d of %d records are not compressed as they were sent", plain, count)
	}
}

// ends returns the ends of a topic's partitions, whose logs start at 0.
func ends(t *testing.T, b *testenv.InteropBroker, topic string) []int64 {
	t.Helper()
	c := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey}))(t)
	of := must.Get(c.Topic(t.Context(), topic))(t)
	var list []int64
	for _, p := range of.Partitions {
		list = append(list, p.Next)
	}
	return list
}
