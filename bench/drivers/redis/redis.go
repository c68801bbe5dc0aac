// Package redis measures Redis: pub/sub and streams, with the client go-redis.
package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sebbroker/seb/bench/sut"
)

const pipelineDoc = "pipeline=1000 (messages of a publisher per round trip; others wait for the next)"

// silence discards the client's log, because errors are returned as well.
type silence struct{}

// Printf implements the client's logger.
func (silence) Printf(context.Context, string, ...any) {}

func init() {
	redis.SetLogger(silence{})
	sut.Register(sut.Driver{
		Name: "redis-pubsub", Open: openPubSub,
		Doc: "Redis publish and subscribe, 127.0.0.1:6379. Subscribers cannot share. Options: " + pipelineDoc,
	})
	sut.Register(sut.Driver{
		Name: "redis-streams", Open: openStreams,
		Doc: "Redis streams, 127.0.0.1:6379. Options: " + pipelineDoc + ", keep-bytes=536870912 (a stream is cut to about that)",
	})
}

const (
	addressDefault  = "127.0.0.1:6379"
	pipelineDefault = 1000
	pipelineMax     = 1 << 20
	pipelineBytes   = 8 << 20
	queueBytes      = 64 << 20
	bufferBytes     = 64 << 10
)

// base is common to both drivers.
type base struct {
	c        sut.Config
	pipeline int
	main     *redis.Client

	mu   sync.Mutex // guards open
	open []*redis.Client
}

func newBase(r *sut.Options, c sut.Config) base {
	if c.Address == "" {
		c.Address = addressDefault
	}
	return base{c: c, pipeline: r.Int("pipeline", pipelineDefault, 1, pipelineMax)}
}

// client makes a client with one connection and without retries.
func (s *base) client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: s.c.Address, MaxRetries: -1, PoolSize: 1, DialerRetries: 1, ReadTimeout: -1, WriteTimeout: -1, ContextTimeoutEnabled: true,
		DisableIdentity: true, ReadBufferSize: bufferBytes, WriteBufferSize: bufferBytes,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, c)
	return c
}

// connect makes a client and tests it.
func (s *base) connect(ctx context.Context) (*redis.Client, error) {
	c := s.client()
	return c, c.Ping(ctx).Err()
}

func (s *base) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close() // most are closed already
	}
}

// describe reads the relevant settings, the version and the process.
func (s *base) describe(ctx context.Context, info *sut.Info) error {
	info.Client, info.PID = sut.LinkedVersion("github.com/redis/go-redis/v9"), s.c.PID
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

// durability returns the durability of writes with these settings.
func durability(settings map[string]string) sut.Durability {
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
