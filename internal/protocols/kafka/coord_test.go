package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// testSite is a bucket, and the broker that serves it at a fixed address.
type testSite struct {
	t     *testing.T
	store objstore.Store
	addr  string
	b     *broker.Broker
	c     *coordinator.Coordinator
	k     *kafka.Server
	ended chan error
}

func newTestSite(t *testing.T) *testSite {
	s := &testSite{t: t, store: objstore.NewMemory()}
	s.newAddress()
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

// start opens the next broker.
func (s *testSite) start() {
	s.t.Helper()
	s.b = must.Get(broker.Open(s.t.Context(), broker.Options{
		Options: log.Options{Store: s.store, Budget: budget.New(256 << 20), Batch: log.Config{Wait: 2 * time.Millisecond}, Logger: quiet},
	}))(s.t)
	s.c = coordinator.Open(context.Background(), coordinator.Options{
		Broker: s.b, InitialDelay: 20 * time.Millisecond, SessionMin: time.Millisecond, Session: 2 * time.Second, Beat: 50 * time.Millisecond,
		Logger: quiet,
	})
	s.k = must.Get(kafka.New(s.b, kafka.Options{Auth: authority(s.t, s.b), Groups: s.c}))(s.t)
	l := must.Get(net.Listen("tcp", s.addr))(s.t)
	s.ended = make(chan error, 1)
	k, ended := s.k, s.ended
	go func() { ended <- k.Serve(context.Background(), l) }()
}

// stop stops the broker like a crash, its connections first.
func (s *testSite) stop() {
	s.t.Helper()
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.b.Close(dead)
	_ = s.k.Close(dead)
	s.c.Close()
	check.NoError(s.t, <-s.ended)
}

// takeover starts another broker while this one still answers, and stops this one after while.
func (s *testSite) takeover(while func()) {
	s.t.Helper()
	old := *s
	s.newAddress()
	s.start()
	while()
	old.stop()
}

// newAddress chooses an address for the next brokers.
func (s *testSite) newAddress() {
	s.t.Helper()
	var err error
	if s.addr, err = testenv.FreeAddress(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testSite) client(opts ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	c := must.Get(kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.addr), kgo.SASL(plain.Auth{User: "u", Pass: apiKey}.AsMechanism()), kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.MetadataMaxAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		kgo.RecordRetries(1 << 30), kgo.ConnIdleTimeout(time.Minute),
	}, opts...)...))(s.t)
	return c
}

type position struct {
	partition int32
	offset    int64
}

// consumers is the consumers of one group and their shared observations.
type consumers struct {
	s  *testSite
	wg sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	committed map[int32]int64
	seen      map[position]string
	again     int
	owners    map[int32]map[string]bool
	failures  []string
}

func newConsumers(s *testSite) *consumers {
	return &consumers{s: s, committed: map[int32]int64{}, seen: map[position]string{}, owners: map[int32]map[string]bool{}}
}

// consumer is one member.
type consumer struct {
	*consumers
	name   string
	c      *kgo.Client
	cancel context.CancelFunc
	wire   *connections
	as     string // member ID at the last assignment; guarded by consumers.mu
	began  int32  // generation of the first assignment, 0 before; guarded by consumers.mu
}

// connections holds a client's connections, which can be cut permanently.
type connections struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (c *connections) dial(ctx context.Context, network, host string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, host)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		if err == nil {
			_ = conn.Close()
		}
		return nil, errors.New("connection cut by the test")
	}
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *connections) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// add starts a member, which commits the records that it reads, batch by batch. It must not start
// in a partition below the commits that were acknowledged before the partition was assigned to it.
func (c *consumers) add(name string, opts ...kgo.Opt) *consumer {
	ctx, cancel := context.WithCancel(context.Background())
	m := &consumer{consumers: c, name: name, cancel: cancel, wire: &connections{}}
	before := map[int32]int64{} // committed at the assignment; only used by the client's goroutine
	m.c = c.s.client(append([]kgo.Opt{
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.Dialer(m.wire.dial), kgo.ClientID(name),
		kgo.SessionTimeout(2 * time.Second), kgo.HeartbeatInterval(50 * time.Millisecond), kgo.RebalanceTimeout(10 * time.Second),
		kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(50 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, added map[string][]int32) {
			id, generation := client.GroupMetadata()
			c.mu.Lock()
			defer c.mu.Unlock()
			m.as = id
			if m.began == 0 {
				m.began = generation
			}
			for _, p := range added["t"] {
				before[p] = c.committed[p]
				c.own(p, name, true)
			}
		}),
		kgo.OnPartitionsRevoked(m.gone), kgo.OnPartitionsLost(m.gone),
		kgo.AdjustFetchOffsetsFn(func(_ context.Context, at map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for p, o := range at["t"] {
				if from := max(0, o.EpochOffset().Offset); from < before[p] {
					c.failures = append(c.failures, fmt.Sprintf("%s starts partition %d at offset %d, committed %d", name, p, from, before[p]))
				}
			}
			return at, nil
		}),
	}, opts...)...)
	c.wg.Go(func() { m.run(ctx) })
	return m
}

func (c *consumers) own(p int32, name string, owns bool) {
	if c.owners[p] == nil {
		c.owners[p] = map[string]bool{}
	}
	if owns {
		c.owners[p][name] = true
	} else {
		delete(c.owners[p], name)
	}
}

func (m *consumer) gone(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range lost["t"] {
		m.own(p, m.name, false)
	}
}

var errOther = errors.New("read as another member")

// run reads and commits. franz-go sends a commit with the member ID of that time. If the partition
// belonged to the member before, the broker cannot detect that another member ID read the records.
// The test therefore does not commit records after a restart of the broker that were read before
// it.
func (m *consumer) run(ctx context.Context) {
	commits := kgo.PreCommitFnContext(ctx, func(r *kmsg.OffsetCommitRequest) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if r.MemberID != m.as {
			return errOther
		}
		return nil
	})
	for ctx.Err() == nil {
		recs := m.c.PollRecords(ctx, 20).Records()
		m.see(recs)
		if len(recs) > 0 && m.c.CommitRecords(commits, recs...) == nil {
			m.commit(recs)
		}
		m.c.AllowRebalance()
	}
}

func (m *consumer) see(recs []*kgo.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range recs {
		at := position{r.Partition, r.Offset}
		if was, ok := m.seen[at]; ok {
			if m.again++; was != string(r.Value) {
				m.failures = append(m.failures, fmt.Sprintf("%v has the values %q and %q", at, was, r.Value))
			}
		}
		m.seen[at] = string(r.Value)
	}
}

func (m *consumer) commit(recs []*kgo.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range recs {
		m.committed[r.Partition] = max(m.committed[r.Partition], r.Offset+1)
	}
}

// leave closes a member cleanly.
func (m *consumer) leave() {
	m.cancel()
	m.c.CloseAllowingRebalance()
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.owners {
		m.own(p, m.name, false)
	}
}

// kill cuts a member off from the broker.
func (m *consumer) kill() {
	m.wire.cutAll()
	m.leave()
}

// until waits for a condition of the consumers.
func (c *consumers) until(what string, is func() bool) {
	c.s.t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		c.mu.Lock()
		ok, state := is(), fmt.Sprintf("%d seen, committed %v, owners %v, failures %v", len(c.seen), c.committed, c.owners, c.failures)
		c.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			c.s.t.Fatalf("not within a minute: %s; %s", what, state)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// shared reports whether each of n partitions has one owner, and each of the members owns a
// partition.
func (c *consumers) shared(n, members int) func() bool {
	return func() bool {
		names := map[string]bool{}
		for p := range int32(n) {
			if len(c.owners[p]) != 1 {
				return false
			}
			for name := range c.owners[p] {
				names[name] = true
			}
		}
		return len(names) == members
	}
}

// producer writes to a changing number of partitions until it is stopped.
type producer struct {
	s     *testSite
	c     *kgo.Client
	parts chan int
	stop  chan struct{}
	done  chan map[position]string // acknowledged records
}

func (s *testSite) produce(partitions int) *producer {
	p := &producer{s: s, c: s.client(kgo.RecordPartitioner(kgo.ManualPartitioner())), parts: make(chan int), stop: make(chan struct{}), done: make(chan map[position]string)}
	go p.run(partitions)
	return p
}

func (p *producer) run(partitions int) {
	wrote, first := map[position]string{}, int32(partitions)
	for i := 0; ; i++ {
		select {
		case <-p.stop:
			p.done <- wrote
			return
		case partitions = <-p.parts:
		default:
		}
		r := &kgo.Record{Topic: "t", Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%d", i)}
		if err := p.c.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			if r.Partition < first {
				p.s.t.Error(err)
			}
			p.c.ForceMetadataRefresh() // an added partition may not be known yet
			continue
		}
		wrote[position{r.Partition, r.Offset}] = string(r.Value)
	}
}

func (p *producer) end() map[position]string {
	close(p.stop)
	wrote := <-p.done
	p.c.Close()
	return wrote
}

// check ends a run: all written records are seen and committed, without failures.
func (c *consumers) check(wrote map[position]string, members ...*consumer) {
	c.s.t.Helper()
	ends := map[int32]int64{}
	for at := range wrote {
		ends[at.partition] = max(ends[at.partition], at.offset+1)
	}
	c.until("all is seen and committed", func() bool {
		for at, value := range wrote {
			if c.seen[at] != value {
				return false
			}
		}
		info, err := c.s.b.Group(c.s.t.Context(), "g", false)
		// A killed member may have committed without seeing the answer.
		for _, o := range info.Offsets {
			if o.Offset != ends[o.Partition] {
				return false
			}
		}
		return err == nil && len(info.Offsets) == len(ends)
	})
	for _, m := range members {
		m.leave()
	}
	c.wg.Wait()
	info, err := c.s.b.Group(c.s.t.Context(), "g", false)
	if err != nil || len(info.Offsets) != len(ends) {
		c.s.t.Fatalf("%+v, %v", info, err)
	}
	for _, o := range info.Offsets {
		check.Equalf(c.s.t, o.Offset, ends[o.Partition], "partition %d: committed offset", o.Partition)
	}
	if len(c.failures) > 0 {
		c.s.t.Fatal(c.failures)
	}
	c.s.t.Logf("%d records, %d read more than once", len(wrote), c.again)
}

func (s *testSite) topic(partitions int) {
	s.t.Helper()
	must.Get(s.b.CreateTopic(s.t.Context(), "t", broker.TopicSpec{Partitions: partitions}))(s.t)
}

// protocols are the rebalance protocols: eager and cooperative ones of classic groups, and the
// consumer protocol.
var protocols = map[string][]kgo.Opt{
	"range":              {kgo.Balancers(kgo.RangeBalancer())},
	"cooperative-sticky": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
	"server-side":        {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()},
}

// TestMembersJoinLeaveAndCrash: members join, leave and crash under each rebalance protocol, while
// records are written and partitions are added.
func TestMembersJoinLeaveAndCrash(t *testing.T) {
	for name, how := range protocols {
		if testing.Short() && name != "cooperative-sticky" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestSite(t)
			s.topic(4)
			p := s.produce(4)
			c := newConsumers(s)
			a, b := c.add("a", how...), c.add("b", how...)
			c.until("two share", c.shared(4, 2))
			d := c.add("d", how...)
			c.until("three share", c.shared(4, 3))
			a.kill()
			c.until("two are left", c.shared(4, 2))
			must.Get(s.b.UpdateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 7}))(t)
			p.parts <- 7
			c.until("the added partitions are read", c.shared(7, 2))
			b.leave()
			c.until("one is left", c.shared(7, 1))
			e := c.add("e", how...)
			c.until("two share again", c.shared(7, 2))
			c.check(p.end(), d, e)
		})
	}
}

// TestGroupsSurviveRestarts: after restarts and takeovers members continue from the committed
// offsets, while records are written.
func TestGroupsSurviveRestarts(t *testing.T) {
	t.Parallel()
	sebtest.Long(t, "TestMembersJoinLeaveAndCrash remains")
	for _, name := range []string{"server-side", "cooperative-sticky"} {
		t.Run(name, func(t *testing.T) { outlive(t, protocols[name]) })
	}
}

func outlive(t *testing.T, how []kgo.Opt) {
	s := newTestSite(t)
	s.topic(6)
	p := s.produce(6)
	c := newConsumers(s)
	var members []*consumer
	for i := range 3 {
		members = append(members, c.add(fmt.Sprint("m", i), how...))
	}
	c.until("three share", c.shared(6, 3))
	for range 3 {
		s.stop()
		s.start()
		c.until("all have joined the next broker", func() bool {
			v, _ := s.c.Describe("g")
			n := len(v.Members)
			if v.Consumers != nil {
				n = len(v.Consumers.Members)
			}
			return v.State == group.Stable && n == 3
		})
		at := len(c.snapshot())
		c.until("the group continues to read", func() bool { return len(c.seen) > at+100 })
	}
	c.until("three share after restarts", c.shared(6, 3))
	c.check(p.end(), members...)
}

// TestMemberKeepsItsID: a member of the classic protocol keeps its ID over restarts of the
// broker, loses no assigned partition, and commits in the new generation.
func TestMemberKeepsItsID(t *testing.T) {
	t.Parallel()
	s := newTestSite(t)
	s.topic(2)
	p := s.produce(2)
	c := newConsumers(s)
	var lost sessionErrors
	m := c.add("m", append(slices.Clone(protocols["cooperative-sticky"]), kgo.SessionTimeout(time.Minute), kgo.WithHooks(&lost))...)
	c.until("the member owns all partitions", c.shared(2, 1))
	id, generation := m.c.GroupMetadata()
	for range 3 {
		s.stop()
		s.start()
		was := generation
		c.until("the member joins a new generation", func() bool {
			_, generation = m.c.GroupMetadata()
			return generation > was
		})
		if now, _ := m.c.GroupMetadata(); now != id {
			t.Errorf("member %s joined again as %s", id, now)
		}
		at := len(c.snapshot())
		c.until("the member continues to read", func() bool { return len(c.seen) > at+20 })
	}
	if lost := lost.all(); len(lost) > 0 {
		t.Errorf("the member lost its partitions: %v", lost)
	}
	c.check(p.end(), m)
}

// sessionErrors collects the answers after which a client gives up its partitions. It also does so when
// it cannot connect for a while.
type sessionErrors struct {
	mu   sync.Mutex
	list []error
}

func (e *sessionErrors) OnGroupManageError(err error) {
	if _, answered := errors.AsType[*kerr.Error](err); !answered {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, err)
}

func (e *sessionErrors) all() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

func (c *consumers) snapshot() map[position]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[position]string, len(c.seen))
	for at, v := range c.seen {
		all[at] = v
	}
	return all
}

// TestTakeoverWithRunningMembers: members of a deposed broker continue to read from it, but cannot
// commit. Members of the next broker start at the last acknowledged commit, and the other members
// cannot change that.
func TestTakeoverWithRunningMembers(t *testing.T) {
	sebtest.Long(t, "TestTakeovers and TestTakeoversOfStandbys remain")
	t.Parallel()
	s := newTestSite(t)
	s.topic(3)
	p := s.produce(3)
	old := newConsumers(s)
	a, b := old.add("a"), old.add("b")
	old.until("two share", old.shared(3, 2))
	old.until("the members commit", func() bool { return len(old.committed) == 3 })
	var next *consumers
	var d *consumer
	before := p.end()
	s.takeover(func() {
		next = newConsumers(s)
		old.mu.Lock()
		for part, offset := range old.committed {
			next.committed[part] = offset
		}
		old.mu.Unlock()
		p = s.produce(3)
		d = next.add("d")
		next.until("the new member reads", func() bool { return len(next.seen) > 30 })
		for part := range int32(3) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			for _, zombie := range []*consumer{a, b} {
				check.Error(t, zombie.c.CommitRecords(ctx, &kgo.Record{Topic: "t", Partition: part}), "a member of the deposed broker commits")
			}
			cancel()
		}
		next.until("the new member continues to read", func() bool { return len(next.seen) > 60 })
	})
	a.kill()
	b.kill()
	old.wg.Wait()
	wrote := p.end()
	for at, v := range before { // seen by either consumers
		if old.seen[at] == "" {
			wrote[at] = v
		}
	}
	next.check(wrote, d)
	if len(old.failures) > 0 {
		t.Fatal(old.failures)
	}
}

// TestStaticMembersRestart: a member with an instance ID comes back within its session without a
// rebalance.
func TestStaticMembersRestart(t *testing.T) {
	t.Parallel()
	s := newTestSite(t)
	s.topic(4)
	p := s.produce(4)
	c := newConsumers(s)
	static := func(name string) []kgo.Opt {
		return []kgo.Opt{kgo.InstanceID(name), kgo.SessionTimeout(30 * time.Second)}
	}
	a, b := c.add("a", static("a")...), c.add("b", static("b")...)
	c.until("two share", c.shared(4, 2))
	c.until("the members read", func() bool { return len(c.seen) > 100 })
	view, _ := s.c.Describe("g")
	a.kill()
	again := c.add("a", static("a")...)
	// Its client may join once more at any time, for example when it has learned the partitions of the topic.
	c.until("the member is back", func() bool { return again.began != 0 && c.shared(4, 2)() })
	if now, _ := s.c.Describe("g"); again.began != view.Generation || len(now.Members) != 2 {
		t.Fatalf("began in generation %d: %+v was %+v", again.began, now, view)
	}
	at := len(c.snapshot())
	c.until("the members continue to read", func() bool { return len(c.seen) > at+100 })
	c.check(p.end(), again, b)
}

// TestAdministration: kadm describes groups and sets offsets.
func TestAdministration(t *testing.T) {
	t.Parallel()
	s := newTestSite(t)
	s.topic(2)
	p := s.produce(2)
	c := newConsumers(s)
	m := c.add("a")
	c.until("the member commits", func() bool { return len(c.committed) == 2 && len(c.seen) > 100 })
	client := s.client()
	defer client.Close()
	adm := kadm.NewClient(client)
	ctx := t.Context()
	list, err := adm.ListGroups(ctx)
	if err != nil || list["g"].State != "Stable" || list["g"].ProtocolType != "consumer" || list["g"].Coordinator != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	described, err := adm.DescribeGroups(ctx, "g")
	if err != nil || len(described["g"].Members) != 1 || described["g"].Members[0].ClientID != "a" || described["g"].Members[0].ClientHost != "/127.0.0.1" {
		t.Fatalf("%+v %v", described, err)
	}
	var by kadm.Offsets
	by.AddOffset("t", 0, 1, -1)
	if refused, err := adm.CommitOffsets(ctx, "g", by); err != nil || refused.Error() == nil {
		t.Fatalf("a non-member commits to a group with members: %+v %v", refused, err)
	}
	must.Error(t, check.Err(adm.DeleteGroup(ctx, "g")), "a group with members is deleted")
	c.check(p.end(), m)
	if done, err := adm.CommitOffsets(ctx, "g", by); err != nil || done.Error() != nil {
		t.Fatalf("%+v %v", done, err)
	}
	got, err := adm.FetchOffsets(ctx, "g")
	if o, ok := got.Lookup("t", 0); err != nil || !ok || o.At != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	lags, err := adm.Lag(ctx, "g")
	if lag := lags["g"]; err != nil || lag.Error() != nil || lag.Lag.Total() == 0 {
		t.Fatalf("%+v %v", lags, err)
	}
	must.Get(adm.DeleteGroup(ctx, "g"))(t)
}
