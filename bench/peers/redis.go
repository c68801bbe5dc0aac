package peers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

var redisKinds = []kind{
	redisKind("redis-memory", "Redis that keeps nothing: no snapshots, no append-only file", "--save", "", "--appendonly", "no"),
	redisKind("redis-fsync", "Redis with an append-only file that is flushed for every write", "--save", "", "--appendonly", "yes", "--appendfsync", "always"),
}

var redisPackages = []string{"redis-server", "redis-tools", "libjemalloc2", "liblzf1"}

const redisFolder = "redis-debian"

func redisKind(name, doc string, flags ...string) kind {
	return kind{
		name: name, doc: doc, timeout: 20 * time.Second,
		install: func(ctx context.Context, o *Options) error {
			if _, err := exec.LookPath("redis-server"); err == nil {
				return nil
			}
			return o.debian(ctx, redisFolder, "redis-server", redisPackages)
		},
		start: func(_ context.Context, p *Peer) error { return startRedis(p, flags) },
		ready: askRedis,
	}
}

func startRedis(p *Peer, flags []string) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	p.address = loopback(ports[0])
	for _, driver := range []string{"redis-pubsub", "redis-streams"} {
		p.Targets = append(p.Targets, Target{Driver: driver, Address: p.address})
	}
	program, env := "redis-server", []string(nil)
	if _, err := exec.LookPath(program); err != nil {
		unpacked := filepath.Join(p.o.Cache, redisFolder)
		program, env = filepath.Join(unpacked, "usr/bin/redis-server"), libraries(unpacked)
	}
	// By default Redis disconnects subscribers with a backlog of 32 MB. With 1 MB messages, a third
	// of a second is enough for that.
	args := append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(ports[0]), "--dir", p.Dir, "--client-output-buffer-limit", "pubsub 0 0 0",
	}, flags...)
	return p.run("redis", env, program, args...)
}

// askRedis sends PING over a plain connection, because the Redis client logs each failed attempt.
func askRedis(ctx context.Context, p *Peer) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != "+PONG\r\n" {
		err = fmt.Errorf("it answers %q", answer)
	}
	return err
}
