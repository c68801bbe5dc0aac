package atomics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	transactors = 6 // clients with a transactional ID each; two more have the same
	copiers     = 3 // of each group
	parts       = 2 // partitions of each topic
)

// TestTransactionKills kills brokers, as TestKills does, beside Kafka clients with transactions, half of them of
// version 1: some write to two topics, commit, abort, vanish, wait for longer than the timeout, or commit after a
// successor has fenced them; the members of three groups each copy what was committed to a topic of the group, with
// their offsets: dynamic and static members of the classic protocol, and members of the consumer protocol.
// Most send jobs to a queue, too. Readers of committed records, over HTTP and Kafka, and the queue's workers never
// see a part of a transaction, or of an aborted one. In the end, all that was committed is there, and is copied once,
// and all jobs are done.
func TestTransactionKills(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program, and kills it")
	}
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-kill-seed %d", seed)
	c := newBrokers(t, *bucketFlag)
	for i := range c.kafka {
		c.kafka[i] = must.Get(testenv.FreeAddress())(t)
	}
	if !c.start(0, "") {
		t.Fatal(c.runs[0].Log())
	}
	l := &txnLedger{c: c, of: map[string]*txnValue{}, jobs: map[string]*job{}, stable: map[string]int64{}, counts: map[string]int{}}
	for _, topic := range topics() {
		c.must("PUT", "/topic?topic-name="+topic, fmt.Sprintf(`{"partitions":%d}`, parts), nil)
		for p := range parts {
			l.next = append(l.next, &reader{topic, p, 0})
		}
	}
	c.must("PUT", "/queues/jobs", `{"settings":{"visibility":"2s"}}`, nil)
	ctx, stop := context.WithCancel(t.Context())
	working, stopWorking := context.WithCancel(t.Context())
	var sending, watching sync.WaitGroup
	for i := range transactors + 2 {
		sending.Go(func() { l.transactor(ctx, seed, i) })
	}
	for i := range copiers * int(groupKinds) {
		watching.Go(func() { l.copier(working, seed, groupKind(i/copiers), i%copiers) })
	}
	watching.Go(func() { l.follow(working) })
	watching.Go(func() { l.followKafka(working) })
	watching.Go(func() { l.work(working) })
	c.disturb(true)
	c.chaos(rand.New(rand.NewPCG(seed, 0)))
	c.disturb(false)
	stop()
	if !c.start(0, "") {
		t.Error(c.runs[0].Log())
	}
	sending.Wait()
	sebtest.Eventually(t, "all is read and copied", l.drained)
	stopWorking()
	watching.Wait()
	l.judge()
	t.Logf("%d brokers killed, at %d failpoints; %d takeovers from a broker that lives", c.kills, len(c.points), c.over)
}

// topics are those of the transactions, and of their copies.
func topics() []string {
	list := []string{"a", "b"}
	for k := range groupKinds {
		list = append(list, k.topic())
	}
	return list
}

// txnLedger is what the test knows of all transactions.
type txnLedger struct {
	c      *brokers
	next   []*reader // of follow
	stable map[string]int64

	mu     sync.Mutex // guards the fields below
	all    []*txn
	of     map[string]*txnValue
	jobs   map[string]*job
	counts map[string]int
	losses []*kgo.ErrDataLoss
}

// txn is a transaction.
type txn struct {
	client string
	values []*txnValue
	is     ending
}

type ending int

const (
	unknown ending = iota
	committed
	aborted
)

// The readers.
const (
	byHTTP = iota
	byKafka
)

// txnValue is a record of a transaction.
type txnValue struct {
	of        *txn
	value     string
	topic     string
	partition int32
	at        [2]int64             // 1 + offset, by reader
	copies    [groupKinds][2]int64 // likewise, by group
}

func (l *txnLedger) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[what]++
}

// options are those of a client, whose kind is its number.
func (l *txnLedger) options(r *rand.Rand, kind int, more ...kgo.Opt) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(l.c.kafka[:]...), kgo.SASL(plain.Auth{User: "u", Pass: key}.AsMechanism()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.TransactionTimeout(3 * time.Second),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.RequestTimeoutOverhead(time.Duration(500+r.IntN(3000)) * time.Millisecond),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(time.Duration(n)*10*time.Millisecond, 200*time.Millisecond) }),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if kind%2 == 1 {
		opts = append(opts, kgo.MaxVersions(kversion.V3_9_0()))
	}
	return append(opts, more...)
}

// transactor makes transactions with one client after the other. The last two have one transactional ID.
func (l *txnLedger) transactor(ctx context.Context, seed uint64, kind int) {
	r := rand.New(rand.NewPCG(seed, uint64(kind)+1))
	id := fmt.Sprint("tx-", min(kind, transactors))
	var before *kgo.Client // with an open transaction
	for n := 0; ctx.Err() == nil; {
		c := must.Get(kgo.NewClient(l.options(r, kind, kgo.TransactionalID(id))...))(l.c.t)
		if before != nil {
			l.fences(ctx, c, before)
			before.Close()
			before = nil
		}
		for range 1 + r.IntN(30) {
			how := r.IntN(24)
			n++
			if !l.transact(ctx, c, r, fmt.Sprint("client-", kind), n, how) {
				if how == stays && kind < transactors {
					before = c
				}
				break
			}
		}
		if before != c {
			c.Close()
		}
	}
	if before != nil {
		before.Close()
	}
}

// fences checks that a client cannot commit after another one has its transactional ID.
func (l *txnLedger) fences(ctx context.Context, c, before *kgo.Client) {
	call, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, _, err := c.ProducerID(call); err != nil {
		return
	}
	if err := before.EndTransaction(call, kgo.TryCommit); err == nil {
		l.c.t.Error("a client has committed after it was fenced")
	}
	l.count("late commits")
}

// What a client does instead of a commit, of 24.
const (
	vanishes = iota
	stays    // vanishes, and commits when it was fenced
	sleeps   // commits after the timeout
	aborts   // and those above, up to 7
)

// transact makes a transaction. It reports whether the client can go on.
func (l *txnLedger) transact(ctx context.Context, c *kgo.Client, r *rand.Rand, client string, n, how int) bool {
	if ctx.Err() != nil || c.BeginTransaction() != nil {
		return false
	}
	x := &txn{client: client}
	var records []*kgo.Record
	l.mu.Lock()
	for i := range 1 + r.IntN(6) {
		v := &txnValue{of: x, value: fmt.Sprintf("%s.%d.%d", client, n, i), topic: string("ab"[r.IntN(2)]), partition: r.Int32N(parts)}
		x.values, l.of[v.value] = append(x.values, v), v
		records = append(records, &kgo.Record{Topic: v.topic, Partition: v.partition, Value: []byte(v.value)})
	}
	for i := range r.IntN(3) {
		j := &job{of: x, value: fmt.Sprintf("%s.%d.job%d", client, n, i)}
		l.jobs[j.value] = j
		records = append(records, &kgo.Record{Topic: "jobs", Value: []byte(j.value)})
	}
	l.all = append(l.all, x)
	l.mu.Unlock()
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	err := c.ProduceSync(call, records...).FirstErr()
	if how <= stays && err == nil {
		l.ended(x, aborted)
		return false
	}
	if how == sleeps {
		time.Sleep(3500 * time.Millisecond)
	}
	if err != nil || how >= aborts && how < 8 {
		l.ended(x, aborted)
		return errors.Join(err, c.EndTransaction(call, kgo.TryAbort)) == nil
	}
	if err = c.EndTransaction(call, kgo.TryCommit); err != nil {
		l.count("unknown")
		return false
	}
	l.ended(x, committed)
	return true
}

func (l *txnLedger) ended(x *txn, is ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.is = is
	l.counts[map[ending]string{committed: "committed", aborted: "aborted"}[is]]++
}

// found notes where a reader of committed records has found a value.
func (l *txnLedger) found(by int, value, topic string, partition int32, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := placeOf(topic, partition, offset)
	x := l.of[value]
	if x == nil {
		l.c.t.Errorf("%s has %q, which was not sent", place, value)
		return
	}
	at := &x.at[by]
	if group, ok := kindOf(topic); ok {
		at = &x.copies[group][by]
	} else if topic != x.topic {
		l.c.t.Errorf("%s has %q of %s", place, value, x.topic)
	}
	switch {
	case partition != x.partition:
		l.c.t.Errorf("%s has %q of partition %d", place, value, x.partition)
	case *at != 0 && *at != offset+1:
		l.c.t.Errorf("%s has %q, which is at offset %d", place, value, *at-1)
	case x.of.is == aborted:
		l.c.t.Errorf("%s has %q, which is aborted", place, value)
	}
	*at = offset + 1
}

// newest asks the newest broker, which has all that any before it has shown.
func (l *txnLedger) newest(ctx context.Context, method, path, body string, out any) bool {
	l.c.mu.Lock()
	url := l.c.urls[len(l.c.urls)-1]
	l.c.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	a := l.c.ask(call, url, method, path, api.JSON, body, map[string]string{"Accept": api.JSON})
	return a.status == http.StatusOK && json.Unmarshal(a.body, out) == nil
}

// follow reads all partitions to their ends over HTTP, again and again.
func (l *txnLedger) follow(ctx context.Context) {
	for ctx.Err() == nil {
		for _, at := range l.next {
			for !l.read(ctx, at) && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
		}
		l.count("passes of the reader over HTTP")
		time.Sleep(10 * time.Millisecond)
	}
}

// read reads a partition up to the last stable offset. It reports whether the end was reached.
func (l *txnLedger) read(ctx context.Context, at *reader) (end bool) {
	var t api.Topic
	if !l.newest(ctx, http.MethodGet, "/topic?topic-name="+at.topic, "", &t) {
		return false
	}
	place := fmt.Sprintf("%s/%d", at.topic, at.partition)
	stable := t.Partitions[at.partition].LastStable
	if stable < l.stable[place] {
		l.c.t.Errorf("%s: the last stable offset went back from %d to %d", place, l.stable[place], stable)
	}
	l.stable[place] = stable
	for {
		var list []api.Record
		path := fmt.Sprintf("/records?topic-name=%s&partition=%d&offset=%d&max-records=1000&timeout=0s", at.topic, at.partition, at.offset)
		if !l.newest(ctx, http.MethodGet, path, "", &list) {
			return false
		}
		for i := range list {
			if list[i].Offset < at.offset {
				l.c.t.Errorf("%s: offset %d after %d", place, list[i].Offset, at.offset)
			}
			l.found(byHTTP, *list[i].Value, at.topic, int32(at.partition), list[i].Offset)
			at.offset = list[i].Offset + 1
		}
		if len(list) == 0 || at.offset >= stable {
			return true
		}
	}
}

// followKafka reads all partitions over Kafka, with one client.
func (l *txnLedger) followKafka(ctx context.Context) {
	c := must.Get(kgo.NewClient(l.options(rand.New(rand.NewPCG(1, 1)), 0, kgo.ConsumeTopics(topics()...))...))(l.c.t)
	defer c.Close()
	next := map[string]int64{}
	for ctx.Err() == nil {
		fetched := c.PollFetches(ctx)
		l.noteLosses(fetched)
		fetched.EachRecord(func(x *kgo.Record) {
			place := fmt.Sprintf("%s/%d", x.Topic, x.Partition)
			if x.Offset < next[place] {
				l.c.t.Errorf("%s: offset %d after %d", place, x.Offset, next[place])
			}
			next[place] = x.Offset + 1
			l.found(byKafka, string(x.Value), x.Topic, x.Partition, x.Offset)
		})
	}
}

// drained reports whether all transactions have ended, and both readers have what was committed, and its copies.
func (l *txnLedger) drained() bool {
	var open api.Transactions
	l.c.must("GET", "/transactions", "", &open)
	for i := range open.Transactions {
		if x := &open.Transactions[i]; x.State == api.TransactionOpen && x.ID[:2] == "tx" {
			return false
		}
	}
	var jobs api.Queue
	if l.c.must("GET", "/queues/jobs", "", &jobs); jobs.Ready+jobs.Leased+jobs.Delayed+jobs.Retry+jobs.Dying > 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.of {
		places := append(v.copies[:], v.at)
		found := func(by [2]int64) bool { return by[byHTTP] != 0 || by[byKafka] != 0 }
		missing := func(by [2]int64) bool { return by[byHTTP] == 0 || by[byKafka] == 0 }
		if (v.of.is == committed || slices.ContainsFunc(places, found)) && slices.ContainsFunc(places, missing) {
			return false
		}
	}
	return true
}

// judge checks all that was read.
func (l *txnLedger) judge() {
	inOrder := map[string][]*txnValue{}
	after := map[string]int64{} // the newest committed records
	for _, x := range l.all {
		found := 0
		for _, v := range x.values {
			for _, at := range append(v.copies[:], v.at) {
				if at[byHTTP] != at[byKafka] || (at[byHTTP] == 0) != (v.at[byHTTP] == 0) {
					l.c.t.Errorf("%q was read at %v, and its copies at %v", v.value, v.at, v.copies)
				}
			}
			if v.at[byHTTP] == 0 {
				continue
			}
			found++
			place := fmt.Sprintf("%s/%d", v.topic, v.partition)
			after[place] = max(after[place], v.at[byHTTP])
			inOrder[x.client+" "+place] = append(inOrder[x.client+" "+place], v)
		}
		switch {
		case found != 0 && found != len(x.values), x.is == committed && found == 0, x.is == aborted && found > 0:
			l.c.t.Errorf("%d of %d records are there of a transaction with ending %d: %q ...", found, len(x.values), x.is, x.values[0].value)
		case found > 0 && x.is == unknown:
			l.counts["unknown, and committed"]++
		}
	}
	for place, list := range inOrder {
		if !slices.IsSortedFunc(list, func(a, b *txnValue) int { return int(a.at[byHTTP] - b.at[byHTTP]) }) {
			l.c.t.Errorf("%s: not in order", place)
		}
		for k := range groupKinds {
			if !slices.IsSortedFunc(list, func(a, b *txnValue) int { return int(a.copies[k][byHTTP] - b.copies[k][byHTTP]) }) {
				l.c.t.Errorf("%s: copies are not in order: %s", place, k.name())
			}
		}
	}
	for k := range groupKinds {
		l.judgeOffsets(k.name(), after)
		if l.counts["committed copies, "+k.name()] == 0 {
			l.c.t.Errorf("nothing was tested: %s", k.name())
		}
	}
	l.judgeJobs()
	l.judgeLosses()
	l.c.t.Logf("%d transactions with %d jobs: %v", len(l.all), len(l.jobs), l.counts)
	if l.counts["committed"] == 0 || l.counts["aborted"] == 0 {
		l.c.t.Error("nothing was tested")
	}
}
