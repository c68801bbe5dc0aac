// Package drivers measures brokers: each driver implements the interfaces of package sut with the
// usual Go client of a broker. Importing the package registers all drivers.
package drivers

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/sebbroker/seb/bench/sut"
)

func init() {
	for _, d := range []sut.Driver{
		{
			Name: "kafka", Open: openKafka,
			Doc: "Kafka's protocol, 127.0.0.1:9092 or several separated by commas. Options: linger=0s, idempotent=true, batch-bytes=1000012, " +
				"fetch-wait=5s, flush-messages=(the broker's; 1 flushes each), durability=(as the flush settings say), key-file (Seb's API key; logs in by SCRAM)",
		},
		{
			Name: "nats", Open: openNATS,
			Doc: "NATS core, nats://127.0.0.1:4222. Options: ack=none|pong (none: done when the client has buffered the message; pong: when the " +
				"server has answered a PING sent after it)",
		},
		{
			Name: "nats-jetstream", Open: openJetStream,
			Doc: "NATS JetStream, nats://127.0.0.1:4222. Options: storage=file|memory, keep-bytes=4294967296 (a stream is cut to that), " +
				"monitor (http address of the server's monitoring, which tells when it flushes), durability (where it does not)",
		},
		{
			Name: "noop", Open: openNoop, Inside: true,
			Doc: "nothing: messages go from publisher to subscribers in the process. Options: queue=1024 (messages that wait for a subscriber)",
		},
		{
			Name: "noop-tcp", Open: openRelay, Inside: true,
			Doc: "nothing over sockets: a goroutine of the process takes messages over loopback and hands them on. No options",
		},
		{
			Name: "rabbitmq-classic", Open: openClassic,
			Doc: "RabbitMQ, transient messages in classic queues, amqp://guest:guest@127.0.0.1:5672/. Options: consume=auto|manual " +
				"(acknowledgement of what is received), prefetch=1000 (with manual)",
		},
		{
			Name: "rabbitmq-quorum", Open: openQuorum,
			Doc: "RabbitMQ, persistent messages in quorum queues, amqp://guest:guest@127.0.0.1:5672/. Options: consume=manual|auto, prefetch=1000",
		},
		{
			Name: "redis-pubsub", Open: openRedisPubSub,
			Doc: "Redis publish and subscribe, 127.0.0.1:6379. Subscribers cannot share. Options: " + redisPipelineDoc,
		},
		{
			Name: "redis-streams", Open: openRedisStreams,
			Doc: "Redis streams, 127.0.0.1:6379. Options: " + redisPipelineDoc + ", keep-bytes=536870912 (a stream is cut to about that)",
		},
		{
			Name: "seb", Open: openSeb,
			Doc: "Seb over HTTP; address, API key and bucket default to those that the local broker announces in data-dir (seb-data), then to " +
				"http://127.0.0.1:51313; the API key is $SEB_API_KEY or in key-file. Options: inflight=1 (requests of a " +
				"publisher; more than 5 are not in order), pace=0s (between two of its requests), batch-bytes=4194304, follow=poll|sse, bucket (mem:, a folder or s3:, " +
				"if the process does not show it), read-from=(the address; that of a broker which follows the same bucket), key-file, data-dir",
		},
		{
			Name: "seb-embedded", Open: openSebEmbedded, Inside: true,
			Doc: "Seb inside this process; the address is the bucket: mem:, a folder or s3://…. Options: inflight=1, pace=0s, " +
				"batch-bytes=4194304, batch-wait=(Seb's), memory-limit=(Seb's, bytes), data-dir",
		},
	} {
		sut.Register(d)
	}
}

// errClosed is the error of messages sent after Close.
var errClosed = errors.New("the publisher is closed")

// pending are the messages of a publisher without an acknowledgement. K identifies a message in the
// client. One goroutine calls add and finish.
type pending[K comparable] struct {
	open sync.WaitGroup // messages that are not done

	mu    sync.Mutex // guards the fields below
	waits map[K]func(error)
	ended error // nil: accepts messages
}

// add adds a message. After the end it calls done with an error instead, and returns false.
func (p *pending[K]) add(key K, done func(error)) bool {
	p.mu.Lock()
	err := p.ended
	if err == nil {
		if p.waits == nil {
			p.waits = map[K]func(error){}
		}
		p.waits[key] = done
		p.open.Add(1)
	}
	p.mu.Unlock()
	if err != nil {
		done(err)
	}
	return err == nil
}

// settle reports the outcome of a message, once.
func (p *pending[K]) settle(key K, err error) {
	p.mu.Lock()
	done := p.waits[key]
	delete(p.waits, key)
	p.mu.Unlock()
	if done != nil {
		done(err)
		p.open.Done()
	}
}

// fail ends the publisher: no further message is acknowledged.
func (p *pending[K]) fail(err error) {
	p.mu.Lock()
	if p.ended == nil {
		p.ended = err
	}
	keys := slices.Collect(maps.Keys(p.waits))
	p.mu.Unlock()
	for _, key := range keys {
		p.settle(key, err)
	}
}

// finish waits until all messages are done. When ctx ends, the remaining ones fail.
func (p *pending[K]) finish(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { p.fail(context.Cause(ctx)) })
	p.open.Wait()
	if !stop() {
		return context.Cause(ctx)
	}
	p.fail(errClosed)
	return nil
}

// opened are the connections that a system has opened, for its teardown.
type opened struct {
	mu     sync.Mutex // guards closes
	closes []func() error
}

func (o *opened) add(c func() error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closes = append(o.closes, c)
}

// closeAll closes all connections; most are closed already.
func (o *opened) closeAll() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, c := range o.closes {
		errs = append(errs, c())
	}
	o.closes = nil
	return errors.Join(errs...)
}

// receive calls next until ctx ends (nil) or next fails.
func receive(ctx context.Context, next func() error) error {
	for {
		err := next()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// noError makes a function that closes a connection one for opened.
func noError(c func()) func() error {
	return func() error { c(); return nil }
}

// partitionOf returns the partition of a message: that of the key's hash, or a publisher's own one
// for messages without a key. So the order of a publisher, or of a key, is kept.
func partitionOf(key []byte, own, partitions int) int {
	if key == nil {
		return own
	}
	h := fnv.New32a()
	_, _ = h.Write(key) // cannot fail
	return int(h.Sum32() % uint32(partitions))
}

// linkedVersion returns a module's path and version, or its path alone if the binary has no version
// (test binaries, for example).
func linkedVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return path
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path {
			return path + " " + m.Version
		}
	}
	return path
}
