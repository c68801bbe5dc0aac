package drivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sebbroker/seb/bench/sut"
)

const redisPipelineDoc = "pipeline=1000 (messages of a publisher per round trip; others wait for the next)"

// redisSilence discards the client's log, because errors are returned as well.
type redisSilence struct{}

// Printf implements the client's logger.
func (redisSilence) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(redisSilence{}) }

const (
	redisAddress       = "127.0.0.1:6379"
	redisPipeline      = 1000
	redisPipelineMax   = 1 << 20
	redisPipelineBytes = 8 << 20
	redisQueueBytes    = 64 << 20
	redisBufferBytes   = 64 << 10
)

// redisBase is common to both drivers.
type redisBase struct {
	c        sut.Config
	pipeline int
	main     *redis.Client
	opened
}

func newRedisBase(r *options, c sut.Config) redisBase {
	c.Address = cmp.Or(c.Address, redisAddress)
	return redisBase{c: c, pipeline: r.Int("pipeline", redisPipeline, 1, redisPipelineMax)}
}

// client makes a client with one connection and without retries.
func (s *redisBase) client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: s.c.Address, MaxRetries: -1, PoolSize: 1, DialerRetries: 1, ReadTimeout: -1, WriteTimeout: -1, ContextTimeoutEnabled: true,
		DisableIdentity: true, ReadBufferSize: redisBufferBytes, WriteBufferSize: redisBufferBytes,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.add(func() error { _ = c.Close(); return nil }) // it fails if it is closed already
	return c
}

// connect makes a client and tests it.
func (s *redisBase) connect(ctx context.Context) (*redis.Client, error) {
	c := s.client()
	return c, c.Ping(ctx).Err()
}

// describe reads the relevant settings, the version and the process.
func (s *redisBase) describe(ctx context.Context, info *sut.Info) error {
	info.Client, info.PID = linkedVersion("github.com/redis/go-redis/v9"), s.c.PID
	text, err := s.main.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			info.Version = v
		}
	}
	for _, name := range []string{"appendonly", "appendfsync", "save", "client-output-buffer-limit", "maxmemory", "maxmemory-policy", "io-threads"} {
		list, err := s.main.ConfigGet(ctx, name).Result()
		if err != nil {
			info.Settings[name] = "unknown:" + err.Error()
			continue
		}
		info.Settings[name] = list[name]
	}
	return nil
}

// redisDurability returns the durability of writes with these settings.
func redisDurability(settings map[string]string) sut.Durability {
	if settings["appendonly"] != "yes" {
		return sut.Memory
	}
	switch settings["appendfsync"] {
	case "always":
		return sut.Fsync
	case "everysec":
		return sut.FsyncInterval
	}
	return sut.PageCache
}

// redisPublisher sends its messages as one pipeline, and messages that arrive meanwhile as the
// next.
type redisPublisher struct {
	c      *redis.Client
	box    *outbox
	cancel context.CancelCauseFunc
	loop   sync.WaitGroup
}

// newPublisher starts a publisher that converts messages to commands with add.
func (s *redisBase) newPublisher(ctx context.Context, add func(ctx context.Context, p redis.Pipeliner, payload []byte)) (*redisPublisher, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p := &redisPublisher{c: c, box: newOutbox(redisQueueBytes, s.c.Batch), cancel: cancel}
	p.loop.Go(func() {
		for {
			list, err := p.box.Take(s.pipeline, redisPipelineBytes)
			if err != nil {
				return
			}
			sendPipeline(ctx, c, list, add)
		}
	})
	return p, nil
}

// sendPipeline sends messages in one round trip and reports the outcome of each.
func sendPipeline(ctx context.Context, c *redis.Client, list []queued, add func(context.Context, redis.Pipeliner, []byte)) {
	if err := context.Cause(ctx); err != nil {
		doneAll(list, err)
		return
	}
	pipe := c.Pipeline()
	for i := range list {
		add(ctx, pipe, list[i].Payload)
	}
	commands, err := pipe.Exec(ctx)
	for i := range list {
		if i < len(commands) {
			list[i].Done(commands[i].Err())
			continue
		}
		list[i].Done(errors.Join(errors.New("not sent"), err))
	}
}

func (p *redisPublisher) Publish(ctx context.Context, key, payload []byte, done func(error)) {
	p.box.Put(ctx, queued{Key: key, Payload: payload, Done: done})
}

func (p *redisPublisher) Close(ctx context.Context) error {
	p.box.Close()
	stop := context.AfterFunc(ctx, func() {
		p.cancel(context.Cause(ctx))
		_ = p.c.Close() // ends a round trip in progress
		p.box.Fail(context.Cause(ctx))
	})
	p.loop.Wait()
	defer p.cancel(errClosed)
	if !stop() {
		return context.Cause(ctx)
	}
	return p.c.Close()
}

var errRedisSharing = errors.New("subscribers of Redis channels cannot share messages; streams can (redis-streams)")

func openRedisPubSub(_ context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &redisPubSub{redisBase: newRedisBase(r, c)}
	if err := r.Done(); err != nil {
		return nil, err
	}
	s.main = s.client()
	return s, nil
}

// redisPubSub is Redis channels.
type redisPubSub struct{ redisBase }

func (s *redisPubSub) Setup(ctx context.Context) (sut.Info, error) {
	info := sut.Info{
		System: "redis pub/sub", Durability: sut.None, Settings: map[string]string{"pipeline": strconv.Itoa(s.pipeline)},
		Ack: "the server has put the message into the output buffers of its subscribers; it comes with those of the whole round trip",
	}
	return info, s.describe(ctx, &info)
}

func (s *redisPubSub) Publisher(ctx context.Context) (sut.Publisher, error) {
	return s.newPublisher(ctx, func(ctx context.Context, p redis.Pipeliner, payload []byte) { p.Publish(ctx, s.c.Name, payload) })
}

func (s *redisPubSub) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	if shared {
		return nil, errRedisSharing
	}
	c := s.client()
	sub := c.Subscribe(ctx, s.c.Name)
	if _, err := sub.Receive(ctx); err != nil { // the first message confirms the subscription
		return nil, errors.Join(err, sub.Close())
	}
	return &redisChannel{c, sub}, nil
}

func (s *redisPubSub) Teardown(context.Context) error {
	return s.closeAll()
}

type redisChannel struct {
	c   *redis.Client
	sub *redis.PubSub
}

// Receive implements sut.Subscriber. It returns the first error, because the client would subscribe
// again and hide lost messages.
func (b *redisChannel) Receive(ctx context.Context, f func([]byte)) error {
	defer context.AfterFunc(ctx, func() { _ = b.sub.Close() })() // a read ignores ctx
	return receive(ctx, func() error {
		message, err := b.sub.ReceiveTimeout(ctx, 0)
		if m, ok := message.(*redis.Message); ok {
			f([]byte(m.Payload))
		}
		return err
	})
}

func (b *redisChannel) Close() error {
	_ = b.sub.Close() // Receive may have done so
	return b.c.Close()
}

// redisField is the field of a stream's entries.
const redisField = "p"

func openRedisStreams(_ context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &redisStreams{redisBase: newRedisBase(r, c), keep: r.Int("keep-bytes", redisKeep, 1<<20, math.MaxInt)}
	if err := r.Done(); err != nil {
		return nil, err
	}
	s.entries = int64(max(s.keep/max(c.PayloadBytes, 1), redisEntriesMin))
	s.main = s.client()
	return s, nil
}

const (
	redisKeep       = 512 << 20
	redisEntriesMin = 100
)

// redisStreams is Redis streams, one per run.
type redisStreams struct {
	redisBase
	keep    int
	entries int64
	members int
	made    bool
}

func (s *redisStreams) Setup(ctx context.Context) (sut.Info, error) {
	info := sut.Info{
		System: "redis streams", Settings: map[string]string{
			"pipeline": strconv.Itoa(s.pipeline), "kept of the stream": fmt.Sprintf("about %d entries", s.entries),
		},
		Ack: "the message is in the stream; it comes with those of the whole round trip",
	}
	if err := s.describe(ctx, &info); err != nil {
		return info, err
	}
	info.Durability = redisDurability(info.Settings)
	if !s.c.Creates() {
		return info, nil
	}
	if err := s.main.XGroupCreateMkStream(ctx, s.c.Name, s.c.Name, "$").Err(); err != nil {
		return info, fmt.Errorf("create stream %s: %w", s.c.Name, err)
	}
	s.made = true
	return info, nil
}

func (s *redisStreams) Publisher(ctx context.Context) (sut.Publisher, error) {
	return s.newPublisher(ctx, func(ctx context.Context, p redis.Pipeliner, message []byte) {
		p.XAdd(ctx, &redis.XAddArgs{Stream: s.c.Name, MaxLen: s.entries, Approx: true, Values: []any{redisField, message}})
	})
}

func (s *redisStreams) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	b := &redisStream{s: s, c: c}
	if shared {
		b.consumer = fmt.Sprintf("consumer-%d", s.c.SubscriberNumber(s.members))
		s.members++
		return b, nil
	}
	info, err := c.XInfoStream(ctx, s.c.Name).Result()
	if err != nil {
		return nil, err
	}
	b.last = info.LastGeneratedID
	return b, nil
}

func (s *redisStreams) Teardown(ctx context.Context) error {
	defer s.closeAll()
	if !s.made {
		return nil
	}
	s.made = false
	return s.main.Del(ctx, s.c.Name).Err()
}

// redisStream reads a stream, alone or as a member of the group.
type redisStream struct {
	s        *redisStreams
	c        *redis.Client
	consumer string // "": alone
	last     string // ID of the last entry read
	seen     []string
}

// redisReadBytes bounds one request.
const redisReadBytes = 16 << 20

func (b *redisStream) Receive(ctx context.Context, f func([]byte)) error {
	defer context.AfterFunc(ctx, func() { _ = b.c.Close() })() // a wait ignores ctx
	count := int64(max(redisReadBytes/max(b.s.c.PayloadBytes, 1), 1))
	return receive(ctx, func() error {
		list, err := b.read(ctx, min(count, redisPipeline))
		if err != nil {
			return err
		}
		for _, from := range list {
			for _, m := range from.Messages {
				text, ok := m.Values[redisField].(string)
				if !ok {
					return fmt.Errorf("entry %s of stream %s has no field %q", m.ID, b.s.c.Name, redisField)
				}
				f([]byte(text))
				b.last = m.ID
				b.seen = append(b.seen, m.ID)
			}
		}
		return nil
	})
}

// read waits for entries. In a group it acknowledges the previous ones in the same round trip.
func (b *redisStream) read(ctx context.Context, count int64) ([]redis.XStream, error) {
	name := b.s.c.Name
	if b.consumer == "" {
		b.seen = b.seen[:0]
		return b.c.XRead(ctx, &redis.XReadArgs{Streams: []string{name, b.last}, Count: count, Block: 0}).Result()
	}
	pipe := b.c.Pipeline()
	if len(b.seen) > 0 {
		pipe.XAck(ctx, name, name, slices.Clone(b.seen)...)
		b.seen = b.seen[:0]
	}
	got := pipe.XReadGroup(ctx, &redis.XReadGroupArgs{Group: name, Consumer: b.consumer, Streams: []string{name, ">"}, Count: count, Block: 0})
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	return got.Result()
}

func (b *redisStream) Close() error {
	_ = b.c.Close() // Receive may have done so
	return nil
}
