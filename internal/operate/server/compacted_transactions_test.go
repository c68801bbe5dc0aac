package server_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var (
	tableKeys = flag.Int("keys", 1_000, "keys of TestNewestCommittedValues (full run: 100000)")
	tableSeed = flag.Uint64("keys-seed", 0, "seed of TestNewestCommittedValues; 0: a new one")
)

const (
	tableTopic   = "table"
	tableParts   = 2
	tableWriters = 5 // the last one without transactions
)

// tableWorld is a server with a compacted topic, and what was written to it.
type tableWorld struct {
	t     *testing.T
	seed  uint64
	s     *server.Server
	whole bool // GET /key of each key, not of 5,000

	mu        sync.Mutex    // guards the fields below
	stored    []*kgo.Record // also those of transactions that are aborted
	committed []*kgo.Record
	aborts    int
}

// TestNewestCommittedValues writes a compacted topic in transactions that commit or abort at random, beside compaction.
// Readers by key over HTTP, and consumers of committed records that build a table, get the newest committed value of
// each key: below an open transaction, after its end, in a restored backup, and from a broker without the data
// directory. Compaction does not pass the beginning of the open transaction.
func TestNewestCommittedValues(t *testing.T) {
	bucket := "file:" + t.TempDir()
	w := &tableWorld{t: t, seed: *tableSeed}
	if w.seed == 0 {
		w.seed = rand.Uint64()
	}
	t.Logf("-keys %d -keys-seed %d", *tableKeys, w.seed)
	w.s = start(t, tableSettings(t, bucket))
	must.Get(connect(t, w.s).CreateTopic(t.Context(), tableTopic, client.TopicSpec{Partitions: tableParts, Settings: map[string]string{
		"cleanup-policy": "compact", "key-index": "true", "min-cleanable-dirty-ratio": "0", "delete-retention-time": "0s",
	}}))(t)
	var held int64
	w.write(0)
	for round := 1; round <= 3; round++ {
		var holder *kgo.Client
		holder, held = w.hold(round)
		before := w.part(1).Next
		w.write(round)
		sebtest.Eventually(t, "partition 1 is compacted", func() bool { return w.part(1).Clean > before })
		w.heldFrom(held)
		w.compare(w.s, "below the open transaction", held)
		if round == 3 {
			holder.Close()
			break
		}
		must.NoError(t, holder.EndTransaction(t.Context(), kgo.TransactionEndTry(round == 1)))
		if round == 1 {
			w.committed = append(w.committed, w.stored[slices.IndexFunc(w.stored, func(r *kgo.Record) bool { return r.Partition == 0 && r.Offset == held })])
		}
		sebtest.Eventually(t, "partition 0 is compacted", func() bool { return w.part(0).Clean > held })
		w.compare(w.s, "after the transaction", w.part(0).Next)
	}
	for i := range tableParts {
		t.Logf("partition %d: %d of %d records are left", i, w.part(i).Records, w.part(i).Next)
	}
	t.Logf("%d records, %d of them committed; %d transactions aborted", len(w.stored), len(w.committed), w.aborts)

	w.whole = true
	// A restore aborts open transactions.
	restored := "file:" + t.TempDir()
	w.restore(bucket, restored)
	s := start(t, tableSettings(t, restored))
	w.compare(s, "restored from a backup", int64(1)<<62)
	check.NoError(t, s.Close(t.Context()))

	check.NoError(t, w.s.Close(t.Context()))
	w.s = start(t, tableSettings(t, bucket))
	w.compare(w.s, "without the data directory, below the open transaction", held)
	c := w.producer(w.s, "holder", 0)
	must.Get2(c.ProducerID(t.Context()))(t) // aborts it
	w.compare(w.s, "without the data directory", int64(1)<<62)
}

func tableSettings(t *testing.T, bucket string) config.Config {
	cfg := settings(t, bucket)
	cfg.Kafka.Listen = "127.0.0.1:0"
	cfg.Maintenance.PackAge, cfg.Maintenance.MergeInterval = 10*time.Millisecond, 10*time.Millisecond
	return cfg
}

// producer returns a transactional producer. Odd ones speak version 1 of transactions.
func (w *tableWorld) producer(s *server.Server, id string, kind int) *kgo.Client {
	opts := []kgo.Opt{kgo.TransactionalID(id), kgo.TransactionTimeout(10 * time.Minute), kgo.ProducerLinger(0)}
	if kind%2 == 1 {
		opts = append(opts, kgo.MaxVersions(kversion.V3_9_0()))
	}
	return kafkaClient(w.t, s, opts...)
}

// hold begins a transaction with a record in partition 0, and returns its offset.
func (w *tableWorld) hold(round int) (*kgo.Client, int64) {
	key := ""
	for n := 0; key == "" || record.PartitionOf([]byte(key), tableParts) != 0; n++ {
		key = fmt.Sprintf("held-%d-%d", round, n)
	}
	c := w.producer(w.s, "holder", round)
	must.NoError(w.t, c.BeginTransaction())
	r := &kgo.Record{Topic: tableTopic, Key: []byte(key), Value: []byte("held")}
	must.NoError(w.t, c.ProduceSync(w.t.Context(), r).FirstErr())
	w.stored = append(w.stored, r)
	return c, r.Offset
}

// write writes as many records as there are keys.
func (w *tableWorld) write(round int) {
	var all sync.WaitGroup
	for i := range tableWriters {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(w.seed, uint64(round*tableWriters+i)))
			c := w.producer(w.s, fmt.Sprint("writer-", i), i)
			if i == tableWriters-1 {
				c = kafkaClient(w.t, w.s, kgo.ProducerLinger(0))
			}
			for left := *tableKeys / tableWriters; left > 0; {
				n := min(left, 1+rng.IntN(20))
				left -= n
				if !w.transact(c, rng, n, i < tableWriters-1) {
					return
				}
			}
		})
	}
	all.Wait()
	must.Equalf(w.t, w.t.Failed(), false, "a writer has failed")
}

// transact writes records, perhaps in a transaction.
func (w *tableWorld) transact(c *kgo.Client, rng *rand.Rand, n int, transaction bool) bool {
	recs := make([]*kgo.Record, n)
	for i := range recs {
		recs[i] = &kgo.Record{Topic: tableTopic, Key: fmt.Append(nil, "key-", rng.IntN(*tableKeys)), Value: fmt.Append(nil, rng.Uint64())}
		if rng.IntN(10) == 0 {
			recs[i].Value = nil
		}
	}
	commit := true
	var err error
	if transaction {
		commit = rng.IntN(2) == 0
		err = c.BeginTransaction()
	}
	if err == nil {
		err = c.ProduceSync(w.t.Context(), recs...).FirstErr()
	}
	if err == nil && transaction {
		err = c.EndTransaction(w.t.Context(), kgo.TransactionEndTry(commit))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stored = append(w.stored, recs...)
	if commit {
		w.committed = append(w.committed, recs...)
	} else {
		w.aborts++
	}
	check.NoError(w.t, err)
	return err == nil
}

func (w *tableWorld) part(i int) *state.Partition {
	return w.s.Node().View().TopicByName(tableTopic).Partitions.At(i)
}

// heldFrom checks that partition 0 has all records from an open transaction on.
func (w *tableWorld) heldFrom(offset int64) {
	want := 0
	for _, r := range w.stored {
		if r.Partition == 0 && r.Offset >= offset {
			want++
		}
	}
	got := 0
	w.read(w.s, 0, offset, kgo.ReadUncommitted(), func(*kgo.Record) { got++ })
	check.Equalf(w.t, got, want, "records of partition 0 from the open transaction on")
	if clean := w.part(0).Clean; clean > offset {
		w.t.Errorf("partition 0 was compacted to %d, but offset %d is in an open transaction", clean, offset)
	}
}

// read reads a partition to its end, which is the last stable offset for committed records, as a consumer does.
func (w *tableWorld) read(s *server.Server, partition int32, offset int64, level kgo.IsolationLevel, f func(*kgo.Record)) (end int64) {
	w.t.Helper()
	c := kafkaClient(w.t, s, kgo.MaxVersions(kversion.V2_8_0())) // with names of topics in fetches
	defer c.Close()
	for {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, offset, 1<<20
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.Topics = 1<<20, []kmsg.FetchRequestTopic{{Topic: tableTopic, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
		o := kgo.ProcessFetchPartitionOpts{Offset: offset, IsolationLevel: level, Topic: tableTopic, Partition: partition}
		if level == kgo.ReadCommitted() {
			req.IsolationLevel = 1
		}
		answer := must.Get(c.SeedBrokers()[0].Request(w.t.Context(), req))(w.t).(*kmsg.FetchResponse)
		got := &answer.Topics[0].Partitions[0]
		must.NoError(w.t, kerr.ErrorForCode(got.ErrorCode))
		if end = got.HighWatermark; req.IsolationLevel == 1 {
			end = got.LastStableOffset
		}
		if offset >= end {
			return end
		}
		records, next := kgo.ProcessFetchPartition(o, got, kgo.DefaultDecompressor(), nil)
		must.NoError(w.t, records.Err)
		for _, r := range records.Records {
			f(r)
		}
		if next <= offset {
			w.t.Fatalf("a consumer of partition %d is stuck at offset %d of %d", partition, offset, end)
		}
		offset = next
	}
}

// compare compares the newest values with those that were committed, in partition 0 below an offset.
func (w *tableWorld) compare(s *server.Server, when string, below int64) {
	w.t.Helper()
	want := map[string]*kgo.Record{}
	for _, r := range w.committed {
		if was := want[string(r.Key)]; (was == nil || was.Offset < r.Offset) && (r.Partition != 0 || r.Offset < below) {
			want[string(r.Key)] = r
		}
	}
	table := map[string][]byte{}
	var ends [tableParts]int64
	for p := range ends {
		ends[p] = w.read(s, int32(p), 0, kgo.ReadCommitted(), func(r *kgo.Record) {
			if table[string(r.Key)] = r.Value; r.Value == nil {
				delete(table, string(r.Key))
			}
		})
	}
	there := 0
	for key, r := range want {
		if r.Value != nil {
			there++
		}
		if got := table[key]; string(got) != string(r.Value) {
			w.t.Errorf("%s: a table of a Kafka client has %q for %s, want %q of %d/%d", when, got, key, r.Value, r.Partition, r.Offset)
		}
	}
	check.Equalf(w.t, len(table), there, "%s: keys of the table of a Kafka client", when)
	w.compareKeys(s, when, want, &ends)
	must.Equalf(w.t, w.t.Failed(), false, "%s: failed", when)
}

// compareKeys does so with the values of keys that were written, over HTTP.
func (w *tableWorld) compareKeys(s *server.Server, when string, want map[string]*kgo.Record, ends *[tableParts]int64) {
	w.t.Helper()
	written := map[string]struct{}{}
	for _, r := range w.stored {
		written[string(r.Key)] = struct{}{}
	}
	keys := slices.Collect(maps.Keys(written))
	const readers, most = 2, 5_000
	if !w.whole {
		keys = keys[:min(len(keys), most)]
	}
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			c := connect(w.t, s)
			for _, key := range keys[i*len(keys)/readers : (i+1)*len(keys)/readers] {
				last := ends[record.PartitionOf([]byte(key), tableParts)] - 1
				got, err := c.Key(w.t.Context(), tableTopic, []byte(key), client.KeyOptions{Freshness: client.Freshness{MinOffset: &last}})
				switch r := want[key]; {
				case r == nil || r.Value == nil:
					if !errors.Is(err, client.ErrKeyNotFound) {
						w.t.Errorf("%s: %s has %q at offset %d over HTTP, want none: %v", when, key, got.Value, got.Offset, err)
						return
					}
				case err != nil || string(got.Value) != string(r.Value) || got.Offset != r.Offset:
					w.t.Errorf("%s: %s has %q at offset %d over HTTP, want %q of %d/%d: %v", when, key, got.Value, got.Offset, r.Value, r.Partition, r.Offset, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// restore makes a backup of a bucket, beside its broker, and a bucket of the backup.
func (w *tableWorld) restore(bucket, to string) {
	w.t.Helper()
	open := func(spec string) objstore.Store {
		s := must.Get(anystore.Open(w.t.Context(), spec, anystore.Options{}))(w.t)
		if c, ok := s.(interface{ Close() error }); ok {
			w.t.Cleanup(func() { _ = c.Close() })
		}
		return s
	}
	backup := open("file:" + w.t.TempDir())
	must.Get(fsck.Backup(context.WithoutCancel(w.t.Context()), fsck.CopyOptions{From: open(bucket), To: backup}))(w.t)
	must.Get2(fsck.Restore(w.t.Context(), fsck.CopyOptions{From: backup, To: open(to)}))(w.t)
}
