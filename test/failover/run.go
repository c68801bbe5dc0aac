package failover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/testenv"
)

const probeTopic = "probe"

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
	// With namespaces: what happened, at which time of the day, and the time from its end until all
	// brokers saw each other.
	What  string        `json:"what,omitempty"`
	Began time.Time     `json:"began,omitzero"`
	Whole time.Duration `json:"whole_ns,omitempty"`
	// Minutes counts the requests to S3 in each minute of Options.Hold.
	Minutes []int `json:"requests_by_minute,omitempty"`
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
	// Violations are needless takeovers, and brokers that did not see each other soon after a fault.
	// Seed and time of the day find them in the logs.
	Violations []string `json:"violations,omitempty"`

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
	closers   []func()   // of the clients
	rng       *rand.Rand // of the faults

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
	c := &campaign{o: &o, began: time.Now(), rng: rand.New(rand.NewPCG(o.Seed, 1))}
	var err error
	if c.fleet, err = newFleet(ctx, &o, c.problem); err != nil {
		return nil, err
	}
	err = c.prepare(ctx)
	if err == nil {
		err = c.load(ctx)
	}
	err = errors.Join(err, c.fleet.close())
	c.result.tracks = c.tracks()
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
	topics := []string{probeTopic}
	for _, kind := range c.o.Clients {
		topics = append(topics, kind.topic())
	}
	for _, topic := range topics {
		if _, err := first.status.CreateTopic(ctx, topic, client.TopicSpec{}); err != nil && !errors.Is(err, client.ErrTopicExists) {
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
	if f.net == nil {
		return nil
	}
	return (&injection{c: c, round: &Round{What: "start"}}).whole(ctx)
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
	if c.o.Idle {
		return c.rounds(ctx)
	}
	finish, err := c.clients(ctx)
	if err != nil {
		return err
	}
	err = c.rounds(ctx)
	if ctx.Err() == nil { // a fault from which clients or brokers do not recover may still have lost records
		c.o.Progress("checking the history")
	}
	return errors.Join(err, finish(ctx.Err() == nil))
}

// check reads the log and compares it with what the clients know.
func (c *campaign) check(ctx context.Context) error {
	leader, _, err := c.fleet.awaitLeader(ctx, 1)
	if err != nil {
		return err
	}
	for _, p := range c.producers {
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
		for _, text := range judge(p.topic, p.sequential, records, log) {
			c.problem("%s", text)
		}
		for _, k := range c.consumers {
			if k.topic == p.topic {
				c.compare(ctx, k, log)
			}
		}
	}
	return nil
}

// compare waits until a consumer has read a log, and compares what it has read.
func (c *campaign) compare(ctx context.Context, k *consumer, log []int) {
	err := await(ctx, k.name+" has read all records", func() (bool, error) { return len(k.read()) >= len(log), nil })
	if err != nil {
		c.problem("%v", err)
	}
	_, resets := k.counts()
	for _, text := range compare(k.name, resets, k.read(), log) {
		c.problem("%s", text)
	}
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
	if f.proxy != nil {
		return f.proxy.Counts()
	}
	all := testenv.S3Counts{}
	for _, s := range f.slots {
		if s.proxy != nil {
			for k, n := range s.proxy.Counts() {
				all[k] += n
			}
		}
	}
	return all
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
