package interop

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	streamsTime  = flag.Duration("streams-time", time.Minute, "how long words are counted exactly once while brokers and Kafka Streams are killed")
	streamsKills = flag.Duration("streams-kills", 10*time.Second, "time between kills of a broker; Kafka Streams is killed every 3/2 of it")
)

// TestStreamsExactlyOnce runs the program of docs/guide/kafka.md, which counts words with
// exactly_once_v2, while the broker is killed and while the program is killed. The input has aborted
// transactions. In the end the counts are those of the committed input, and so are the counts of a
// program without a state folder, which restores its store from the changelog.
func TestStreamsExactlyOnce(t *testing.T) {
	testenv.InteropWanted(t)
	t.Run("one broker", func(t *testing.T) { countExactlyOnce(t, 1) })
	t.Run("two brokers and two instances", func(t *testing.T) { countExactlyOnce(t, 2) })
}

// lineParts is the number of partitions of the input.
const lineParts = 4

// counting is a run of the program with some brokers on one bucket and as many instances.
type counting struct {
	t         *testing.T
	brokers   []*testenv.InteropBroker
	addresses []string
	path      string // class path
	instances []*java
	states    []string     // their folders
	kills     [2]int       // of brokers and of instances
	threads   atomic.Int64 // that failed and were replaced
	plain     int          // lines without a transaction
}

func countExactlyOnce(t *testing.T, n int) {
	begin := time.Now()
	lib := must.Get(fetch(t.Context(), "kafka-streams", JavaVersion, streamsPom))(t)
	c := &counting{t: t, path: t.TempDir()}
	must.NoError(t, compile(t, lib, c.path, "streams"))
	c.path += string(filepath.ListSeparator) + lib
	bucket := filepath.Join(t.TempDir(), "bucket")
	for range n {
		b := testenv.ServeInterop(t, "--bucket", bucket)
		c.brokers, c.addresses = append(c.brokers, b), append(c.addresses, b.Address)
		c.instances, c.states = append(c.instances, nil), append(c.states, t.TempDir())
	}
	t.Setenv("BROKER", strings.Join(c.addresses, ","))
	t.Setenv("KEY", testenv.InteropKey)
	must.Get(kadm.NewClient(c.client()).CreateTopics(t.Context(), lineParts, 1, nil, "lines", "counts"))(t)
	for i := range n {
		c.count(i)
	}
	committed, aborted := c.nemesis()
	words := c.judge(committed, aborted)
	for i := range n {
		c.instances[i].Kill()
		c.states[i] = t.TempDir()
		c.count(i)
	}
	c.judge(committed, aborted)
	var led []int // epochs of each broker
	for _, b := range c.brokers {
		led = append(led, strings.Count(b.Log(), "role=leader journal="))
	}
	if slices.Contains(led, 0) {
		t.Errorf("of each broker %v epochs: no takeover", led)
	}
	testenv.Report("Kafka Streams "+JavaVersion, fmt.Sprintf("%d words of %d brokers counted exactly once, then restored from the changelog", words, n), time.Since(begin),
		fmt.Sprintf("%d transactions of the input, %d aborted", len(committed)+len(aborted), len(aborted)),
		fmt.Sprintf("%d kills of a broker, %d of Kafka Streams, %d threads replaced; epochs of each broker: %v", c.kills[0], c.kills[1], c.threads.Load(), led))
}

func (c *counting) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client := must.Get(kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.addresses...), kgo.SASL(plain.Auth{User: "seb", Pass: testenv.InteropKey}.AsMechanism()), kgo.MetadataMinAge(time.Second),
	}, opts...)...))(c.t)
	c.t.Cleanup(client.Close)
	return client
}

// count starts an instance.
func (c *counting) count(i int) {
	p := start(c.t, c.path, func(line string) {
		if strings.Contains(line, "Replacing thread") {
			c.threads.Add(1)
		}
	}, "WordCount", c.states[i])
	c.instances[i] = p
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("end of the output of instance %d:\n%s", i, p.Log())
		}
	})
}

// nemesis writes lines in transactions while it kills a broker and an instance from time to time. It
// returns the numbers of the transactions of which the end was acknowledged.
func (c *counting) nemesis() (committed, aborted map[int]bool) {
	ctx, stop := context.WithTimeout(c.t.Context(), *streamsTime)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		committed, aborted = c.write(ctx)
	}()
	broker, instance := time.NewTicker(*streamsKills), time.NewTicker(*streamsKills*3/2)
	defer broker.Stop()
	defer instance.Stop()
	for {
		select {
		case <-done:
			return committed, aborted
		case <-broker.C:
			b := c.brokers[c.kills[0]%len(c.brokers)]
			b.Restart(time.Duration(rand.IntN(3)) * time.Second)
			c.kills[0]++
		case <-instance.C:
			i := c.kills[1] % len(c.instances)
			c.instances[i].Kill()
			c.count(i)
			c.kills[1]++
		}
	}
}

// write writes transactions of 1 to 20 lines, of which every fourth is aborted. Each line ends with the
// number of its transaction. A producer that fails is replaced.
func (c *counting) write(ctx context.Context) (committed, aborted map[int]bool) {
	committed, aborted = map[int]bool{}, map[int]bool{}
	var p *kgo.Client
	for n := 0; ctx.Err() == nil; n++ {
		if p == nil {
			p = c.client(kgo.TransactionalID("writer"), kgo.TransactionTimeout(20*time.Second))
		}
		end, noted := kgo.TryCommit, committed
		if n%4 == 3 {
			end, noted = kgo.TryAbort, aborted
		}
		if err := transact(c.t.Context(), p, n, end); err != nil {
			c.t.Logf("transaction %d: %v", n, err)
			p.Close()
			p = nil
			continue
		}
		noted[n] = true
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return committed, aborted
}

// transact writes one transaction.
func transact(ctx context.Context, p *kgo.Client, n int, end kgo.TransactionEndTry) error {
	ctx, stop := context.WithTimeout(ctx, callMax)
	defer stop()
	if err := p.BeginTransaction(); err != nil {
		return err
	}
	var all []*kgo.Record
	for range 1 + rand.IntN(20) {
		line := make([]string, 0, 6)
		for range 1 + rand.IntN(5) {
			line = append(line, "word"+strconv.Itoa(rand.IntN(words)))
		}
		all = append(all, &kgo.Record{Topic: "lines", Key: []byte(strconv.Itoa(rand.IntN(1000))), Value: []byte(strings.Join(line, " ")), Headers: []kgo.RecordHeader{
			{Key: "transaction", Value: []byte(strconv.Itoa(n))},
		}})
	}
	if err := p.ProduceSync(ctx, all...).FirstErr(); err != nil {
		return err
	}
	return p.EndTransaction(ctx, end)
}

// judge writes a line with all words into each partition and recounts the committed input. Then it
// waits until the newest counts are the same. No count is higher, or comes twice. All acknowledged
// commits must be in the input, and no acknowledged abort. It returns the number of words.
func (c *counting) judge(committed, aborted map[int]bool) (total int) {
	t := c.t
	var all []string
	for n := range words {
		all = append(all, fmt.Sprint("word", n))
	}
	writer := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for n := range int32(lineParts) {
		c.plain++
		must.NoError(t, writer.ProduceSync(t.Context(), &kgo.Record{Topic: "lines", Partition: n, Value: []byte(strings.Join(all, " "))}).FirstErr())
	}
	want, seen, plain := map[string]int{}, map[int]bool{}, 0
	c.read("lines", func() bool { return plain == c.plain }, func(r *kgo.Record) {
		if len(r.Headers) == 0 {
			plain++
		} else {
			seen[must.Get(strconv.Atoi(string(r.Headers[0].Value)))(t)] = true
		}
		for word := range strings.SplitSeq(string(r.Value), " ") {
			want[word]++
			total++
		}
	})
	for n := range committed {
		if !seen[n] {
			t.Errorf("transaction %d was committed, but is not in the input", n)
		}
	}
	for n := range aborted {
		if seen[n] {
			t.Errorf("transaction %d was aborted, but is in the input", n)
		}
	}
	got := map[string]int{}
	c.read("counts", func() bool { return t.Failed() || maps.Equal(got, want) }, func(r *kgo.Record) {
		word, n := string(r.Key), must.Get(strconv.Atoi(string(r.Value)))(t)
		if n <= got[word] || n > want[word] {
			t.Errorf("count of %s is %d at %d/%d after %d; the input has %d", word, n, r.Partition, r.Offset, got[word], want[word])
		}
		got[word] = n
	})
	return total
}

// read reads the committed records of a topic from its begin until done.
func (c *counting) read(topic string, done func() bool, visit func(*kgo.Record)) {
	t := c.t
	client := c.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, stop := context.WithTimeout(t.Context(), callMax)
	defer stop()
	for !done() {
		fetched := client.PollFetches(ctx)
		must.NoErrorf(t, ctx.Err(), "%s is not read to its end", topic)
		fetched.EachRecord(visit)
	}
}
