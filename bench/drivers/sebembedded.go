package drivers

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/record"
)

func openSebEmbedded(ctx context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &sebEmbedded{c: c, queues: readQueueOptions(r, &c)}
	o := seb.Options{
		Bucket: c.Address, BatchWait: r.Duration("batch-wait", 0), DataDir: r.Text("data-dir", ""),
		MemoryLimit: int64(r.Int("memory-limit", 0, 1<<20, math.MaxInt)),
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	o.Bucket = cmp.Or(o.Bucket, "mem:")
	s.options = o
	var err error
	s.broker, err = openShared(ctx, o)
	return s, err
}

// embedded is a broker in this process. The topics of a run share it, because a bucket has one broker.
type embedded struct {
	*seb.Broker
	bucket string
	users  int // guarded by embeddedMu
}

var (
	embeddedMu sync.Mutex // guards the list, and opening and closing of brokers
	embeddeds  []*embedded
)

// openShared returns the broker of a bucket, which it opens for the first user.
func openShared(ctx context.Context, o seb.Options) (*embedded, error) {
	embeddedMu.Lock()
	defer embeddedMu.Unlock()
	for _, e := range embeddeds {
		if e.bucket == o.Bucket && e.Err() == nil {
			e.users++
			return e, nil
		}
	}
	b, err := seb.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	e := &embedded{Broker: b, bucket: o.Bucket, users: 1}
	embeddeds = append(embeddeds, e)
	return e, nil
}

// release closes the broker after its last user.
func (e *embedded) release(ctx context.Context) error {
	embeddedMu.Lock()
	defer embeddedMu.Unlock()
	if e.users--; e.users > 0 {
		return nil
	}
	embeddeds = slices.DeleteFunc(embeddeds, func(other *embedded) bool { return other == e })
	return e.Close(ctx)
}

// sebEmbedded is a topic of a broker in this process.
type sebEmbedded struct {
	c          sut.Config
	queues     sebQueueOptions
	options    seb.Options
	broker     *embedded
	sharing    sharing
	publishers int
	made       bool
}

func (s *sebEmbedded) Setup(ctx context.Context) (sut.Info, error) {
	spec := seb.TopicSpec{Partitions: s.c.Partitions, Settings: sebTopicSettings(s.c.PayloadBytes)}
	if _, err := s.broker.CreateTopic(ctx, s.c.Name, spec); err != nil {
		return sut.Info{}, fmt.Errorf("create topic %s: %w", s.c.Name, err)
	}
	s.made = true
	settings := s.queues.settings()
	settings["bucket"], settings["batch wait"] = s.options.Bucket, "Seb's default for the bucket"
	if s.options.BatchWait != 0 {
		settings["batch wait"] = s.options.BatchWait.String()
	}
	sebModule := linkedVersion(sebModule)
	return sut.Info{
		System: "seb embedded", Version: sebModule, Client: sebModule, Durability: durabilityOf(s.options.Bucket), Settings: settings,
		Ack: "the object with the message is in the bucket",
	}, nil
}

func (s *sebEmbedded) Publisher(context.Context) (sut.Publisher, error) {
	o := s.queues
	o.isGap = func(err error) bool { return errors.Is(err, seb.ErrSequenceGap) }
	o.produceTo = func(ctx context.Context, partition int32, batches []byte) error {
		_, err := s.broker.ProduceBatches(ctx, s.c.Name, partition, batches)
		return err
	}
	s.publishers++
	return newSebPublisher(s.publishers-1, s.c.Partitions, o, func() {}), nil
}

func (s *sebEmbedded) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	t, err := s.broker.Topic(ctx, s.c.Name)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", s.c.Name, err)
	}
	b := &sebSubscriber{close: func() {}, read: s.read}
	for i, p := range t.Partitions {
		b.parts = append(b.parts, sebPart{int32(i), p.Next})
	}
	return b, b.join(&s.sharing, &s.c, shared)
}

// read follows a partition until ctx or the broker ends.
func (s *sebEmbedded) read(ctx context.Context, p sebPart) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-s.broker.Done():
				cancel(s.broker.Err())
			case <-over:
			}
		}()
		for r, err := range s.broker.Records(ctx, s.c.Name, seb.ReadOptions{Partition: p.partition, Offset: p.from, Follow: true}) {
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// sebCloseWait bounds the end of a broker whose store does not answer.
const sebCloseWait = 10 * time.Second

func (s *sebEmbedded) Teardown(ctx context.Context) error {
	var err error
	if s.made && s.broker.Err() == nil {
		if err = s.broker.DeleteTopic(ctx, s.c.Name); errors.Is(err, seb.ErrUnknownTopic) {
			err = nil
		}
	}
	s.made = false
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), sebCloseWait)
	defer cancel()
	return errors.Join(err, s.broker.release(within))
}

// sebPart is a partition that a subscriber follows from an offset on.
type sebPart struct {
	partition int32
	from      int64
}

// records returns the records of a partition from an offset on, until ctx ends.
type records func(ctx context.Context, p sebPart) iter.Seq2[*record.Record, error]

// followAll passes the values of all parts to f, one at a time, until ctx ends (nil) or a part
// fails.
func followAll(ctx context.Context, parts []sebPart, read records, f func([]byte)) error {
	if len(parts) == 0 {
		<-ctx.Done()
		return nil
	}
	if len(parts) == 1 {
		return followOne(ctx, parts[0], read, f)
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	values, taken := make(chan []byte), make(chan struct{})
	var readers sync.WaitGroup
	for _, p := range parts {
		readers.Go(func() {
			err := followOne(within, p, read, func(value []byte) {
				select {
				case values <- value:
					<-taken // the value belongs to the reader
				case <-within.Done():
				}
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	for {
		select {
		case value := <-values:
			f(value)
			taken <- struct{}{}
		case <-within.Done():
			readers.Wait()
			if ctx.Err() != nil {
				return nil
			}
			return context.Cause(within)
		}
	}
}

func followOne(ctx context.Context, p sebPart, read records, f func([]byte)) error {
	for r, err := range read(ctx, p) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("partition %d: %w", p.partition, err)
		}
		f(r.Value)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("partition %d: %w", p.partition, errEnded)
}

var errEnded = errors.New("the stream of records ended")

var errLateShare = errors.New("all shared subscribers must join before the first of them receives")

// sharing distributes the partitions to shared subscribers. Seb's groups only keep offsets; the
// readers decide what each reads.
type sharing struct {
	mu      sync.Mutex // guards the fields below
	joined  int        // in this process
	members int        // in all processes
	begun   bool
}

// join returns the number of the next member.
func (s *sharing) join(c *sut.Config) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return 0, errLateShare
	}
	s.joined++
	s.members = s.joined
	if c.Group != nil {
		s.members = c.Group.SubscribersAll
	}
	return c.SubscriberNumber(s.joined - 1), nil
}

// share returns a member's parts.
func (s *sharing) share(member int, parts []sebPart) []sebPart {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	var own []sebPart
	for i, p := range parts {
		if i%s.members == member {
			own = append(own, p)
		}
	}
	return own
}

// durabilityOf returns the durability of messages in a bucket.
func durabilityOf(bucket string) sut.Durability {
	switch {
	case strings.HasPrefix(bucket, "mem:"):
		return sut.Memory
	case strings.HasPrefix(bucket, "s3:"):
		return sut.ObjectStore
	case strings.Contains(bucket, "fsync=false"):
		return sut.PageCache
	}
	return sut.Fsync
}

var errBucketUnknown = errors.New(`unknown bucket, so the durability of messages is unknown: set option "bucket" to that of the broker`)

// versionOf returns the versionOf of a process's program: that of its module, and its commit.
func versionOf(pid int) string {
	info, err := buildinfo.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	if err != nil {
		return ""
	}
	parts := []string{info.Main.Version}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
			parts = append(parts, s.Key+"="+s.Value)
		}
	}
	return strings.Join(append(parts, info.GoVersion), " ")
}

// flagsOf returns the flagsOf of the broker's process from Linux, without keys.
func flagsOf(pid int) (map[string]string, error) {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return nil, fmt.Errorf("flags of the broker: %w", err)
	}
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	list := map[string]string{}
	for i := 1; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i], "--")
		if !ok {
			continue
		}
		name, value, given := strings.Cut(name, "=")
		if !given && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			value = args[i]
		}
		if name != "http-api-key" {
			list[name] = value
		}
	}
	return list, nil
}

// bucketOf returns the bucket of the broker: as given, or from its process.
func bucketOf(told string, pid int, settings map[string]string) (string, error) {
	if pid == 0 {
		if told == "" {
			return "", errBucketUnknown
		}
		return told, nil
	}
	list, err := flagsOf(pid)
	if err != nil {
		if told != "" {
			return told, nil
		}
		return "", err
	}
	for name, value := range list {
		settings["broker "+name] = value
	}
	if settings["broker batch-wait-time"] == "" {
		settings["broker batch-wait-time"] = "auto: by --put-budget on S3, at most 5ms elsewhere"
	}
	switch {
	case told != "":
		return told, nil
	case list["bucket"] != "":
		return list["bucket"], nil
	case list["s3-bucket"] != "":
		return "s3://" + list["s3-bucket"], nil
	}
	dir := list["data-dir"]
	dir = cmp.Or(dir, dataDirDefault)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join("/proc", strconv.Itoa(pid), "cwd", dir)
	}
	if a, ok := announcedIn(dir); ok && a.PID == pid {
		return a.Bucket, nil
	}
	return "", errBucketUnknown
}

// announced is the content of broker.json in the data directory of a running broker.
type announced struct {
	Address string `json:"address"`
	Key     string `json:"api_key"`
	Bucket  string `json:"bucket"`
	PID     int    `json:"pid"`
}

// dataDirDefault is Seb's default.
const dataDirDefault = "seb-data"

// announcedIn reads the file of a data directory; ok is false if no broker is running.
func announcedIn(dir string) (a announced, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, "broker.json"))
	if err != nil || json.Unmarshal(b, &a) != nil {
		return announced{}, false
	}
	_, err = os.Stat(filepath.Join("/proc", strconv.Itoa(a.PID)))
	return a, err == nil
}

// useLocal fills in missing options from the local broker, if it is the addressed one.
func (s *sebHTTP) useLocal(dir string) {
	a, ok := announcedIn(dir)
	if !ok || s.c.Address != "" && s.c.Address != a.Address {
		return
	}
	s.c.Address = a.Address
	s.key = cmp.Or(s.key, a.Key)
	if s.bucket == "" && s.c.PID == 0 {
		s.bucket = a.Bucket
	}
}
