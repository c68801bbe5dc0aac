package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/history"
)

// The clients of franz-go.

// workKafka starts a Kafka client.
func (r *run) workKafka(ctx context.Context, k kind, u *user, start func(func())) {
	switch k {
	case kafkaProducer:
		start(func() { u.produceKafka(ctx) })
	case kafkaReader:
		start(func() { u.readKafka(ctx) })
	case kafkaRegister:
		start(func() { u.registersKafka(ctx) })
	case kafkaClient:
		start(func() { u.produceFranz(ctx) })
	case kafkaFollower:
		start(func() { u.followFranz(ctx) })
	case kafkaGroup:
		g := r.newMembers(fmt.Sprintf("kafka-group-%d", u.id))
		start(func() { g.member(ctx, u) })
		for range 2 {
			v := r.newUser(client.Options{})
			start(func() { g.member(ctx, v) })
		}
		v := r.newUser(client.Options{})
		start(func() { g.watch(ctx, v) })
	}
}

// franz returns a Kafka client that finds brokers through the proxies.
func (u *user) franz(opts ...kgo.Opt) *kgo.Client {
	var how sasl.Mechanism
	switch u.rng.IntN(3) {
	case 0:
		how = plain.Auth{User: "campaign", Pass: u.r.key()}.AsMechanism()
	case 1:
		how = scram.Auth{User: "campaign", Pass: u.r.key()}.AsSha256Mechanism()
	case 2:
		how = scram.Auth{User: "campaign", Pass: u.r.key()}.AsSha512Mechanism()
	}
	return u.franzAs(how, opts...)
}

// franzAs is franz with a login.
func (u *user) franzAs(how sasl.Mechanism, opts ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers("127.0.0.1:1"), kgo.Dialer(u.kafkaDial), kgo.SASL(how),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.RequestTimeoutOverhead(span(u.rng, 500*time.Millisecond, 5*time.Second)),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(time.Duration(n)*10*time.Millisecond, 200*time.Millisecond) }),
	}, opts...)...)
	if err != nil {
		panic(err) // of settings in this test
	}
	return c
}

// kafkaError counts an error of franz-go, and reports forbidden ones.
func (u *user) kafkaError(what string, err error) {
	if _, ok := errors.AsType[*kgo.ErrGroupSession](err); ok {
		u.r.counts.add("Kafka group sessions lost", 1) // as at a change of brokers
		return
	}
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		u.kafkaCode(what, e.Code)
		return
	}
	if lost, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		u.r.fault("client %d, %s: %v", u.id, what, lost)
	}
	u.r.counts.add("Kafka "+what+" without an answer", 1)
}

// flightMax bounds the records of franz-go in flight.
const flightMax = 64

// produceFranz sends with idempotent producers, one after the other, until ctx ends. Each record is
// recorded as a separate append, because the client decides about batches.
func (u *user) produceFranz(ctx context.Context) {
	for ctx.Err() == nil {
		life, cancel := context.WithTimeout(ctx, span(u.rng, 500*time.Millisecond, 20*time.Second))
		u.producer(life)
		cancel()
	}
}

// producer is one producer's lifetime.
func (u *user) producer(ctx context.Context) {
	c := u.franz(
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.StopProducerOnDataLossDetected(),
		kgo.ProduceRequestTimeout(span(u.rng, 100*time.Millisecond, 3*time.Second)),
		kgo.ProducerBatchCompression(pick(u.rng, kgo.NoCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(), kgo.SnappyCompression())),
	)
	defer c.Close()
	sem := make(chan struct{}, flightMax)
work:
	for ctx.Err() == nil {
		for range 1 + u.rng.IntN(recordsMax) {
			select {
			case sem <- struct{}{}:
			case <-ctx.Done():
				break work
			}
			part := u.partition()
			e, values := u.next(part, 1)
			e.Ordered, e.Form = true, "franz-go"
			op := u.r.rec.Invoke(e)
			c.Produce(context.WithoutCancel(ctx), &kgo.Record{Topic: topic, Partition: part, Value: values[0]}, func(rec *kgo.Record, err error) {
				is := history.Event{Is: history.Unknown}
				if err == nil {
					is = history.Event{Is: history.OK, At: rec.Offset}
				} else {
					u.kafkaError("franz-go produce", err)
				}
				u.returned(op, is)
				<-sem
			})
		}
		sleep(ctx, time.Duration(u.rng.Int64N(int64(u.r.p.pause)+1)))
	}
	// Usually a client flushes before it closes. Otherwise all its outcomes are unknown.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), span(u.rng, 10*time.Millisecond, 5*time.Second))
	if u.r.calm.Load() {
		cancel()
		end, cancel = context.WithTimeout(context.WithoutCancel(ctx), calmTime)
	}
	defer cancel()
	if err := c.Flush(end); err != nil && u.r.calm.Load() && end.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded {
		u.r.fault("client %d: in the calm, franz-go's producer has not ended in %v", u.id, calmTime)
	}
}

// followFranz repeatedly reads all partitions without trims, from their start or from the last
// position, until ctx ends.
func (u *user) followFranz(ctx context.Context) {
	from := map[int32]int64{}
	for n := 0; ctx.Err() == nil; n++ {
		at := map[int32]kgo.Offset{}
		for _, part := range u.r.untrimmed() {
			at[part] = kgo.NewOffset().At(from[part])
		}
		session := fmt.Sprintf("kafka-follow-%d-%d", u.id, n)
		c := u.franz(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}), kgo.FetchMaxWait(100*time.Millisecond),
			kgo.FetchMaxPartitionBytes(1+u.rng.Int32N(64<<10)))
		life, cancel := context.WithTimeout(ctx, span(u.rng, 300*time.Millisecond, 10*time.Second))
		for life.Err() == nil {
			u.polled(c.PollRecords(life, 200), func(part int32) (string, string) { return session, "" }, from)
		}
		cancel()
		c.Close()
		if u.rng.IntN(4) == 0 {
			clear(from)
		}
	}
}

// polled records the result of a poll as reads of sessions, and stores their continuation in next.
func (u *user) polled(f kgo.Fetches, session func(part int32) (session, group string), next map[int32]int64) {
	f.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			u.kafkaError("franz-go fetch", err)
		}
	})
	f.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 || !slices.Contains(u.r.untrimmed(), p.Partition) {
			return
		}
		is := history.Event{Is: history.OK}
		for _, rec := range p.Records {
			u.saw(&is, rec.Offset, rec.Value)
		}
		name, group := session(p.Partition)
		op := u.r.rec.Invoke(history.Event{
			Do: history.Read, Client: u.id, Part: p.Partition, From: history.None, Session: name, Group: group, Form: "franz-go",
		})
		u.r.rec.Return(op, is)
		next[p.Partition] = p.Records[len(p.Records)-1].Offset + 1
	})
}

// members is the group of some members.
type members struct {
	r        *run
	name     string
	balancer kgo.GroupBalancer

	mu        sync.Mutex // guards the fields below
	committed map[int32]int64
	sessions  int
}

func (r *run) newMembers(name string) *members {
	g := &members{r: r, name: name, committed: map[int32]int64{}, balancer: kgo.CooperativeStickyBalancer()}
	if r.p.seed%2 == 0 {
		g.balancer = kgo.RoundRobinBalancer()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = append(r.members, g)
	return g
}

// member runs consecutive members until ctx ends.
func (g *members) member(ctx context.Context, u *user) {
	for ctx.Err() == nil {
		life, cancel := context.WithTimeout(ctx, span(u.rng, 300*time.Millisecond, 12*time.Second))
		g.consume(life, u)
		cancel()
		sleep(ctx, span(u.rng, time.Millisecond, time.Second))
	}
}

// sessionOf numbers the reads of a member between getting and losing a partition.
func (g *members) sessionOf(u *user) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions++
	return fmt.Sprintf("%s-%d-%d", g.name, u.id, g.sessions)
}

// asRead refuses a commit by another member than the one that read the records
// (docs/guide/kafka.md). After a restart of the broker, the client sends a waiting commit as its
// new member, but polled the records as the previous one.
type asRead struct {
	mu  sync.Mutex // guards ids
	ids map[int32]string
}

var errMember = errors.New("read as another member")

func (a *asRead) check(req *kmsg.OffsetCommitRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if a.ids[req.Topics[i].Partitions[j].Partition] != req.MemberID {
				return errMember
			}
		}
	}
	return nil
}

// assigned records the member of a client when it gets partitions.
func (a *asRead) assigned(c *kgo.Client, parts []int32) {
	id, _ := c.GroupMetadata()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, part := range parts {
		a.ids[part] = id
	}
}

// pollTime is how long a member waits for records before it checks whether to commit.
const pollTime = 300 * time.Millisecond

// consume is one member's lifetime. It records the result of a poll before it commits.
func (g *members) consume(ctx context.Context, u *user) {
	as := asRead{ids: map[int32]string{}}
	var mu sync.Mutex // guards sessions
	sessions := map[int32]string{}
	c := u.franz(
		kgo.ConsumerGroup(g.name), kgo.ConsumeTopics(topic), kgo.Balancers(g.balancer), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(g.r.p.sessions), kgo.HeartbeatInterval(g.r.p.sessions/10), kgo.RebalanceTimeout(4*time.Second),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchMaxPartitionBytes(1+u.rng.Int32N(64<<10)),
		kgo.OnPartitionsAssigned(func(_ context.Context, c *kgo.Client, got map[string][]int32) {
			as.assigned(c, got[topic])
			mu.Lock()
			defer mu.Unlock()
			for _, part := range got[topic] {
				sessions[part] = g.sessionOf(u)
			}
		}),
	)
	every := 1 + u.rng.IntN(4)
	for n := 0; ctx.Err() == nil; n++ {
		poll, cancel := context.WithTimeout(ctx, pollTime)
		f := c.PollRecords(poll, 100)
		cancel()
		u.polled(f, func(part int32) (string, string) {
			mu.Lock()
			defer mu.Unlock()
			return sessions[part], g.name
		}, map[int32]int64{})
		// A commit on S3 takes up to a second.
		if calm := u.r.calm.Load(); !calm && n%every == 0 || calm && f.NumRecords() == 0 {
			g.commit(ctx, u, c, &as)
		}
		c.AllowRebalance()
	}
	if u.rng.IntN(3) > 0 {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		g.commit(last, u, c, &as)
		cancel()
	} else { // it leaves without a message to the broker
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.LeaveGroupContext(cancelled)
	}
	c.CloseAllowingRebalance()
}

// commit commits the polled offsets and remembers the acknowledged ones.
func (g *members) commit(ctx context.Context, u *user, c *kgo.Client, as *asRead) {
	call, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c.CommitOffsetsSync(kgo.PreCommitFnContext(call, as.check), c.UncommittedOffsets(), func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil || resp == nil {
			u.r.counts.add("Kafka group commits without an answer", 1)
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		for i := range resp.Topics {
			for j, p := range resp.Topics[i].Partitions {
				if p.ErrorCode != kafkaNone {
					u.r.counts.add(fmt.Sprintf("Kafka group commit code %d", p.ErrorCode), 1)
					continue
				}
				g.committed[p.Partition] = max(g.committed[p.Partition], req.Topics[i].Partitions[j].Offset)
				u.r.counts.add("Kafka group commits", 1)
			}
		}
	})
}

// watch asks brokers for the group's commits until ctx ends.
func (g *members) watch(ctx context.Context, u *user) {
	defer u.lost()
	for ctx.Err() == nil {
		failed := u.progress(ctx, g.name, pick(u.rng, u.r.untrimmed()...))
		u.restKafka(ctx, failed)
	}
}

// progress asks for the group's commits.
func (u *user) progress(ctx context.Context, group string, part int32) (failed bool) {
	op := u.r.rec.Invoke(history.Event{Do: history.Progress, Client: u.id, Part: part, Group: group, Form: "kafka"})
	call, cancel := u.timeout(ctx)
	defer cancel()
	is := history.Event{Is: history.Failed}
	defer func() { u.r.rec.Return(op, is) }()
	q, epoch, ok := u.askOffset(call, group, part)
	if ok {
		is = history.Event{Is: history.OK, Epoch: epoch, At: q.Offset}
	}
	return !ok
}

// kafkaGroupsReachTheEnd lets one member of each group read and commit the rest. No committed
// record may be missing.
func (r *run) kafkaGroupsReachTheEnd(ctx context.Context) {
	r.mu.Lock()
	all := slices.Clone(r.members)
	r.mu.Unlock()
	for _, g := range all {
		u := r.newUser(client.Options{})
		life, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.consume(life, u)
		}()
		v := r.newUser(client.Options{})
		for _, part := range r.untrimmed() {
			_, end := r.rec.Ends(part)
			r.until(ctx, fmt.Sprintf("%s has read partition %d up to %d", g.name, part, end), func() bool {
				v.progress(ctx, g.name, part)
				g.mu.Lock()
				acknowledged := g.committed[part] // before the request
				g.mu.Unlock()
				q, _, ok := v.askOffset(ctx, g.name, part)
				if !ok {
					v.lost()
					return false
				}
				if max(q.Offset, 0) < acknowledged {
					r.fault("%s: %d is committed of partition %d, and %d was acknowledged", g.name, q.Offset, part, acknowledged)
				}
				return q.Offset >= end
			})
		}
		v.lost()
		cancel()
		<-done
	}
}
