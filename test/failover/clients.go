package failover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/client"
)

// Client is a kind of client, which produces to its topic and reads it.
type Client string

// The clients. SSE only reads, the topic of HTTP.
const (
	HTTP       Client = "http"       // package client
	SSE        Client = "sse"        // server-sent events
	Franz      Client = "franz"      // franz-go
	Librdkafka Client = "librdkafka" // confluent-kafka for Python
	Java       Client = "java"       // Kafka's own
)

var allClients = []Client{HTTP, SSE, Franz, Librdkafka, Java}

// ParseClients reads names with commas between them.
func ParseClients(text string) ([]Client, error) { return parseNames("client", text, allClients) }

// parseNames reads names with commas between them.
func parseNames[T ~string](what, text string, all []T) (list []T, err error) {
	for name := range strings.SplitSeq(text, ",") {
		n := T(strings.TrimSpace(name))
		if !slices.Contains(all, n) {
			return nil, fmt.Errorf("unknown %s %q, want some of %v", what, n, all)
		}
		list = append(list, n)
	}
	return list, nil
}

// topic is the topic of a kind of client.
func (k Client) topic() string {
	if k == SSE {
		k = HTTP
	}
	return "sent-" + string(k)
}

// lives are the contexts of the clients. Producers send until sending ends and wait for outcomes until
// calls ends; consumers read until reading ends.
type lives struct {
	sending, calls, reading         context.Context
	stopSending, endCalls, stopRead context.CancelFunc
}

func newLives(ctx context.Context) *lives {
	l := &lives{}
	l.sending, l.stopSending = context.WithCancel(ctx)
	l.calls, l.endCalls = context.WithCancel(context.WithoutCancel(ctx))
	l.reading, l.stopRead = context.WithCancel(ctx)
	return l
}

// clients starts all clients. finish stops them and, if asked to, checks what they have seen.
func (c *campaign) clients(ctx context.Context) (finish func(check bool) error, err error) {
	l := newLives(ctx)
	for _, kind := range c.o.Clients {
		err = errors.Join(err, c.connect(l, kind))
	}
	var senders, readers sync.WaitGroup
	finish = func(check bool) (err error) {
		l.stopSending()
		if !check {
			l.endCalls()
		}
		senders.Wait()
		l.endCalls()
		if check {
			err = c.check(ctx)
		}
		l.stopRead()
		readers.Wait()
		for _, f := range c.closers {
			f()
		}
		return err
	}
	if err != nil {
		return nil, errors.Join(err, finish(false))
	}
	for _, p := range c.producers {
		senders.Go(func() { p.run(l.sending, l.calls, c.o.Rate) })
	}
	for _, k := range c.consumers {
		readers.Go(func() { k.consume(l.reading) })
	}
	return finish, nil
}

// connect creates the producer and the consumer of a kind of client.
func (c *campaign) connect(l *lives, kind Client) error {
	p := &producer{track: newTrack("produce "+string(kind), c.began), topic: kind.topic()}
	k := &consumer{track: newTrack("consume "+string(kind), c.began), topic: kind.topic()}
	var err error
	switch {
	case kind == HTTP:
		var send, read *client.Client
		if send, err = c.goClient(p.track); err != nil {
			return err
		}
		if read, err = c.goClient(k.track); err != nil {
			return err
		}
		p.send = p.sendHTTP(send)
		k.consume = func(ctx context.Context) { k.consumeHTTP(ctx, read) }
	case kind == SSE:
		p = nil
		k.consume = func(ctx context.Context) { k.consumeSSE(ctx, c.urls()) }
	case kind == Franz:
		var send, read *kgo.Client
		if send, err = c.franz(p.track); err != nil {
			return err
		}
		start := map[string]map[int32]kgo.Offset{k.topic: {0: kgo.NewOffset().AtStart()}}
		if read, err = c.franz(k.track, kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.ConsumePartitions(start)); err != nil {
			return err
		}
		p.sequential, p.send = true, p.sendKafka(send)
		k.consume = func(ctx context.Context) { k.consumeKafka(ctx, read) }
	default:
		if err = c.programs(l, kind, p, k); err != nil {
			return err
		}
	}
	if p != nil {
		c.producers = append(c.producers, p)
	}
	c.consumers = append(c.consumers, k)
	return nil
}

func (c *campaign) urls() (list []string) {
	for _, s := range c.fleet.slots {
		list = append(list, s.url())
	}
	return list
}

// seeds are the bootstrap servers of Kafka clients.
func (c *campaign) seeds() (list []string) {
	for _, s := range c.fleet.slots {
		list = append(list, s.kafka)
	}
	return list
}

func (c *campaign) goClient(t *track) (*client.Client, error) {
	a := newAttempts(t.failed)
	api, err := client.New(strings.Join(c.urls(), ","), client.Options{APIKey: apiKey, HTTPClient: &http.Client{Transport: a}})
	if err == nil {
		c.closers = append(c.closers, api.Close, a.next.CloseIdleConnections)
	}
	return api, err
}

func (c *campaign) franz(t *track, opts ...kgo.Opt) (*kgo.Client, error) {
	api, err := newFranz(c.seeds(), c.o, t, opts...)
	if err == nil {
		c.closers = append(c.closers, api.Close)
	}
	return api, err
}

// programs creates the producer and the consumer of a client that is a program. Its settings are those
// of docs/guide/cluster.md.
func (c *campaign) programs(l *lives, kind Client, p *producer, k *consumer) error {
	command, env, settings, err := c.command(l.calls, kind)
	if err != nil {
		return err
	}
	args := func(mode, topic string, more ...string) []string {
		common := []string{
			"bootstrap.servers=" + strings.Join(c.seeds(), ","), "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN",
			"reconnect.backoff.max.ms=1000",
		}
		return slices.Concat(c.o.Prefix, command, []string{mode, topic}, common, settings, more)
	}
	p.sequential = true
	if err := c.producing(l.calls, p, env, args("produce", p.topic, "enable.idempotence=true", "linger.ms=0")); err != nil {
		return err
	}
	reading := args("consume", k.topic, "enable.auto.commit=false")
	k.consume = func(ctx context.Context) { k.consumeProcess(ctx, env, reading) }
	return nil
}

// closeTime bounds the end of a program.
const closeTime = 5 * time.Second
