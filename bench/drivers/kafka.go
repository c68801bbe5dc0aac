package drivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/bench/sut"
)

// The client of brokers with Kafka's protocol is franz-go.

const (
	kafkaAddress    = "127.0.0.1:9092"
	kafkaBatch      = 1000012 // of franz-go and of Kafka's own client
	kafkaBatchMax   = 64 << 20
	kafkaRecordRoom = 4 << 10
	kafkaTopicMax   = 1048588 // default max.message.bytes of a topic
	kafkaInFlight   = 5       // requests, without idempotence; franz-go has the same with it
	kafkaBuffered   = 1 << 20 // records that wait in the client
	kafkaNever      = "9223372036854775807"
	kafkaUser       = "seb" // Seb's name of the principal of its API key
)

var kafkaDurabilities = []string{"", string(sut.Memory), string(sut.PageCache), string(sut.FsyncInterval), string(sut.Fsync), string(sut.ObjectStore)}

func openKafka(_ context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &kafkaSystem{
		c: c, linger: r.Duration("linger", 0), idempotent: r.Bool("idempotent", true), flush: r.Int("flush-messages", 0, 1, 1<<30),
		batch: r.Int("batch-bytes", kafkaBatch, 1<<10, kafkaBatchMax), fetchWait: r.Duration("fetch-wait", 5*time.Second),
		durability: sut.Durability(r.OneOf("durability", kafkaDurabilities...)),
	}
	keyFile := r.Text("key-file", "")
	if err := r.Done(); err != nil {
		return nil, err
	}
	if keyFile != "" {
		key, err := readKey(keyFile)
		if err != nil {
			return nil, err
		}
		s.login = append(s.login, kgo.SASL(scram.Auth{User: kafkaUser, Pass: key}.AsSha512Mechanism()))
	}
	s.c.Address = cmp.Or(s.c.Address, kafkaAddress)
	s.batch = max(s.batch, c.PayloadBytes+kafkaRecordRoom)
	main, err := s.client(kgo.RequestRetries(0))
	s.main = main
	return s, err
}

type kafkaSystem struct {
	c          sut.Config
	linger     time.Duration
	fetchWait  time.Duration
	idempotent bool
	flush      int
	batch      int
	durability sut.Durability
	login      []kgo.Opt
	main       *kgo.Client
	made       bool
	groups     int
	publishers int
	opened
}

// client makes a client with as few retries as possible.
func (s *kafkaSystem) client(more ...kgo.Opt) (*kgo.Client, error) {
	// This cannot be disabled: an idempotent producer sends requests of a broken connection again
	// until their outcome is known or they time out.
	return kgo.NewClient(slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(s.c.Address, ",")...), kgo.MetadataMinAge(10 * time.Millisecond), kgo.ClientID("seb-bench"),
	}, s.login, more)...)
}

func (s *kafkaSystem) Setup(ctx context.Context) (sut.Info, error) {
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
		"compression": "none", "fetch.max.wait": s.fetchWait.String(), "requests in flight": strconv.Itoa(kafkaInFlight),
		"not turned off": "requests of idempotent producers are sent again when their connection breaks",
	}
	s.describe(ctx, admin, settings)
	info := sut.Info{
		System: "kafka", Client: linkedVersion("github.com/twmb/franz-go"), Settings: settings, PID: s.c.PID, Durability: s.durable(settings),
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
func (s *kafkaSystem) create(ctx context.Context, admin *kadm.Client) error {
	configs := map[string]*string{}
	if s.c.PayloadBytes+kafkaRecordRoom > kafkaTopicMax {
		configs["max.message.bytes"] = new(strconv.Itoa(s.c.PayloadBytes + kafkaRecordRoom))
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
func (s *kafkaSystem) known(ctx context.Context, admin *kadm.Client) error {
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
		case <-time.After(kafkaBeginEvery):
		}
	}
}

// describe reads the relevant settings, if the broker returns them.
func (s *kafkaSystem) describe(ctx context.Context, admin *kadm.Client, settings map[string]string) {
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
func (s *kafkaSystem) durable(settings map[string]string) sut.Durability {
	messages, millis := settings["topic flush.messages"], settings["topic flush.ms"]
	switch {
	case s.durability != "":
		return s.durability
	case messages == "1":
		return sut.Fsync
	case messages != "" && messages != kafkaNever || millis != "" && millis != kafkaNever:
		return sut.FsyncInterval
	}
	return sut.PageCache
}

func (s *kafkaSystem) Teardown(ctx context.Context) error {
	_ = s.closeAll() // Close of the client has no error
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

func (s *kafkaSystem) Publisher(ctx context.Context) (sut.Publisher, error) {
	options := []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(s.linger), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(s.batch)), kgo.MaxBufferedRecords(kafkaBuffered), kgo.RequestRetries(0), kgo.RecordRetries(0), kgo.UnknownTopicRetries(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.BrokerMaxWriteBytes(int32(max(100<<20, 2*s.batch))),
	}
	if s.idempotent {
		// A message that a publisher gives up is reported as failed, although the broker may have
		// stored it.
		options = append(options, kgo.AllowIdempotentProduceCancellation())
	} else {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(kafkaInFlight))
	}
	if s.c.Batch > 1 {
		options = append(options, kgo.ManualFlushing())
	}
	c, err := s.client(options...)
	if err != nil {
		return nil, err
	}
	s.add(noError(c.Close))
	if err := s.begin(ctx, c); err != nil {
		return nil, err
	}
	s.publishers++
	within, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p := &kafkaPublisher{s: s, c: c, own: s.c.PublisherNumber(s.publishers-1) % s.c.Partitions, cancel: cancel}
	// Records are produced within a context that ends with the publisher and not with a call.
	p.produce = func(r *kgo.Record, done func(error)) {
		c.Produce(within, r, func(_ *kgo.Record, err error) { done(err) })
	}
	return p, nil
}

// begin connects and gets the producer id, which a broker may not provide immediately after its
// start.
func (s *kafkaSystem) begin(ctx context.Context, c *kgo.Client) error {
	if err := c.Ping(ctx); err != nil || !s.idempotent {
		return err
	}
	for {
		_, _, err := c.ProducerID(ctx)
		if !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(kafkaBeginEvery):
		}
	}
}

const kafkaBeginEvery = 20 * time.Millisecond

type kafkaPublisher struct {
	s       *kafkaSystem
	c       *kgo.Client
	own     int // partition of messages without a key
	produce func(r *kgo.Record, done func(error))
	count   int // messages so far
	cancel  context.CancelCauseFunc
}

func (p *kafkaPublisher) Publish(ctx context.Context, key, payload []byte, done func(error)) {
	partition := int32(partitionOf(key, p.own, p.s.c.Partitions))
	p.produce(&kgo.Record{Topic: p.s.c.Name, Partition: partition, Key: key, Value: payload}, done)
	if p.count++; p.s.c.Batch > 1 && p.count%p.s.c.Batch == 0 {
		_ = p.c.Flush(ctx) // waits for the batch, whose messages have their own errors
	}
}

func (p *kafkaPublisher) Close(ctx context.Context) error {
	err := p.c.Flush(ctx)
	p.cancel(errors.Join(errClosed, err))
	p.c.Close() // the remaining ones fail
	return err
}

func (s *kafkaSystem) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	options := []kgo.Opt{
		kgo.FetchMaxWait(s.fetchWait), kgo.FetchMinBytes(1), kgo.DisableFetchSessions(),
		kgo.FetchMaxBytes(64 << 20), kgo.FetchMaxPartitionBytes(int32(max(1<<20, s.c.PayloadBytes+kafkaRecordRoom))),
	}
	if shared {
		// All messages of the run are newer than the group, so it starts at the beginning.
		s.groups = 1
		options = append(options, kgo.ConsumerGroup(s.c.Name), kgo.ConsumeTopics(s.c.Name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	} else {
		ends, err := kadm.NewClient(s.main).ListEndOffsets(ctx, s.c.Name)
		if err := errors.Join(err, ends.Error()); err != nil {
			return nil, fmt.Errorf("ends of topic %s: %w", s.c.Name, err)
		}
		from := map[string]map[int32]kgo.Offset{s.c.Name: {}}
		ends.Each(func(o kadm.ListedOffset) { from[o.Topic][o.Partition] = kgo.NewOffset().At(o.Offset) })
		options = append(options, kgo.ConsumePartitions(from))
	}
	c, err := s.client(options...)
	if err != nil {
		return nil, err
	}
	s.add(noError(c.Close))
	return &kafkaSubscriber{c, s.main}, nil
}

// kafkaSubscriber uses the client's default retries, because a group cannot form without them.
type kafkaSubscriber struct{ c, main *kgo.Client }

// kafkaPingEvery is the interval of checks for the broker while a subscriber gets nothing, because
// the client hides its absence.
const kafkaPingEvery = time.Second

func (b *kafkaSubscriber) Receive(ctx context.Context, f func([]byte)) error {
	return receive(ctx, func() error { return b.poll(ctx, f) })
}

func (b *kafkaSubscriber) poll(ctx context.Context, f func([]byte)) error {
	within, cancel := context.WithTimeout(ctx, kafkaPingEvery)
	defer cancel()
	fetches := b.c.PollFetches(within)
	var fault error
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			fault = fmt.Errorf("topic %s, partition %d: %w", topic, partition, err)
		}
	})
	fetches.EachRecord(func(r *kgo.Record) { f(r.Value) })
	if fault == nil && fetches.NumRecords() == 0 {
		return b.main.Ping(ctx)
	}
	return fault
}

func (b *kafkaSubscriber) Close() error {
	b.c.Close()
	return nil
}
