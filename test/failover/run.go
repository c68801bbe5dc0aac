package failover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/testenv"
)

// Clients are the names of the clients, in the order of the tables.
var Clients = []string{httpProduce, kafkaProduce, httpConsume, kafkaConsume}

const (
	httpProduce  = "produce HTTP"
	kafkaProduce = "produce Kafka"
	httpConsume  = "consume HTTP"
	kafkaConsume = "consume Kafka"

	httpTopic  = "sent-http"
	kafkaTopic = "sent-kafka"
	probeTopic = "probe"
)

// Seen is what one client has seen in one round.
type Seen struct {
	Client string        `json:"client"`
	Gap    time.Duration `json:"gap_ns"`  // longest time between two acknowledgements or records
	Late   time.Duration `json:"late_ns"` // longest time from when a record was due to its event
	Pauses int           `json:"pauses"`  // gaps of at least 500 ms
	Resets int           `json:"resets"`
	// Errors counts what the client saw, by kind, including attempts that it repeated.
	Errors map[string]int `json:"errors,omitempty"`
}

// Round is one fault and its effects.
type Round struct {
	Fault  Fault         `json:"fault"`
	Number int           `json:"number"`
	From   time.Duration `json:"from_ns"` // of the fault, since the start of the campaign
	To     time.Duration `json:"to_ns"`
	// Led is the time from the fault to the first poll that found a leader of a higher epoch; 0:
	// there was none.
	Led       time.Duration `json:"led_ns"`
	Takeovers int           `json:"takeovers"` // epochs that began
	Needless  int           `json:"needless"`  // takeovers that the fault does not explain
	// Requests to S3 between the fault and the first record that each producer sent to the new
	// leader, by kind, such as "GET wal".
	Requests map[string]int `json:"requests,omitempty"`
	Seen     []Seen         `json:"seen"`
}

// Result is what a campaign has measured.
type Result struct {
	Standbys bool     `json:"standbys"` // a second broker was a standby
	Rounds   []Round  `json:"rounds"`
	Records  int      `json:"records"` // in the log at the end
	Unknown  int      `json:"unknown"` // records whose producer never learned the outcome
	Problems []string `json:"problems,omitempty"`

	tracks []*track // for the picture
}

// campaign is one execution of Run. Its methods are for one goroutine, except problem.
type campaign struct {
	o      *Options
	fleet  *fleet
	began  time.Time
	result Result

	producers []*producer
	consumers []*consumer

	mu sync.Mutex // guards result.Problems
}

func (c *campaign) problem(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Problems = append(c.result.Problems, fmt.Sprintf(format, args...))
}

// Run executes a campaign. A wrong history or an unexpected end of a broker is a problem in the
// result. An error ends the campaign: the brokers or their clients have not recovered.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	c := &campaign{o: &o, began: time.Now()}
	var err error
	if c.fleet, err = newFleet(ctx, &o, c.problem); err != nil {
		return nil, err
	}
	err = c.prepare(ctx)
	if err == nil {
		err = c.load(ctx)
	}
	err = errors.Join(err, c.fleet.close())
	for _, p := range c.producers {
		c.result.tracks = append(c.result.tracks, p.track)
	}
	for _, k := range c.consumers {
		c.result.tracks = append(c.result.tracks, k.track)
	}
	return &c.result, err
}

// prepare starts the brokers and finds out what a second broker does to the first.
func (c *campaign) prepare(ctx context.Context) error {
	f := c.fleet
	c.o.Progress("starting the brokers")
	first := f.slots[0]
	if err := f.startReady(ctx, first); err != nil {
		return err
	}
	for _, topic := range []string{httpTopic, kafkaTopic, probeTopic} {
		if _, err := first.status.CreateTopic(ctx, topic, client.TopicSpec{}); err != nil {
			return err
		}
	}
	if err := f.startReady(ctx, f.slots[1]); err != nil {
		return err
	}
	if err := c.probe(ctx, first); err != nil || !f.standbys {
		return err
	}
	for _, s := range f.slots[2:c.o.Brokers] {
		if err := f.startReady(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// probe sends a record to the first broker. If the second one has deposed it, it ends, or follows.
func (c *campaign) probe(ctx context.Context, first *slot) error {
	call, cancel := context.WithTimeout(ctx, recoverMax)
	defer cancel()
	_, fault := first.status.ProduceValues(call, probeTopic, [][]byte{[]byte("x")}, client.ProduceOptions{})
	err := await(ctx, "the first broker leads, follows or ends", func() (bool, error) {
		select {
		case <-first.broker.Done():
			return true, c.fleet.ended(ctx, first)
		default:
		}
		ask, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		status, err := first.status.Status(ask)
		c.fleet.standbys = err == nil && (fault == nil || status.Role == "follower")
		return c.fleet.standbys, nil
	})
	if err != nil {
		return fmt.Errorf("a record to the first broker after the start of the second: %w; %w", fault, err)
	}
	c.result.Standbys = c.fleet.standbys
	return nil
}

// load runs the rounds while clients work, and checks the history.
func (c *campaign) load(ctx context.Context) error {
	finish, err := c.clients(ctx)
	if err != nil {
		return err
	}
	err = c.rounds(ctx)
	if err == nil {
		c.o.Progress("checking the history")
	}
	return errors.Join(err, finish(err == nil))
}

// clients starts all clients. finish stops them and, if asked to, checks what they have seen.
func (c *campaign) clients(ctx context.Context) (finish func(check bool) error, err error) {
	var closers []func()
	var urls, seeds []string
	for _, s := range c.fleet.slots {
		urls, seeds = append(urls, s.url()), append(seeds, s.kafka)
	}
	goClient := func(t *track) *client.Client {
		a := newAttempts(t.failed)
		api, fault := client.New(strings.Join(urls, ","), client.Options{APIKey: apiKey, HTTPClient: &http.Client{Transport: a}})
		if err = errors.Join(err, fault); fault == nil {
			closers = append(closers, api.Close, a.next.CloseIdleConnections)
		}
		return api
	}
	franz := func(t *track, opts ...kgo.Opt) *kgo.Client {
		api, fault := newFranz(seeds, c.o, t, opts...)
		if err = errors.Join(err, fault); fault == nil {
			closers = append(closers, api.Close)
		}
		return api
	}
	var kinds []*track
	for _, name := range Clients {
		kinds = append(kinds, newTrack(name, c.began))
	}
	c.producers = []*producer{httpProducer(kinds[0], httpTopic, goClient(kinds[0])), kafkaProducer(kinds[1], kafkaTopic, franz(kinds[1]))}
	c.consumers = []*consumer{{track: kinds[2], topic: httpTopic}, {track: kinds[3], topic: kafkaTopic}}
	readHTTP := goClient(kinds[2])
	readKafka := franz(kinds[3], kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{kafkaTopic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	sending, stopSending := context.WithCancel(ctx)
	calls, endCalls := context.WithCancel(context.WithoutCancel(ctx))
	reading, stopReading := context.WithCancel(ctx)
	var senders, readers sync.WaitGroup
	for _, p := range c.producers {
		senders.Go(func() { p.run(sending, calls, c.o.Rate) })
	}
	readers.Go(func() { c.consumers[0].consumeHTTP(reading, readHTTP) })
	readers.Go(func() { c.consumers[1].consumeKafka(reading, readKafka) })
	return func(check bool) (err error) {
		stopSending()
		if !check {
			endCalls()
		}
		senders.Wait()
		endCalls()
		if check {
			err = c.check(ctx)
		}
		stopReading()
		readers.Wait()
		for _, f := range closers {
			f()
		}
		return err
	}, nil
}

// check reads the log and compares it with what the clients know.
func (c *campaign) check(ctx context.Context) error {
	leader, _, err := c.fleet.awaitLeader(ctx, 1)
	if err != nil {
		return err
	}
	for i, p := range c.producers {
		log, err := readLog(ctx, leader.status, p.topic)
		if err != nil {
			return fmt.Errorf("read %s at the end: %w", p.topic, err)
		}
		c.result.Records += len(log)
		records := p.history()
		for _, r := range records {
			if r.acked == 0 && !r.rejected {
				c.result.Unknown++
			}
		}
		for _, text := range judge(p.topic, p.name == kafkaProduce, records, log) {
			c.problem("%s", text)
		}
		k := c.consumers[i]
		err = await(ctx, k.name+" has read all records", func() (bool, error) { return len(k.read()) >= len(log), nil })
		if err != nil {
			c.problem("%v", err)
		}
		_, resets := k.counts()
		for _, text := range compare(k.name, resets, k.read(), log) {
			c.problem("%s", text)
		}
	}
	return nil
}

// readLog returns the numbers of all records of a topic.
func readLog(ctx context.Context, api *client.Client, topic string) (log []int, err error) {
	for {
		f, err := api.Fetch(ctx, topic, client.FetchOptions{Offset: int64(len(log))})
		if err != nil {
			return nil, err
		}
		before := len(log)
		for r, err := range f.All() {
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			n, _, err := parse(r.Value)
			if err != nil {
				n = noNumber
			}
			if int(r.Offset) != len(log) {
				return nil, errors.Join(fmt.Errorf("offset %d follows %d", r.Offset, len(log)-1), f.Close())
			}
			log = append(log, n)
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if len(log) == before {
			return log, nil
		}
	}
}

// requests returns the requests to S3 so far, by kind.
func (f *fleet) requests() testenv.S3Counts {
	if f.proxy == nil {
		return nil
	}
	return f.proxy.Counts()
}

// named returns counts with names as keys, for JSON.
func named(c testenv.S3Counts) map[string]int {
	m := map[string]int{}
	for k, n := range c {
		m[k.Method+" "+k.Object] = n
	}
	return m
}

// subtract returns the difference of two counts by kind.
func subtract(now, before map[string]int) map[string]int {
	d := map[string]int{}
	for _, k := range slices.Collect(maps.Keys(now)) {
		if n := now[k] - before[k]; n != 0 {
			d[k] = n
		}
	}
	return d
}
