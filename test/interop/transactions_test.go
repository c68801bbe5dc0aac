package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestJavaTransactions commits and aborts transactions with a Java client of each version of
// transactions: commit, abort, neither with records, two topics, offsets, a fenced producer and a
// timeout. Readers of committed records see exactly these. The newest client runs with the other interop tests.
func TestJavaTransactions(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts Java and a broker")
	}
	if err := needsJava("java", "javac", "mvn"); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	b := testenv.ServeInterop(t)
	config := settingsAs(t, b, login{"seb", testenv.InteropKey, "PLAIN"})
	for _, c := range []struct{ version, of string }{{JavaVersion, "2"}, {"2.8.2", "1"}, {newestJava, "2"}} {
		t.Run(c.version, func(t *testing.T) {
			t.Parallel()
			if c.version == newestJava {
				testenv.InteropWanted(t)
			}
			path := must.Get(JavaClients(t.Context(), c.version))(t)
			dir := t.TempDir()
			must.NoError(t, compile(t, path, dir, "transactions"))
			begin := time.Now()
			p := start(t, dir+string(filepath.ListSeparator)+path, nil, "Transactions", config, "java-"+c.version+"-", c.of)
			p.wait(callMax)
			check.Containsf(t, p.Log(), "\ndone", "the end of the output")
			testenv.Report("Java "+c.version, "transactions of version "+c.of+transactionScenes, time.Since(begin))
		})
	}
}

// transactionScenes is what the programs of all languages do.
const transactionScenes = ": commit, abort, empty, two topics, offsets, fencing, timeout"

// TestPythonTransactions does the same with librdkafka, which speaks version 1, of today and of 2021
// and 2022.
func TestPythonTransactions(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	p := newPython(t, b)
	p.run(p.report, "transactions.py", "python-")
	for _, old := range oldLibraries {
		p.client = "librdkafka " + old.version
		p.run(p.report, "transactions.py", "librdkafka-"+old.version+"-", oldLibrary(t, old.version, old.python))
	}
}

// TestKafkajsTransactions does the same with kafkajs, which speaks version 1.
func TestKafkajsTransactions(t *testing.T) {
	testenv.InteropWanted(t)
	node := must.Get(needs("node", "kafkajs runs in"))(t)
	modules := must.Get(kafkajs(t.Context()))(t)
	b := testenv.ServeInterop(t)
	begin := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), callMax)
	defer stop()
	c := exec.CommandContext(ctx, node, "testdata/javascript/transactions.js", "javascript-")
	c.Env = append(os.Environ(), "NODE_PATH="+modules, "KAFKAJS_NO_PARTITIONER_WARNING=1", "BROKER="+b.Address, "KEY="+testenv.InteropKey)
	out, err := c.CombinedOutput()
	must.Equalf(t, string(out), "commit, abort, empty, two topics\noffsets\nfencing\ntimeout\n", "%v", err)
	report(t, "kafkajs", "transactions"+transactionScenes, time.Since(begin))
}

// TestGoTransactions does the same with franz-go in both versions, while the broker is killed.
func TestGoTransactions(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	for name, versions := range map[string]*kversion.Versions{"2": kversion.Stable(), "1": kversion.V3_9_0()} {
		t.Run("version "+name, func(t *testing.T) {
			begin := time.Now()
			s := &franz{t: t, b: b, prefix: "go-" + name + "-", versions: versions}
			s.ends()
			s.offsets()
			s.fencing()
			s.timeout()
			report(t, "franz-go", "transactions of version "+name+transactionScenes+"; the broker was killed", time.Since(begin))
		})
	}
}

// franz is franz-go with the versions of a Kafka.
type franz struct {
	t        *testing.T
	b        *testenv.InteropBroker
	prefix   string
	versions *kversion.Versions
}

func (f *franz) client(opts ...kgo.Opt) *kgo.Client {
	f.t.Helper()
	c := must.Get(kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(f.b.Address), kgo.SASL(plain.Auth{User: "seb", Pass: testenv.InteropKey}.AsMechanism()), kgo.MaxVersions(f.versions),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(100 * time.Millisecond),
	}, opts...)...))(f.t)
	f.t.Cleanup(c.Close)
	return c
}

// producer returns a client with a transactional ID.
func (f *franz) producer(id string, timeout time.Duration) *kgo.Client {
	return f.client(kgo.TransactionalID(f.prefix+id), kgo.TransactionTimeout(timeout))
}

// send writes values to partition 0 of a topic.
func send(t *testing.T, c *kgo.Client, topic string, values ...string) error {
	var all []*kgo.Record
	for _, v := range values {
		all = append(all, &kgo.Record{Topic: topic, Value: []byte(v)})
	}
	return c.ProduceSync(t.Context(), all...).FirstErr()
}

// expect reads a topic until its record "end" and compares the values before it.
func (f *franz) expect(topic string, level kgo.IsolationLevel, want ...string) {
	f.t.Helper()
	c := f.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	ctx, stop := context.WithTimeout(f.t.Context(), timeout)
	defer stop()
	var got []string
	for !slices.Contains(got, "end") {
		fetched := c.PollFetches(ctx)
		must.NoErrorf(f.t, ctx.Err(), "no end of %s after %q", topic, got)
		fetched.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	check.Equalf(f.t, strings.Join(got, " "), strings.Join(append(want, "end"), " "), "records of %s", topic)
}

func (f *franz) ends() {
	t, one, two := f.t, f.prefix+"one", f.prefix+"two"
	createTopic(t, f.b, one, 1)
	createTopic(t, f.b, two, 1)
	c := f.producer("ends", time.Minute)
	var committed, all []string
	for n, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryCommit} {
		must.NoError(t, c.BeginTransaction())
		value := strconv.Itoa(n)
		if n != 2 && n != 3 {
			must.NoError(t, send(t, c, one, value))
			must.NoError(t, send(t, c, two, value))
			all = append(all, value)
		}
		if n == 4 {
			f.b.Restart(0)
		}
		must.NoErrorf(t, c.EndTransaction(t.Context(), end), "the end of transaction %d", n)
		if end == kgo.TryCommit && n != 2 {
			committed = append(committed, value)
		}
	}
	for _, topic := range []string{one, two} {
		must.NoError(t, send(t, f.client(), topic, "end"))
		f.expect(topic, kgo.ReadCommitted(), committed...)
		f.expect(topic, kgo.ReadUncommitted(), all...)
	}
}

func (f *franz) offsets() {
	t, in, out, group := f.t, f.prefix+"in", f.prefix+"out", f.prefix+"group"
	createTopic(t, f.b, in, 1)
	createTopic(t, f.b, out, 1)
	var want []string
	for n := range 20 {
		want = append(want, fmt.Sprint("n", n))
	}
	must.NoError(t, send(t, f.client(), in, want...))
	s := must.Get(kgo.NewGroupTransactSession(
		kgo.SeedBrokers(f.b.Address), kgo.SASL(plain.Auth{User: "seb", Pass: testenv.InteropKey}.AsMechanism()), kgo.MaxVersions(f.versions),
		kgo.TransactionalID(f.prefix+"offsets"), kgo.ConsumerGroup(group), kgo.ConsumeTopics(in), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	))(t)
	defer s.Close()
	ctx, stop := context.WithTimeout(t.Context(), timeout)
	defer stop()
	for copied, round := 0, 0; copied < len(want); round++ {
		fetched := s.PollRecords(ctx, 3)
		must.NoErrorf(t, ctx.Err(), "after %d records", copied)
		if fetched.NumRecords() == 0 {
			continue
		}
		must.NoError(t, s.Begin())
		fetched.EachRecord(func(r *kgo.Record) {
			s.Produce(ctx, &kgo.Record{Topic: out, Value: r.Value}, nil)
		})
		committed, err := s.End(ctx, kgo.TransactionEndTry(round%3 != 1))
		must.NoErrorf(t, err, "round %d", round)
		check.Equalf(t, committed, round%3 != 1, "committed in round %d", round)
		if committed {
			copied += fetched.NumRecords()
		}
	}
	at := must.Get(admin(t, f.b).FetchOffsets(t.Context(), group))(t)
	committed, _ := at.Lookup(in, 0)
	check.Equalf(t, committed.At, int64(len(want)), "the committed offset")
	must.NoError(t, send(t, f.client(), out, "end"))
	f.expect(out, kgo.ReadCommitted(), want...)
}

func (f *franz) fencing() {
	t, topic := f.t, f.prefix+"fenced"
	createTopic(t, f.b, topic, 1)
	old, now := f.producer("fenced", time.Minute), f.producer("fenced", time.Minute)
	must.NoError(t, old.BeginTransaction())
	must.NoError(t, send(t, old, topic, "old"))
	must.NoError(t, now.BeginTransaction())
	must.NoError(t, send(t, now, topic, "new"))
	err := old.EndTransaction(t.Context(), kgo.TryCommit)
	if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Errorf("commit of a fenced producer: %v", err)
	}
	must.NoError(t, now.EndTransaction(t.Context(), kgo.TryCommit))
	must.NoError(t, send(t, f.client(), topic, "end"))
	f.expect(topic, kgo.ReadCommitted(), "new")
}

func (f *franz) timeout() {
	t, topic := f.t, f.prefix+"timeout"
	createTopic(t, f.b, topic, 1)
	c := f.producer("timeout", time.Second)
	must.NoError(t, c.BeginTransaction())
	must.NoError(t, send(t, c, topic, "late"))
	must.NoError(t, send(t, f.client(), topic, "end"))
	f.expect(topic, kgo.ReadCommitted())
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("a commit after the timeout succeeded")
	}
}
