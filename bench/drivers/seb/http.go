// Package seb measures Seb: over HTTP with the Go client, and inside the generator's process.
package seb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/sut"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

func init() {
	sut.Register(sut.Driver{
		Name: "seb", Open: openHTTP,
		Doc: "Seb over HTTP; address, API key and bucket default to those that the local broker announces in data-dir (seb-data), then to" +
			"http://127.0.0.1:51313; the API key is $SEB_API_KEY or in key-file. Options: inflight=5 (requests of a " +
			"publisher; more than 5 are not in order), pace=2ms (between two of its requests), batch-bytes=4194304, follow=poll|sse, bucket (mem:, a folder or s3:, " +
			"if the process does not show it), read-from=(the address; that of a broker which follows the same bucket), key-file, data-dir",
	})
	sut.Register(sut.Driver{
		Name: "seb-embedded", Open: openEmbedded, Inside: true,
		Doc: "Seb inside this process; the address is the bucket: mem:, a folder or s3://…. Options: inflight=5, pace=2ms, " +
			"batch-bytes=4194304, batch-wait=(Seb's), memory-limit=(Seb's, bytes), data-dir",
	})
}

const (
	addressDefault = "http://127.0.0.1:51313"
	module         = "github.com/sebbroker/seb"
	inflightMax    = 1000
	// Five times paceDefault is the time of a request to a local bucket: batch wait and PUT.
	paceDefault      = 2 * time.Millisecond
	batchDefault     = 4 << 20
	batchMax         = 64 << 20
	queueBytes       = 64 << 20
	recordRoom       = 4 << 10   // of a batch in addition to its payload
	maxBatchDefault  = 1_048_588 // Seb's, and Kafka's
	connectionsSpare = 4
)

// common reads the options of both drivers.
func common(r *sut.Options) queueOptions {
	return queueOptions{
		inflight: r.Int("inflight", inflightOrdered, 1, inflightMax), pace: r.Duration("pace", paceDefault),
		batchMax: r.Int("batch-bytes", batchDefault, 1, batchMax), queueMax: queueBytes,
	}
}

// settings describes them.
func (o *queueOptions) settings() map[string]string {
	return map[string]string{
		"requests in flight of a publisher": strconv.Itoa(o.inflight), "kept in order": strconv.FormatBool(o.ordered()),
		"pace": o.pace.String(), "request bytes": strconv.Itoa(o.batchMax),
	}
}

// topicSettings returns the settings of a topic for the payloads of a run.
func topicSettings(payloadBytes int) map[string]string {
	if payloadBytes+recordRoom <= maxBatchDefault {
		return nil
	}
	return map[string]string{"max-batch-bytes": strconv.Itoa(payloadBytes + recordRoom)}
}

func openHTTP(_ context.Context, c sut.Config) (sut.System, error) {
	r := sut.ReadOptions(&c)
	s := &httpSystem{c: c, queues: common(r), follow: r.OneOf("follow", "poll", "sse"), bucket: r.Text("bucket", ""), readFrom: r.Text("read-from", "")}
	keyFile, dataDir := r.Text("key-file", ""), r.Text("data-dir", dataDirDefault)
	if err := r.Done(); err != nil {
		return nil, err
	}
	s.key = os.Getenv("SEB_API_KEY")
	if keyFile != "" {
		key, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, fmt.Errorf(`option "key-file": %w`, err)
		}
		s.key = trimLine(key)
	}
	s.useLocal(dataDir)
	if s.c.Address == "" {
		s.c.Address = addressDefault
	}
	if s.readFrom == "" {
		s.readFrom = s.c.Address
	}
	main, err := s.client(s.c.Address)
	if err != nil {
		return nil, err
	}
	s.main = main
	return s, nil
}

func trimLine(b []byte) string {
	end := len(b)
	for end > 0 && (b[end-1] == '\n' || b[end-1] == '\r') {
		end--
	}
	return string(b[:end])
}

// httpSystem is a broker in another process.
type httpSystem struct {
	c              sut.Config
	queues         queueOptions
	follow, bucket string
	readFrom       string // address of the broker for subscribers
	key            string
	main           *connection
	sharing        sharing

	mu         sync.Mutex // guards the fields below
	open       []func()
	publishers int
	made       bool // the topic exists
}

// connection is a client with separate connections.
type connection struct {
	*client.Client
	http *http.Client
}

// client makes a client without retries.
func (s *httpSystem) client(address string) (*connection, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, s.queues.inflight*s.c.Partitions+connectionsSpare
	t.DisableCompression = true
	t.WriteBufferSize, t.ReadBufferSize = 64<<10, 64<<10
	h := &http.Client{Transport: t}
	c, err := client.New(address, client.Options{APIKey: s.key, HTTPClient: h, RetryTime: -1})
	return &connection{c, h}, err
}

// opened registers a connection for the final close.
func (s *httpSystem) opened(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, c.http.CloseIdleConnections)
}

// Setup implements sut.System.
func (s *httpSystem) Setup(ctx context.Context) (sut.Info, error) {
	settings := s.queues.settings()
	settings["follow"] = s.follow
	if s.readFrom != s.c.Address {
		settings["received from"] = "another broker that follows the bucket"
	}
	if !s.c.Creates() { // the host provides the rest
		_, err := s.main.Topic(ctx, s.c.Name)
		return sut.Info{System: "seb", Client: sut.LinkedVersion(module), Settings: settings}, err
	}
	bucket, err := bucketOf(s.bucket, s.c.PID, settings)
	if err != nil {
		return sut.Info{}, err
	}
	settings["bucket"] = bucket
	t, err := s.main.CreateTopic(ctx, s.c.Name, client.TopicSpec{Partitions: s.c.Partitions, Settings: topicSettings(s.c.PayloadBytes)})
	if err != nil {
		return sut.Info{}, fmt.Errorf("create topic %s: %w", s.c.Name, err)
	}
	s.made = true
	for name, value := range t.Settings {
		settings["topic "+name] = value
	}
	return sut.Info{
		System: "seb", Version: version(s.c.PID), Client: sut.LinkedVersion(module), Durability: durabilityOf(bucket), Settings: settings, PID: s.c.PID,
		Ack: "the object with the message is in the bucket",
	}, nil
}

// Publisher implements sut.System.
func (s *httpSystem) Publisher(context.Context) (sut.Publisher, error) {
	c, err := s.client(s.c.Address)
	if err != nil {
		return nil, err
	}
	s.opened(c)
	o := s.queues
	o.isGap = func(err error) bool { return errors.Is(err, client.ErrSequenceGap) }
	o.produceTo = func(ctx context.Context, partition int32, batches []byte) error {
		_, err := c.ProduceBatches(ctx, s.c.Name, batches, client.ProduceOptions{Partition: &partition})
		return err
	}
	s.publishers++
	return newPublisher(s.c.PublisherNumber(s.publishers-1), s.c.Partitions, o, c.http.CloseIdleConnections), nil
}

// Subscriber implements sut.System.
func (s *httpSystem) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	c, err := s.client(s.readFrom)
	if err != nil {
		return nil, err
	}
	s.opened(c)
	t, err := s.topic(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", s.c.Name, err)
	}
	b := &subscriber{close: c.http.CloseIdleConnections, read: func(ctx context.Context, p part) iter.Seq2[*record.Record, error] {
		return c.Records(ctx, s.c.Name, client.ReadOptions{Partition: p.partition, Offset: p.from, Follow: true})
	}}
	if s.follow == "sse" {
		b.read = s.events(c, s.readFrom)
	}
	for _, p := range t.Partitions {
		b.parts = append(b.parts, part{p.Partition, p.Next})
	}
	return b, b.join(&s.sharing, &s.c, shared)
}

// topic describes the topic. A follower learns of it when a request asks for the newest state.
func (s *httpSystem) topic(ctx context.Context, c *connection) (client.Topic, error) {
	for ends := time.Now().Add(followWait); ; {
		t, err := c.Topic(ctx, s.c.Name)
		if s.readFrom == s.c.Address || !errors.Is(err, client.ErrUnknownTopic) || time.Now().After(ends) {
			return t, err
		}
		if err := s.look(ctx, c, s.readFrom); err != nil {
			return t, err
		}
		select {
		case <-ctx.Done():
			return t, context.Cause(ctx)
		case <-time.After(followStep):
		}
	}
}

// How long a follower may take to learn of the topic, and the interval of the requests.
const (
	followWait = 30 * time.Second
	followStep = 20 * time.Millisecond
)

// Teardown implements sut.System.
func (s *httpSystem) Teardown(ctx context.Context) error {
	s.mu.Lock()
	open := slices.Clone(s.open)
	s.mu.Unlock()
	for _, f := range open {
		f()
	}
	defer s.main.http.CloseIdleConnections()
	if !s.made {
		return nil
	}
	if err := s.main.DeleteTopic(ctx, s.c.Name); err != nil && !errors.Is(err, client.ErrUnknownTopic) {
		return fmt.Errorf("delete topic %s: %w", s.c.Name, err)
	}
	s.made = false
	return nil
}

// subscriber follows partitions.
type subscriber struct {
	parts  []part
	read   records
	close  func()
	group  *sharing // nil: it gets all
	member int
}

func (b *subscriber) join(g *sharing, c *sut.Config, shared bool) (err error) {
	if shared {
		b.group = g
		b.member, err = g.join(c)
	}
	return err
}

// Receive implements sut.Subscriber.
func (b *subscriber) Receive(ctx context.Context, f func([]byte)) error {
	parts := b.parts
	if b.group != nil {
		parts = b.group.share(b.member, parts)
	}
	return followAll(ctx, parts, b.read, f)
}

// Close implements sut.Subscriber.
func (b *subscriber) Close() error {
	b.close()
	return nil
}
