package drivers

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

const (
	sebAddress       = "http://127.0.0.1:51313"
	sebModule        = "github.com/sebbroker/seb"
	sebInflightMax   = 1000
	sebBatch         = 4 << 20
	sebBatchMax      = 64 << 20
	sebQueueBytes    = 64 << 20
	sebRecordRoom    = 4 << 10   // of a batch in addition to its payload
	maxBatchDefault  = 1_048_588 // Seb's, and Kafka's
	connectionsSpare = 4
)

// readQueueOptions reads the options of both drivers.
func readQueueOptions(r *options, c *sut.Config) sebQueueOptions {
	batch := c.Batch
	if c.Partitions > 1 { // keys distribute a batch over partitions, which have a queue each
		batch = 0
	}
	return sebQueueOptions{
		inflight: r.Int("inflight", 1, 1, sebInflightMax), pace: r.Duration("pace", 0),
		batchMax: r.Int("batch-bytes", sebBatch, 1, sebBatchMax), queueMax: sebQueueBytes, batch: batch,
	}
}

// settings describes them.
func (o *sebQueueOptions) settings() map[string]string {
	return map[string]string{
		"requests in flight of a publisher": strconv.Itoa(o.inflight), "kept in order": strconv.FormatBool(o.ordered()),
		"pace": o.pace.String(), "request bytes": strconv.Itoa(o.batchMax),
	}
}

// sebTopicSettings returns the settings of a topic for the payloads of a run.
func sebTopicSettings(payloadBytes int) map[string]string {
	if payloadBytes+sebRecordRoom <= maxBatchDefault {
		return nil
	}
	return map[string]string{"max-batch-bytes": strconv.Itoa(payloadBytes + sebRecordRoom)}
}

func openSeb(_ context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &sebHTTP{c: c, queues: readQueueOptions(r, &c), follow: r.OneOf("follow", "poll", "sse"), bucket: r.Text("bucket", ""), readFrom: r.Text("read-from", "")}
	keyFile, dataDir := r.Text("key-file", ""), r.Text("data-dir", dataDirDefault)
	if err := r.Done(); err != nil {
		return nil, err
	}
	s.key = os.Getenv("SEB_API_KEY")
	if keyFile != "" {
		key, err := readKey(keyFile)
		if err != nil {
			return nil, err
		}
		s.key = key
	}
	s.useLocal(dataDir)
	s.c.Address = cmp.Or(s.c.Address, sebAddress)
	s.readFrom = cmp.Or(s.readFrom, s.c.Address)
	main, err := s.client(s.c.Address)
	if err != nil {
		return nil, err
	}
	s.main = main
	return s, nil
}

// readKey reads Seb's API key.
func readKey(file string) (string, error) {
	key, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf(`option "key-file": %w`, err)
	}
	return strings.TrimRight(string(key), "\r\n"), nil
}

// sebHTTP is a broker in another process.
type sebHTTP struct {
	c              sut.Config
	queues         sebQueueOptions
	follow, bucket string
	readFrom       string // address of the broker for subscribers
	key            string
	main           *sebConnection
	sharing        sharing
	publishers     int
	made           bool // the topic exists
	opened
}

// sebConnection is a client with separate connections.
type sebConnection struct {
	*client.Client
	http *http.Client
}

// client makes a client without retries.
func (s *sebHTTP) client(address string) (*sebConnection, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, s.queues.inflight*s.c.Partitions+connectionsSpare
	t.DisableCompression = true
	t.WriteBufferSize, t.ReadBufferSize = 64<<10, 64<<10
	h := &http.Client{Transport: t}
	c, err := client.New(address, client.Options{APIKey: s.key, HTTPClient: h, RetryTime: -1})
	return &sebConnection{c, h}, err
}

func (s *sebHTTP) Setup(ctx context.Context) (sut.Info, error) {
	settings := s.queues.settings()
	settings["follow"] = s.follow
	if s.readFrom != s.c.Address {
		settings["received from"] = "another broker that follows the bucket"
	}
	if !s.c.Creates() { // the host provides the rest
		_, err := s.main.Topic(ctx, s.c.Name)
		return sut.Info{System: "seb", Client: linkedVersion(sebModule), Settings: settings}, err
	}
	bucket, err := bucketOf(s.bucket, s.c.PID, settings)
	if err != nil {
		return sut.Info{}, err
	}
	settings["bucket"] = bucket
	t, err := s.main.CreateTopic(ctx, s.c.Name, client.TopicSpec{Partitions: s.c.Partitions, Settings: sebTopicSettings(s.c.PayloadBytes)})
	if err != nil {
		return sut.Info{}, fmt.Errorf("create topic %s: %w", s.c.Name, err)
	}
	s.made = true
	for name, value := range t.Settings {
		settings["topic "+name] = value
	}
	return sut.Info{
		System: "seb", Version: versionOf(s.c.PID), Client: linkedVersion(sebModule), Durability: durabilityOf(bucket), Settings: settings, PID: s.c.PID,
		Ack: "the object with the message is in the bucket",
	}, nil
}

func (s *sebHTTP) Publisher(context.Context) (sut.Publisher, error) {
	c, err := s.client(s.c.Address)
	if err != nil {
		return nil, err
	}
	s.add(noError(c.http.CloseIdleConnections))
	o := s.queues
	o.isGap = func(err error) bool { return errors.Is(err, client.ErrSequenceGap) }
	o.produceTo = func(ctx context.Context, partition int32, batches []byte) error {
		_, err := c.ProduceBatches(ctx, s.c.Name, batches, client.ProduceOptions{Partition: &partition})
		return err
	}
	s.publishers++
	return newSebPublisher(s.c.PublisherNumber(s.publishers-1), s.c.Partitions, o, c.http.CloseIdleConnections), nil
}

func (s *sebHTTP) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	c, err := s.client(s.readFrom)
	if err != nil {
		return nil, err
	}
	s.add(noError(c.http.CloseIdleConnections))
	t, err := s.topic(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", s.c.Name, err)
	}
	b := &sebSubscriber{close: c.http.CloseIdleConnections, read: func(ctx context.Context, p sebPart) iter.Seq2[*record.Record, error] {
		return c.Records(ctx, s.c.Name, client.ReadOptions{Partition: p.partition, Offset: p.from, Follow: true})
	}}
	if s.follow == "sse" {
		b.read = s.events(c, s.readFrom)
	}
	for _, p := range t.Partitions {
		b.parts = append(b.parts, sebPart{p.Partition, p.Next})
	}
	return b, b.join(&s.sharing, &s.c, shared)
}

// topic describes the topic. A follower learns of it when a request asks for the newest state.
func (s *sebHTTP) topic(ctx context.Context, c *sebConnection) (client.Topic, error) {
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

func (s *sebHTTP) Teardown(ctx context.Context) error {
	_ = s.closeAll() // it has no error
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

// sebSubscriber follows partitions.
type sebSubscriber struct {
	parts  []sebPart
	read   records
	close  func()
	group  *sharing // nil: it gets all
	member int
}

func (b *sebSubscriber) join(g *sharing, c *sut.Config, shared bool) (err error) {
	if shared {
		b.group = g
		b.member, err = g.join(c)
	}
	return err
}

func (b *sebSubscriber) Receive(ctx context.Context, f func([]byte)) error {
	parts := b.parts
	if b.group != nil {
		parts = b.group.share(b.member, parts)
	}
	return followAll(ctx, parts, b.read, f)
}

func (b *sebSubscriber) Close() error {
	b.close()
	return nil
}

// events follows by server-sent events, which the Go client does not support.
func (s *sebHTTP) events(c *sebConnection, address string) records {
	return func(ctx context.Context, p sebPart) iter.Seq2[*record.Record, error] {
		return func(yield func(*record.Record, error) bool) {
			if err := s.stream(ctx, c, address, p, yield); err != nil {
				yield(nil, err)
			}
		}
	}
}

func (s *sebHTTP) stream(ctx context.Context, c *sebConnection, address string, p sebPart, yield func(*record.Record, error) bool) error {
	q := url.Values{"topic-name": {s.c.Name}, "partition": {strconv.Itoa(int(p.partition))}, "offset": {strconv.FormatInt(p.from, 10)}}
	resp, err := s.get(ctx, c, address+"/records?"+q.Encode(), "text/event-stream")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// Best effort: the status is sufficient.
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("follow by events: %s: %s", resp.Status, why)
	}
	var e eventReader
	for in := bufio.NewReaderSize(resp.Body, eventBuffer); ; {
		line, err := e.line(in)
		if err != nil {
			return errors.Join(errEnded, err)
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		r, err := e.parse(data)
		if err != nil {
			return err
		}
		if !yield(r, nil) {
			return nil
		}
	}
}

// get sends a request that the Go client does not support. The caller closes the body.
func (s *sebHTTP) get(ctx context.Context, c *sebConnection, address, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	return c.http.Do(req)
}

// look makes a broker check its bucket for new objects.
func (s *sebHTTP) look(ctx context.Context, c *sebConnection, address string) error {
	q := url.Values{"topic-name": {s.c.Name}, "partition": {"0"}, "offset": {"0"}, "read": {"latest"}, "timeout": {"1ms"}}
	resp, err := s.get(ctx, c, address+"/records?"+q.Encode(), "application/json")
	if err != nil {
		return err
	}
	return resp.Body.Close() // any status: the topic may not exist yet
}

// eventBuffer holds the events that the campaign follows. A longer line is copied.
const eventBuffer = 64 << 10

// eventReader reads the events of a stream. A line and a record are valid until the next call.
type eventReader struct {
	long, value []byte // reused
	rec         record.Record
}

// line returns the next line.
func (e *eventReader) line(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	for e.long = e.long[:0]; ; {
		e.long = append(e.long, line...)
		if err != bufio.ErrBufferFull {
			return e.long, err
		}
		line, err = in.ReadSlice('\n')
	}
}

// parse parses the record in an event's data. It uses encoding/json only for records with text or
// headers, which the campaign does not have: encoding/json takes more CPU time than the broker, which
// shares the cores with the generator.
func (e *eventReader) parse(data []byte) (*record.Record, error) {
	e.rec = record.Record{}
	if e.binary(bytes.TrimSpace(data)) {
		return &e.rec, nil
	}
	var members struct {
		Offset *int64  `json:"offset"`
		Value  *string `json:"value"`
		Base64 []byte  `json:"value_base64"`
	}
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	if members.Offset == nil {
		return nil, fmt.Errorf("event without an offset: %.100s", data)
	}
	e.rec.Offset, e.rec.Value = *members.Offset, members.Base64
	if members.Value != nil {
		e.rec.Value = []byte(*members.Value)
	}
	return &e.rec, nil
}

// binary parses an object that begins with the offset and ends with the value in base64. The quotes
// of the last member's name are not within a string, because they would have backslashes there.
func (e *eventReader) binary(data []byte) bool {
	rest, begins := bytes.CutPrefix(data, []byte(`{"offset":`))
	rest, ends := bytes.CutSuffix(rest, []byte(`"}`))
	number, _, more := bytes.Cut(rest, []byte(","))
	_, value, found := bytes.Cut(rest, []byte(`,"value_base64":"`))
	offset, err := strconv.ParseInt(string(number), 10, 64)
	if !begins || !ends || !more || !found || err != nil {
		return false
	}
	e.value, err = base64.StdEncoding.AppendDecode(e.value[:0], value)
	e.rec.Offset, e.rec.Value = offset, e.value
	return err == nil
}
