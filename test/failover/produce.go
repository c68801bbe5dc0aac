package failover

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

// sent is one record of a producer. Its index is its number.
type sent struct {
	due, began time.Duration
	acked      time.Duration // 0: not acknowledged
	offset     int64         // valid if acked
	rejected   bool          // certainly not stored
}

// producer sends numbered records on a schedule that does not wait for answers.
type producer struct {
	*track
	topic      string
	sequential bool // its records are stored in their order
	// send sends a record, and returns before its outcome.
	send func(ctx context.Context, n int, value []byte)

	mu      sync.Mutex // guards records
	records []sent
	open    sync.WaitGroup // of records without an outcome
}

// value makes the value of a record: its number and when it was due, padded to 100 bytes.
func value(n int, due time.Duration) []byte {
	return fmt.Appendf(nil, "%-100s", fmt.Sprintf("%d %d", n, due))
}

// parse reads a value.
func parse(value []byte) (n int, due time.Duration, err error) {
	fields := strings.Fields(string(value))
	if len(fields) != 2 {
		return 0, 0, fmt.Errorf("value %q of another producer", value)
	}
	n, err = strconv.Atoi(fields[0])
	ns, err2 := strconv.ParseInt(fields[1], 10, 64)
	return n, time.Duration(ns), errors.Join(err, err2)
}

// run sends records until ctx ends, and then waits for the outcomes, until calls ends.
func (p *producer) run(ctx, calls context.Context, rate int) {
	defer p.open.Wait()
	first := p.now()
	for n := 0; ; n++ {
		due := first + time.Duration(n)*time.Second/time.Duration(rate)
		if !sleep(ctx, due-p.now()) {
			return
		}
		p.mu.Lock()
		p.records = append(p.records, sent{due: due, began: p.now()})
		p.mu.Unlock()
		p.open.Add(1)
		p.send(calls, n, value(n, due))
	}
}

// acknowledged stores the outcome of a record.
func (p *producer) acknowledged(n int, offset int64, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.records[n]
	s.acked, s.offset = at, offset
	p.add(s.due, at)
}

// history returns the records after run has returned.
func (p *producer) history() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.records
}

// sendHTTP sends each record with a call of the Go client, so that each has an idempotent producer for
// itself while it is in flight.
func (p *producer) sendHTTP(api *client.Client) func(context.Context, int, []byte) {
	return func(ctx context.Context, n int, value []byte) {
		go func() {
			defer p.open.Done()
			ctx, cancel := context.WithTimeout(ctx, recoverMax)
			defer cancel()
			p.produce(ctx, api, n, value)
		}()
	}
}

// produce repeats a call that was rejected.
func (p *producer) produce(ctx context.Context, api *client.Client, n int, value []byte) {
	for {
		list, err := api.Produce(ctx, p.topic, []record.Record{{Value: value}}, client.ProduceOptions{Partition: new(int32)})
		if err == nil {
			p.acknowledged(n, list[0].First, p.now())
			return
		}
		p.failed("call: " + kindOf(err))
		rejected := errors.Is(err, client.ErrRejected)
		if !rejected || !sleep(ctx, poll) {
			p.mu.Lock()
			p.records[n].rejected = rejected
			p.mu.Unlock()
			return
		}
	}
}

// sendKafka sends with one idempotent producer of franz-go.
func (p *producer) sendKafka(api *kgo.Client) func(context.Context, int, []byte) {
	return func(ctx context.Context, n int, value []byte) {
		api.Produce(ctx, &kgo.Record{Topic: p.topic, Value: value}, func(r *kgo.Record, err error) {
			defer p.open.Done()
			if err != nil {
				p.failed("record: " + kindOf(err))
				return
			}
			p.acknowledged(n, r.Offset, p.now())
		})
	}
}
