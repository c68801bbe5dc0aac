// Package kafka measures brokers with Kafka's protocol, with the client franz-go.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/bench/sut"
)

func init() {
	sut.Register(sut.Driver{
		Name: "kafka", Open: open,
		Doc: "Kafka's protocol, 127.0.0.1:9092 or several separated by commas. Options: linger=0s, idempotent=true, batch-bytes=1000012, " +
			"fetch-wait=5s, flush-messages=(the broker's; 1 flushes each), durability=(as the flush settings say)",
	})
}

const (
	addressDefault = "127.0.0.1:9092"
	batchDefault   = 1000012 // of franz-go and of Kafka's own client
	batchMax       = 64 << 20
	recordRoom     = 4 << 10
	topicMax       = 1048588 // default max.message.bytes of a topic
	inFlight       = 5       // requests, without idempotence; franz-go has the same with it
	buffered       = 1 << 20 // records that wait in the client
	never          = "9223372036854775807"
)

var durabilities = []string{"", string(sut.Memory), string(sut.PageCache), string(sut.FsyncInterval), string(sut.Fsync), string(sut.ObjectStore)}

func open(_ context.Context, c sut.Config) (sut.System, error) {
	r := sut.ReadOptions(&c)
	s := &system{
		c: c, linger: r.Duration("linger", 0), idempotent: r.Bool("idempotent", true), flush: r.Int("flush-messages", 0, 1, 1<<30),
		batch: r.Int("batch-bytes", batchDefault, 1<<10, batchMax), fetchWait: r.Duration("fetch-wait", 5*time.Second),
		durability: sut.Durability(r.OneOf("durability", durabilities...)),
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	if s.c.Address == "" {
		s.c.Address = addressDefault
	}
	s.batch = max(s.batch, c.PayloadBytes+recordRoom)
	main, err := s.client(kgo.RequestRetries(0))
	s.main = main
	return s, err
}

type system struct {
	c          sut.Config
	linger     time.Duration
	fetchWait  time.Duration
	idempotent bool
	flush      int
	batch      int
	durability sut.Durability
	main       *kgo.Client
	made       bool
	groups     int
	publishers int

	mu   sync.Mutex // guards open
	open []*kgo.Client
}

// client makes a client with as few retries as possible.
func (s *system) client(more ...kgo.Opt) (*kgo.Client, error) {
	// This cannot be disabled: an idempotent producer sends requests of a broken connection again
	// until their outcome is known or they time out.
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(s.c.Address, ",")...), kgo.MetadataMinAge(10 * time.Millisecond), kgo.ClientID("seb-bench"),
	}, more...)...)
}

// Setup implements sut.System.
func (s *system) Setup(ctx context.Context) (sut.Info, error) {
	admin := kadm.NewClient(s.main)
	if s.c.Creates() {
		if err := s.create(ctx, admin); err != nil {
			return sut.Info{}, err
		}
	}
	if err := s.known(ctx, admin); err != nil {
		return sut.Info{}, err
	}
	settings := map[string]string{
		"acks": "all", "linger": s.linger.String(), "idempotent": strconv.FormatBool(s.idempotent), "batch bytes": strconv.Itoa(s.batch),
		"compression": "none", "fetch.max.wait": s.fetchWait.String(), "requests in flight": strconv.Itoa(inFlight),
		"not turned off": "requests of idempotent producers are sent again when their connection breaks",
	}
	s.describe(ctx, admin, settings)
	info := sut.Info{
		System: "kafka", Client: sut.LinkedVersion("github.com/twmb/franz-go"), Settings: settings, PID: s.c.PID, Durability: s.durable(settings),
		Ack: "all replicas in sync have the message, in their page cache unless it is flushed first",
	}
	if list, err := admin.ListBrokers(ctx); err == nil {
		settings["brokers"] = strconv.Itoa(len(list))
	}
	if v, err := admin.ApiVersions(ctx); err == nil {
		v.Each(func(v kadm.BrokerApiVersions) { info.Version = v.VersionGuess() })
	}
	return info, nil
}

// create creates the topic.
func (s *system) create(ctx context.Context, admin *kadm.Client) error {
	configs := map[string]*string{}
	if s.c.PayloadBytes+recordRoom > topicMax {
		configs["max.message.bytes"] = new(strconv.Itoa(s.c.PayloadBytes + recordRoom))
	}
	if s.flush > 0 {
		configs["flush.messages"] = new(strconv.Itoa(s.flush))
	}
	if _, err := admin.CreateTopic(ctx, int32(s.c.Partitions), 1, configs, s.c.Name); err != nil {
		return fmt.Errorf("create topic %s: %w", s.c.Name, err)
	}
	s.made = true
	return nil
}

// known waits until the broker leads its new topic, which it learns from the controller.
func (s *system) known(ctx context.Context, admin *kadm.Client) error {
	for {
		list, err := admin.ListEndOffsets(ctx, s.c.Name)
		if err == nil {
			err = list.Error()
		}
		if err == nil && len(list[s.c.Name]) == s.c.Partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s does not appear: %w", s.c.Name, errors.Join(err, context.Cause(ctx)))
		case <-time.After(beginEvery):
		}
	}
}

// describe reads the relevant settings, if the broker returns them.
func (s *system) describe(ctx context.Context, admin *kadm.Client, settings map[string]string) {
	list, err := admin.DescribeTopicConfigs(ctx, s.c.Name)
	if err != nil {
		settings["topic"] = "not described: " + err.Error()
		return
	}
	for _, topic := range list {
		for _, c := range topic.Configs {
			if slices.Contains([]string{"flush.messages", "flush.ms", "max.message.bytes", "min.insync.replicas"}, c.Key) {
				settings["topic "+c.Key] = c.MaybeValue()
			}
		}
	}
}

// durable returns the durability of the flush settings.
func (s *system) durable(settings map[string]string) sut.Durability {
	messages, millis := settings["topic flush.messages"], settings["topic flush.ms"]
	switch {
	case s.durability != "":
		return s.durability
	case messages == "1":
		return sut.Fsync
	case messages != "" && messages != never || millis != "" && millis != never:
		return sut.FsyncInterval
	}
	return sut.PageCache
}

func (s *system) opened(c *kgo.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, c)
}

// Teardown implements sut.System.
func (s *system) Teardown(ctx context.Context) error {
	s.mu.Lock()
	list := s.open
	s.open = nil
	s.mu.Unlock()
	for _, c := range list {
		c.Close()
	}
	defer s.main.Close()
	if !s.made {
		return nil
	}
	s.made = false
	admin := kadm.NewClient(s.main)
	var faults []error
	if s.groups > 0 || s.c.Group != nil && s.c.Group.Shared { // those of guests, if it has none
		if _, err := admin.DeleteGroup(ctx, s.c.Name); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			faults = append(faults, fmt.Errorf("delete group %s: %w", s.c.Name, err))
		}
	}
	if _, err := admin.DeleteTopic(ctx, s.c.Name); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		faults = append(faults, fmt.Errorf("delete topic %s: %w", s.c.Name, err))
	}
	return errors.Join(faults...)
}
