package drivers_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb"
	_ "github.com/sebbroker/seb/bench/drivers" // registers the drivers
	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestContractOfNoop(t *testing.T) {
	for _, driver := range []string{"noop", "noop-tcp"} {
		t.Run(driver, (&subject{driver: driver}).contract)
	}
}

func TestContractOfSebEmbedded(t *testing.T) {
	t.Run("memory", (&subject{driver: "seb-embedded", config: sut.Config{Address: "mem:"}}).contract)
	// Another broker takes over the bucket instead of a kill.
	disk := subject{driver: "seb-embedded", config: sut.Config{Address: t.TempDir()}, victim: func(t *testing.T) (sut.Config, func()) {
		bucket := t.TempDir()
		return sut.Config{Address: bucket}, func() {
			b, err := seb.Open(t.Context(), seb.Options{Bucket: bucket})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = b.Close(context.Background()) })
		}
	}}
	t.Run("disk", disk.contract)
}

// TestTopicsShareAnEmbeddedBroker uses two topics of one bucket, as a run with several topics does. A
// second broker would fence the first.
func TestTopicsShareAnEmbeddedBroker(t *testing.T) {
	var publishers []sut.Publisher
	var systems []sut.System
	bucket := t.TempDir()
	for _, name := range []string{"a", "b"} {
		s := must.Get(sut.Open(t.Context(), "seb-embedded", sut.Config{Address: bucket, Name: name, Partitions: 1}))(t)
		systems = append(systems, s)
		must.Get(s.Setup(t.Context()))(t)
		publishers = append(publishers, must.Get(s.Publisher(t.Context()))(t))
	}
	for _, p := range publishers {
		stored := make(chan error, 1)
		p.Publish(t.Context(), nil, []byte("x"), func(err error) { stored <- err })
		must.NoError(t, <-stored)
		must.NoError(t, p.Close(t.Context()))
	}
	for _, s := range systems {
		must.NoError(t, s.Teardown(t.Context()))
	}
}

func TestContractOfSeb(t *testing.T) {
	for _, c := range []struct {
		peer    string
		options map[string]string
	}{
		{"seb-memory", nil},
		{"seb-fsync", map[string]string{"follow": "sse", "pace": "0s"}},
	} {
		t.Run(c.peer, func(t *testing.T) { contractOn(t, startPeer(t, c.peer), true, subject{driver: "seb"}, c.options) })
	}
}

// TestContractOfPeers tests drivers on brokers that run, or that it starts (see findPeer).
func TestContractOfPeers(t *testing.T) {
	for _, c := range []struct {
		peer    string
		options map[string]string
		subject
	}{
		{"kafka-memory", nil, subject{driver: "kafka", left: leftInKafka}},
		{"kafka-fsync", nil, subject{driver: "kafka", left: leftInKafka}},
		{"nats-memory", nil, subject{driver: "nats", left: leftInNATS}},
		{"nats-memory", map[string]string{"ack": "pong"}, subject{driver: "nats", left: leftInNATS}},
		{"nats-memory", nil, subject{driver: "nats-jetstream", left: leftInNATS}},
		{"nats-fsync", nil, subject{driver: "nats-jetstream", left: leftInNATS}},
		{"rabbitmq-memory", nil, subject{driver: "rabbitmq-classic", left: leftInRabbit}},
		{"rabbitmq-fsync", nil, subject{driver: "rabbitmq-quorum", left: leftInRabbit}},
		{"redis-memory", nil, subject{driver: "redis-pubsub", left: leftInRedis, noSharing: true}},
		{"redis-memory", nil, subject{driver: "redis-streams", left: leftInRedis}},
		{"redis-fsync", nil, subject{driver: "redis-streams", left: leftInRedis}},
		{"seb-s3", nil, subject{driver: "seb"}},
	} {
		t.Run(strings.Join(append([]string{c.driver, c.peer}, slices.Collect(maps.Values(c.options))...), " "), func(t *testing.T) {
			p, own := findPeer(t, c.peer)
			contractOn(t, p, own, c.subject, c.options)
		})
	}
}

// startPeer installs and starts a peer for the length of a test.
func startPeer(t *testing.T, name string) *peers.Peer {
	t.Helper()
	o := peers.Options{Data: t.TempDir(), Progress: t.Output()}
	t.Cleanup(func() { check.NoError(t, peers.Down(context.Background(), o)) })
	up := must.Get(peers.Up(t.Context(), o, name))(t)
	return &up[0]
}

// findPeer is startPeer if the environment variable SEB_BENCH_PEERS is set. Otherwise it returns
// the peer that runs, or skips the test. own means that the test may kill the peer.
func findPeer(t *testing.T, name string) (p *peers.Peer, own bool) {
	t.Helper()
	if os.Getenv("SEB_BENCH_PEERS") != "" {
		return startPeer(t, name), true
	}
	list := must.Get(peers.Running(peers.Options{}))(t)
	i := slices.IndexFunc(list, func(p peers.Peer) bool { return p.Name == name })
	if i < 0 {
		t.Skipf("no %s runs: go run -C bench ./cmd/peers-test starts it, or seb-bench peers up %s", name, name)
	}
	return &list[i], false
}

// contractOn tests a driver on a peer. If the test owns the peer, its last part kills it.
func contractOn(t *testing.T, p *peers.Peer, own bool, target subject, options map[string]string) {
	t.Helper()
	i := slices.IndexFunc(p.Targets, func(one peers.Target) bool { return one.Driver == target.driver })
	if i < 0 {
		t.Fatalf("%s has no target for the driver %s", p.Name, target.driver)
	}
	target.config = sut.Config{Address: p.Targets[i].Address, Options: map[string]string{}, PID: p.PID}
	maps.Copy(target.config.Options, p.Targets[i].Options)
	maps.Copy(target.config.Options, options)
	if target.driver == "seb" {
		target.left = leftInSeb(target.config.Options["key-file"])
	}
	if own {
		target.victim = func(t *testing.T) (sut.Config, func()) {
			return target.config, func() { check.NoError(t, p.Kill()) }
		}
	}
	target.contract(t)
}

// containing returns the elements of a list that contain a run's name.
func containing(list []string, name string) []string {
	return slices.DeleteFunc(list, func(found string) bool { return !strings.Contains(found, name) })
}

func leftInKafka(ctx context.Context, address, name string) ([]string, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := admin.ListGroups(ctx)
	return containing(append(topics.Names(), groups.Groups()...), name), err
}

func leftInNATS(ctx context.Context, address, name string) ([]string, error) {
	c, err := nats.Connect(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return nil, err
	}
	var list []string
	names := js.StreamNames(ctx)
	for found := range names.Name() {
		list = append(list, found)
	}
	return containing(list, name), names.Err()
}

// leftInRabbit checks the exchange and the queues of a run's name, because AMQP cannot list them.
func leftInRabbit(_ context.Context, address, name string) ([]string, error) {
	c, err := amqp.Dial(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	names := []string{name, name + "-shared"} // the exchange, and queues
	for i := range 5 {
		names = append(names, name+"-"+strconv.Itoa(i))
	}
	var list []string
	for i, found := range names {
		ch, err := c.Channel() // a failed channel is closed
		if err != nil {
			return nil, err
		}
		if i == 0 {
			err = ch.ExchangeDeclarePassive(found, amqp.ExchangeFanout, false, false, false, false, nil)
		} else {
			_, err = ch.QueueDeclarePassive(found, false, false, false, false, nil)
		}
		var fault *amqp.Error
		if !errors.As(err, &fault) || fault.Code != amqp.NotFound {
			list = append(list, found)
		}
	}
	return list, nil
}

func leftInRedis(ctx context.Context, address, name string) ([]string, error) {
	c := redis.NewClient(&redis.Options{Addr: address})
	defer c.Close()
	keys, err := c.Keys(ctx, "*"+name+"*").Result()
	if err != nil {
		return nil, err
	}
	channels, err := c.PubSubChannels(ctx, "*"+name+"*").Result()
	return append(keys, channels...), err
}

func leftInSeb(keyFile string) func(ctx context.Context, address, name string) ([]string, error) {
	return func(ctx context.Context, address, name string) ([]string, error) {
		key, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, err
		}
		c, err := client.New(address, client.Options{APIKey: strings.TrimSpace(string(key))})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		topics, err := c.Topics(ctx)
		var list []string
		for _, t := range topics {
			list = append(list, t.Name)
		}
		return containing(list, name), err
	}
}
