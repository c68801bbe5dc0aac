package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

// load is the load on a broker: producers, consumers, trims, and topics that are created and
// deleted. Its clients use one address for all brokers.
type load struct {
	topics []*ledger
	safe   *client.Client // idempotent, retries across restarts
	plain  *client.Client // reports every unknown outcome
	reader *client.Client

	stop    atomic.Bool
	writers sync.WaitGroup
	others  sync.WaitGroup
	failed  chan error // an error that no kill explains; capacity 1

	requests, records, unknowns         atomic.Int64
	consumed, history, trims, recreated atomic.Int64
	resumed                             atomic.Int64 // sessions of consumers
}

func newLoad(address string, topics []*ledger) (*load, error) {
	l := &load{topics: topics, failed: make(chan error, 1)}
	for _, c := range []struct {
		to **client.Client
		o  client.Options
	}{
		{&l.safe, client.Options{RetryTime: 2 * time.Minute}},
		{&l.plain, client.Options{RetryTime: -1, NotIdempotent: true}},
		{&l.reader, client.Options{RetryTime: 2 * time.Minute}},
	} {
		c.o.APIKey = apiKey
		var err error
		if *c.to, err = client.New(address, c.o); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *load) fail(err error) {
	select {
	case l.failed <- err:
	default:
	}
}

// every writes batches to its topics in turn until the load stops.
func (l *load) every(topics []*ledger, c *client.Client, most int, pause time.Duration) {
	rng := rand.New(rand.NewPCG(uint64(len(topics)), uint64(most)))
	l.writers.Go(func() {
		for n := 0; !l.stop.Load(); n++ {
			if err := l.send(topics[n%len(topics)], c, 1+rng.IntN(most)); err != nil {
				l.fail(err)
				return
			}
			l.rest(pause)
		}
	})
}

// rest paces a writer.
func (l *load) rest(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// records returns the next records of a topic.
func records(p *ledger, count int) []record.Record {
	list := make([]record.Record, count)
	for i := range list {
		list[i] = id{p.name, p.life, p.next + i}.record(p.keyed)
	}
	return list
}

const rejectedPause = 20 * time.Millisecond

// send writes the next records of a topic. Rejected records are sent again with the same ids; they
// are found twice if they were stored.
func (l *load) send(p *ledger, c *client.Client, count int) error {
	records := records(p, count)
	partition := int32(0)
	for {
		sent := time.Now()
		placed, err := c.Produce(context.Background(), p.name, records, client.ProduceOptions{Partition: &partition})
		l.requests.Add(1)
		switch {
		case err == nil:
			if len(placed) != 1 || placed[0].Count != int64(count) {
				return fmt.Errorf("produce to %s: answer %v to %d records", p.name, placed, count)
			}
			l.records.Add(int64(count))
			p.note(acked{placed[0].First, p.next, count, sent})
			p.next += count
			return nil
		case errors.Is(err, client.ErrOutcomeUnknown):
			l.unknowns.Add(1)
			p.noteUnknown(p.next, count)
			p.next += count
			return nil
		case !errors.Is(err, client.ErrRejected) || isRefusal(err):
			return fmt.Errorf("produce to %s: %w", p.name, err)
		}
		l.rest(rejectedPause)
	}
}

// isRefusal reports whether retrying a rejected request cannot help.
func isRefusal(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Status/100 == 4 && e.Status != 429
}

// renew deletes and recreates each topic after a few batches.
func (l *load) renew(topics []*ledger, pause time.Duration) {
	l.writers.Go(func() {
		for n := 0; !l.stop.Load(); n++ {
			p := topics[n%len(topics)]
			if err := l.renewOnce(p); err != nil {
				l.fail(fmt.Errorf("renew %s: %w", p.name, err))
				return
			}
			l.rest(pause)
		}
	})
}

func (l *load) renewOnce(p *ledger) error {
	for range 3 {
		if err := l.send(p, l.plain, 3); err != nil {
			return err
		}
	}
	for again := true; again; { // a deletion of unknown outcome is repeated
		err := l.safe.DeleteTopic(context.Background(), p.name)
		again = err != nil && !errors.Is(err, client.ErrUnknownTopic)
		if isRefusal(err) && again {
			return err
		}
	}
	p.again()
	l.recreated.Add(1)
	return l.create(p)
}

// create creates a topic. It retries after an unknown outcome or while no broker is available.
func (l *load) create(p *ledger) error {
	for {
		_, err := l.safe.PutTopic(context.Background(), p.name, client.TopicSpec{Settings: p.settings})
		if err == nil || isRefusal(err) {
			return err
		}
		l.rest(rejectedPause)
	}
}

// trim trims topics, each in the middle of its records.
func (l *load) trim(topics []*ledger, pause time.Duration) {
	l.others.Go(func() {
		for n := 0; !l.stop.Load(); n++ {
			l.rest(pause)
			p := topics[n%len(topics)]
			p.mu.Lock()
			to := (p.trimmed + p.end()) / 2
			p.trimmed = to
			p.mu.Unlock()
			if _, err := l.safe.Trim(context.Background(), p.name, 0, to); err != nil {
				l.fail(fmt.Errorf("trim %s to %d: %w", p.name, to, err))
				return
			}
			l.trims.Add(1)
		}
	})
}
