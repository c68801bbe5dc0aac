package torture

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

var roundsFlag = flag.Int("rounds", 1, "revocations of TestRevocation")

const (
	// busyTopic has records all the time, quietTopic none, so that long polls of it wait.
	busyTopic, quietTopic = "busy", "quiet"
	busyPartitions        = 5
	producerFlights       = 5 // of an idempotent producer
	revocationKey         = apiKey + "revocation"
	// revocationMax is the time in which the campaign expects the end of everything that a revoked
	// client has at the leader. A read-only broker polls once a second.
	revocationMax, revocationMaxFollower = time.Second, 2 * time.Second
)

// site is a broker.
type site struct{ name, http, kafka string }

// revocations is a leader and a read-only broker whose clients lose their tokens.
type revocations struct {
	*testing.T
	sites []site // the leader first
	root  *client.Client
	took  map[string][]time.Duration // from the answer to a revocation until an end, by what ended
}

// TestRevocation revokes one token after the other while its clients are busy. All of them end, and no
// record of theirs follows. The clients of another principal notice nothing.
func TestRevocation(t *testing.T) {
	t.Parallel()
	w := &revocations{T: t, took: map[string][]time.Duration{}}
	dir := t.TempDir()
	w.serve(dir, "leader", "--batch-wait-time", "100ms")
	w.serve(dir, "follower", "--read-only")
	var err error
	if w.root, err = client.New(w.sites[0].http, client.Options{APIKey: revocationKey}); err != nil {
		t.Fatal(err)
	}
	for topic, n := range map[string]int{busyTopic: busyPartitions, quietTopic: 1} {
		must.Get(w.root.CreateTopic(t.Context(), topic, client.TopicSpec{Partitions: n}))(t)
	}
	other := w.open("other")
	other.busy()
	for n := range *roundsFlag {
		w.round(fmt.Sprint("round-", n))
	}
	other.busy()
	if ended := other.ended(); len(ended) > 0 {
		t.Errorf("of another client ended: %v", ended)
	}
	acked := other.close()
	w.judge(other.id, acked, false)
	for _, what := range slices.Sorted(maps.Keys(w.took)) {
		times := slices.Sorted(slices.Values(w.took[what]))
		t.Logf("%-28s p50 %4d ms, maximum %4d ms of %d", what, times[len(times)/2].Milliseconds(), times[len(times)-1].Milliseconds(), len(times))
		most := revocationMax
		if strings.HasSuffix(what, "follower") {
			most = revocationMaxFollower
		}
		if *long && times[len(times)-1] > most {
			t.Errorf("%s: more than %s", what, most)
		}
	}
}

// serve starts a broker on the bucket.
func (w *revocations) serve(dir, name string, args ...string) {
	w.Helper()
	data, kafka := filepath.Join(dir, name), make(chan string, 1)
	b, err := testenv.ServeLogged(testenv.Program(w), environment(revocationKey), func(line string) {
		if address, ok := testenv.KafkaAddress(line); ok {
			kafka <- address
		}
	}, append([]string{"--bucket", filepath.Join(dir, "bucket"), "--data-dir", data, "--http-port", "0", "--kafka-listen", "127.0.0.1:0"}, args...)...)
	must.NoError(w, err)
	w.Cleanup(b.Kill)
	address := must.Get(b.Address(data))(w)
	w.sites = append(w.sites, site{name, address, <-kafka})
}

// round revokes a token while its clients are busy.
func (w *revocations) round(id string) {
	w.Helper()
	c := w.open(id)
	c.busy()
	must.NoError(w, w.root.RevokeToken(w.Context(), id))
	at := time.Now()
	for n := range int32(busyPartitions) {
		mark := []record.Record{{Value: []byte("revoked " + id)}}
		must.Get(w.root.Produce(w.Context(), busyTopic, mark, client.ProduceOptions{Partition: &n}))(w)
	}
	for what, end := range c.ends {
		select {
		case end := <-end:
			w.took[what] = append(w.took[what], max(0, end.Sub(at)))
		case <-time.After(time.Minute):
			w.Errorf("%s: %s has not ended", id, what)
		}
	}
	for what, l := range c.links {
		last := time.Time{}
		sebtest.Eventually(w, what+" ends", func() (done bool) { last, done = l.endedBefore(at); return done })
		w.took[what] = append(w.took[what], max(0, last.Sub(at)))
	}
	w.judge(id, c.close(), true)
}

// judge expects that each acknowledged record is stored once. revoked: none follows the mark.
func (w *revocations) judge(id string, acked map[string]bool, revoked bool) {
	w.Helper()
	marks, stored := 0, map[string]int{}
	for n := range int32(busyPartitions) {
		marked := false
		for r, err := range w.root.Records(w.Context(), busyTopic, client.ReadOptions{Partition: n}) {
			must.NoError(w, err)
			switch value := string(r.Value); {
			case value == "revoked "+id:
				marked = true
				marks++
			case strings.HasPrefix(value, id+" "):
				if stored[value]++; marked {
					w.Errorf("%q is stored after the revocation", value)
				}
			}
		}
	}
	for value := range acked {
		if stored[value] != 1 {
			w.Errorf("%q was acknowledged and is stored %d times", value, stored[value])
		}
	}
	if revoked != (marks == busyPartitions) || len(acked) == 0 {
		w.Errorf("%s: %d marks, %d records acknowledged: the test examines too little", id, marks, len(acked))
	}
}

// busyClients are the clients of one principal.
type busyClients struct {
	w        *revocations
	id       string
	key      string
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	ends     map[string]chan time.Time // of HTTP requests
	links    map[string]*links         // of Kafka clients
	received map[string]*atomic.Int64
	flights  atomic.Int64 // produce requests

	mu    sync.Mutex // guards acked
	acked map[string]bool
}

// open creates a token and starts its clients.
func (w *revocations) open(id string) *busyClients {
	w.Helper()
	token := must.Get(w.root.CreateToken(w.Context(), client.TokenSpec{ID: id, Scopes: api.Scopes{Read: []string{"*"}, Write: []string{busyTopic}}}))(w)
	c := &busyClients{
		w: w, id: id, key: token.Secret, ends: map[string]chan time.Time{}, links: map[string]*links{}, received: map[string]*atomic.Int64{},
		acked: map[string]bool{},
	}
	c.ctx, c.cancel = context.WithCancel(w.Context())
	w.Cleanup(func() { c.close() })
	for _, s := range w.sites {
		sebtest.Eventually(w, s.name+" knows "+id, func() bool {
			own, err := client.New(s.http, client.Options{APIKey: c.key, RetryTime: -1})
			if err == nil {
				_, err = own.Token(w.Context(), id)
			}
			return err == nil
		})
		c.read("event stream, "+s.name, s, api.EventStream, "topic-name="+busyTopic+"&offset=0")
		c.read("long poll, "+s.name, s, api.JSON, "topic-name="+quietTopic+"&offset=0&timeout=5m")
		c.consume("Kafka consumer, "+s.name, s)
	}
	c.produce("Kafka producer, leader", w.sites[0])
	return c
}

// close ends all clients and returns the acknowledged records.
func (c *busyClients) close() map[string]bool {
	c.cancel()
	c.work.Wait()
	return c.acked
}

// busy waits until every reader has records and the producer's requests are in flight.
func (c *busyClients) busy() {
	c.w.Helper()
	before := map[string]int64{}
	for what, n := range c.received {
		before[what] = n.Load()
	}
	sebtest.Eventually(c.w, c.id+" is busy", func() bool {
		for what, n := range c.received {
			if n.Load() == before[what] {
				return false
			}
		}
		return c.flights.Load() == producerFlights
	})
}

// ended lists what has ended.
func (c *busyClients) ended() (list []string) {
	for what, end := range c.ends {
		if len(end) > 0 {
			list = append(list, what)
		}
	}
	for what, l := range c.links {
		if l.count() > 0 {
			list = append(list, what)
		}
	}
	return list
}

// mustNotSee reports data that was stored after the revocation.
func (c *busyClients) mustNotSee(what, text string) {
	if strings.Contains(text, "revoked "+c.id) {
		c.w.Errorf("%s of %s: received %q", what, c.id, text)
	}
}

// read reads over HTTP until the answer ends.
func (c *busyClients) read(what string, s site, accept, query string) {
	req := must.Get(http.NewRequestWithContext(c.ctx, http.MethodGet, s.http+"/records?"+query, nil))(c.w)
	req.Header = http.Header{"Authorization": {"Bearer " + c.key}, "Accept": {accept}}
	end := make(chan time.Time, 1)
	c.ends[what] = end
	n := &atomic.Int64{}
	if accept == api.EventStream {
		c.received[what] = n
	}
	c.work.Go(func() {
		defer func() {
			if c.ctx.Err() == nil {
				end <- time.Now()
			}
		}()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			c.mustNotSee(what, lines.Text())
			if strings.HasPrefix(lines.Text(), "data:") {
				n.Add(1)
			}
		}
	})
}

// kafka returns a Kafka client whose connections are watched.
func (c *busyClients) kafka(what string, s site, opts ...kgo.Opt) *kgo.Client {
	c.w.Helper()
	l := &links{}
	c.links[what] = l
	k, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.kafka), kgo.Dialer(l.dial), kgo.SASL(plain.Auth{User: c.id, Pass: c.key}.AsMechanism()))...)
	must.NoError(c.w, err)
	return k
}

func (c *busyClients) consume(what string, s site) {
	c.w.Helper()
	k, n := c.kafka(what, s, kgo.ConsumeTopics(busyTopic), kgo.FetchMaxWait(5*time.Second)), &atomic.Int64{}
	c.received[what] = n
	c.work.Go(func() {
		defer k.Close()
		for c.ctx.Err() == nil {
			k.PollFetches(c.ctx).EachRecord(func(r *kgo.Record) {
				c.mustNotSee(what, string(r.Value))
				n.Add(1)
			})
		}
	})
}

// produceEvery paces the producer. There are several records in the time of a commit, so that the
// requests in flight are as many as are allowed.
const produceEvery = 5 * time.Millisecond

func (c *busyClients) produce(what string, s site) {
	c.w.Helper()
	k := c.kafka(what, s, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(100), kgo.WithHooks(flights{&c.flights}))
	c.work.Go(func() {
		defer k.Close()
		tick := time.NewTicker(produceEvery)
		defer tick.Stop()
		for n := int32(0); ; n++ {
			select {
			case <-c.ctx.Done():
				return
			case <-tick.C:
			}
			value := fmt.Sprint(c.id, " ", n)
			k.TryProduce(c.ctx, &kgo.Record{Topic: busyTopic, Partition: n % busyPartitions, Value: []byte(value)}, func(_ *kgo.Record, err error) {
				if err == nil {
					c.mu.Lock()
					defer c.mu.Unlock()
					c.acked[value] = true
				}
			})
		}
	})
}

// flights counts the produce requests without an answer.
type flights struct{ n *atomic.Int64 }

func (f flights) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key == 0 && e.Err() == nil {
		f.n.Add(-1)
	}
}

func (f flights) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == 0 && err == nil {
		f.n.Add(1)
	}
}

// links are the connections of a Kafka client. A goroutine reads each, so that its end is noticed at
// once, whether or not the client waits for an answer.
type links struct {
	mu  sync.Mutex // guards all
	all []*link
}

type link struct {
	dialed, ended time.Time
	left          bool // the client closed it
}

// dial connects a client through a pipe.
func (l *links) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	out, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	in, theirs := net.Pipe()
	one := &link{dialed: time.Now()}
	l.mu.Lock()
	l.all = append(l.all, one)
	l.mu.Unlock()
	go func() { // ends when either side closes
		_, _ = io.Copy(out, in)
		l.mu.Lock()
		one.left = true
		l.mu.Unlock()
		_ = out.Close()
	}()
	go func() {
		_, _ = io.Copy(in, out)
		l.mu.Lock()
		if !one.left {
			one.ended = time.Now()
		}
		l.mu.Unlock()
		_ = in.Close()
	}()
	return theirs, nil
}

// endedBefore returns when the last of the connections ended that were there at a time, if all have.
func (l *links) endedBefore(at time.Time) (last time.Time, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		switch {
		case one.dialed.After(at), one.left && one.ended.IsZero():
		case one.ended.IsZero():
			return last, false
		case one.ended.After(last):
			last = one.ended
		}
	}
	return last, true
}

// count returns how many connections the broker has closed.
func (l *links) count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if !one.ended.IsZero() {
			n++
		}
	}
	return n
}
