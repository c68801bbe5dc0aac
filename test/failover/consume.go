package failover

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/client"
)

// fetchWait is how long a fetch waits for a record.
const fetchWait = 500 * time.Millisecond

// consumer follows a topic of one partition from its start.
type consumer struct {
	*track
	topic string
	// consume reads until ctx ends.
	consume func(ctx context.Context)

	mu      sync.Mutex // guards numbers
	numbers []int      // of the records, by offset; unread: noNumber
	next    int64      // of the client's own goroutine
}

const noNumber = -1

// got notes a record that was read at a time.
func (c *consumer) got(offset int64, value []byte, at time.Duration) {
	n, due, err := parse(value)
	if err != nil {
		c.failed(err.Error())
		n = noNumber
	}
	if offset != c.next {
		c.reset()
	}
	c.next = offset + 1
	c.mu.Lock()
	for int64(len(c.numbers)) <= offset {
		c.numbers = append(c.numbers, noNumber)
	}
	c.numbers[offset] = n
	c.mu.Unlock()
	c.add(due, at)
}

// read returns the numbers by offset.
func (c *consumer) read() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int(nil), c.numbers...)
}

// consumeHTTP reads with long polls of the Go client until ctx ends.
func (c *consumer) consumeHTTP(ctx context.Context, api *client.Client) {
	for ctx.Err() == nil {
		f, err := api.Fetch(ctx, c.topic, client.FetchOptions{Offset: c.next, Wait: fetchWait})
		if err == nil {
			for r, fault := range f.All() {
				if err = fault; err == nil {
					c.got(r.Offset, r.Value, c.now())
				}
			}
			err = errors.Join(err, f.Close())
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if errors.Is(err, client.ErrBelowStart) || errors.Is(err, client.ErrBeyondEnd) {
			c.reset()
		}
		c.failed("call: " + kindOf(err))
		sleep(ctx, poll)
	}
}

// consumeKafka reads with franz-go until ctx ends.
func (c *consumer) consumeKafka(ctx context.Context, api *kgo.Client) {
	for ctx.Err() == nil {
		f := api.PollFetches(ctx)
		f.EachError(func(_ string, _ int32, err error) {
			if ctx.Err() != nil {
				return
			}
			if _, lost := errors.AsType[*kgo.ErrDataLoss](err); lost || errors.Is(err, kerr.OffsetOutOfRange) {
				c.reset()
			}
			c.failed("poll: " + kindOf(err))
		})
		f.EachRecord(func(r *kgo.Record) { c.got(r.Offset, r.Value, c.now()) })
	}
}

// newFranz returns a client of franz-go whose requests end after about Options.KafkaTimeout.
func newFranz(seeds []string, o *Options, t *track, opts ...kgo.Opt) (*kgo.Client, error) {
	ack := o.KafkaTimeout / 3
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.SASL(plain.Auth{User: "failover", Pass: apiKey}.AsMechanism()), kgo.WithLogger(warnings{t}),
		kgo.DialTimeout(o.KafkaTimeout), kgo.FetchMaxWait(fetchWait), kgo.ProduceRequestTimeout(ack), kgo.RequestTimeoutOverhead(o.KafkaTimeout - ack),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(recoverMax),
		kgo.MetadataMinAge(o.MetadataAge),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(time.Second, time.Duration(n)*100*time.Millisecond) }),
	}, opts...)...)
}

// warnings counts what franz-go logs as a warning, because the client repeats requests by itself.
type warnings struct{ t *track }

// Level implements kgo.Logger.
func (warnings) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (w warnings) Log(_ kgo.LogLevel, message string, values ...any) {
	for i := 0; i+1 < len(values); i += 2 {
		if err, ok := values[i+1].(error); ok {
			message += ": " + kindOf(err)
		}
	}
	w.t.failed("log: " + message)
}
