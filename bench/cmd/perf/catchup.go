package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	catchUpTopic   = "history"
	catchUpDelay   = 40 * time.Millisecond // added to each request of a reading broker
	catchUpRate    = 200.0                 // MB/s
	catchUpWriters = 8
)

// catchUpRow is a way to read a whole topic.
type catchUpRow struct {
	name  string
	limit string // the broker's memory limit
	read  func(ctx context.Context, b *broker, kafka string, end int64) error
}

// catchUpRows are the rows of catchUp.
var catchUpRows = []catchUpRow{
	{"HTTP, RecordBatch", "256MiB", readHTTP},
	{"Kafka", "256MiB", readKafka},
	{"HTTP, RecordBatch", "64MiB", readHTTP},
	{"Kafka", "64MiB", readKafka},
}

// catchUpMB returns the MB that catchUp reads.
func catchUpMB(scale float64) int { return max(8, int(512*scale)) }

// catchUpRun is the result of one reader.
type catchUpRun struct {
	rate, inFlight, gets float64    // MB/s, GETs, GETs per MB
	cpu                  [3]float64 // ms per MB of broker, S3 server, and this program with reader and proxy
	rss                  float64    // maximum of the broker, MiB
}

// catchUp measures one consumer that reads a topic of an S3 bucket from its beginning, n times in
// turns. Each reader has a new broker with an empty disk cache, and each GET takes 40 ms longer than
// the S3 server needs. It calls done after each reader.
func (p *place) catchUp(ctx context.Context, scale float64, n int, done func()) (list []Check, err error) {
	runs := make([][]catchUpRun, len(catchUpRows))
	err = p.within(func(_, disk string) error {
		store := filepath.Join(disk, "s3")
		if err := os.Mkdir(store, 0o750); err != nil {
			return err
		}
		s3, err := testenv.StartS3(ctx, store)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s3.Stop()) }()
		proxy, err := testenv.NewS3Proxy(s3.Endpoint)
		if err != nil {
			return err
		}
		defer proxy.Close()
		m := &catchUpMeasure{p, s3, proxy, disk, catchUpMB(scale)}
		if err := m.fill(ctx); err != nil {
			return err
		}
		for range n {
			for i := range catchUpRows {
				r, err := m.run(ctx, &catchUpRows[i])
				if err != nil {
					return fmt.Errorf("%s, %s: %w", catchUpRows[i].name, catchUpRows[i].limit, err)
				}
				runs[i] = append(runs[i], r)
				done()
			}
		}
		return nil
	})
	for i := range runs {
		if len(runs[i]) > 0 {
			list = append(list, catchUpRows[i].check(runs[i]))
		}
	}
	return list, err
}

func (r *catchUpRow) check(runs []catchUpRun) Check {
	of := func(f func(catchUpRun) float64) report.Spread { return report.SpreadBy(runs, f) }
	rate := of(func(r catchUpRun) float64 { return r.rate })
	cpu := func(i int) string { return of(func(r catchUpRun) float64 { return r.cpu[i] }).Format("%.1f ms") }
	return Check{
		fmt.Sprintf("one cold consumer on S3 with %v added to each GET: %s, memory limit %s", catchUpDelay, r.name, r.limit),
		fmt.Sprintf("≥ %.0f MB/s", catchUpRate),
		fmt.Sprintf("%s; %s GETs in flight; %s GETs/MB; CPU per MB: broker %s, S3 server %s, reader and proxy %s; peak %s",
			rate.Format("%.0f MB/s"), of(func(r catchUpRun) float64 { return r.inFlight }).Format("%.1f"),
			of(func(r catchUpRun) float64 { return r.gets }).Format("%.2f"), cpu(0), cpu(1), cpu(2), of(func(r catchUpRun) float64 { return r.rss }).Format("%.0f MiB")),
		rate.Middle >= catchUpRate,
	}
}

// catchUpMeasure has what the readers share.
type catchUpMeasure struct {
	*place
	s3    *testenv.S3Server
	proxy *testenv.S3Proxy
	dir   string
	mb    int
}

// serve starts a broker on the bucket with a new data folder, and returns its Kafka address.
func (m *catchUpMeasure) serve(args ...string) (b *broker, kafka, data string, err error) {
	if data, err = os.MkdirTemp(m.dir, "data-"); err != nil {
		return nil, "", "", err
	}
	if kafka, err = testenv.FreeAddress(); err != nil {
		return nil, "", "", err
	}
	for _, key := range testenv.S3Keys {
		name, value, _ := strings.Cut(key, "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, "", "", err
		}
	}
	b, err = m.place.serve(m.proxy.Spec("catch-up"), data, append(args, "--kafka-listen", kafka)...)
	return b, kafka, data, err
}

// fill writes the topic: batches of 1 MB with records of 1,000 bytes.
func (m *catchUpMeasure) fill(ctx context.Context) error {
	b, _, data, err := m.serve("--merge-interval", "24h")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	defer b.Kill()
	if _, err := b.client.PutTopic(ctx, catchUpTopic, client.TopicSpec{Partitions: 1}); err != nil {
		return err
	}
	list := make([]record.Record, 1000)
	for i := range list {
		list[i].Value = make([]byte, 1000)
	}
	batch, _, err := record.Append(nil, list, record.EncodeOptions{})
	if err != nil {
		return err
	}
	var left atomic.Int64
	left.Store(int64(m.mb))
	errs := make([]error, catchUpWriters)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for left.Add(-1) >= 0 && errs[i] == nil {
				_, errs[i] = b.client.ProduceBatches(ctx, catchUpTopic, batch, client.ProduceOptions{})
			}
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), b.stop())
}

// run measures one reader.
func (m *catchUpMeasure) run(ctx context.Context, row *catchUpRow) (r catchUpRun, err error) {
	b, kafka, data, err := m.serve("--merge-interval", "24h", "--memory-limit", row.limit)
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(data)
	defer b.Kill()
	m.proxy.SetDelay(catchUpDelay)
	defer m.proxy.SetDelay(0)
	gets, busy, began := m.proxy.Counts(), m.proxy.GetTime(), time.Now()
	before, err := m.cpu(b)
	if err != nil {
		return r, err
	}
	if err := row.read(ctx, b, kafka, int64(m.mb)*1000); err != nil {
		return r, err
	}
	took, mb := time.Since(began), float64(m.mb)
	after, err := m.cpu(b)
	if err != nil {
		return r, err
	}
	r.rate, r.inFlight = mb/took.Seconds(), (m.proxy.GetTime()-busy).Seconds()/took.Seconds()
	r.gets = float64(m.proxy.Counts().Sub(gets).Of(testenv.Get, "wal", "pack")) / mb
	r.rss = float64(b.Status("VmHWM")) / (1 << 20)
	for i := range r.cpu {
		r.cpu[i] = float64((after[i] - before[i]).Milliseconds()) / mb
	}
	return r, b.stop()
}

// cpu returns the CPU time of broker, S3 server and this program.
func (m *catchUpMeasure) cpu(b *broker) (used [3]time.Duration, err error) {
	for i, pid := range []int{b.Pid(), m.s3.Pid(), os.Getpid()} {
		s, err := machine.Process(pid)
		if err != nil {
			return used, err
		}
		used[i] = s.CPU
	}
	return used, nil
}

// readHTTP reads all records below end with the Go client's Fetch, one request after the other.
func readHTTP(ctx context.Context, b *broker, _ string, end int64) error {
	for at := int64(0); at < end; {
		f, err := b.client.Fetch(ctx, catchUpTopic, client.FetchOptions{Offset: at})
		if err != nil {
			return err
		}
		for _, err := range f.All() {
			if err != nil {
				return errors.Join(err, f.Close())
			}
		}
		if f.ResumeOffset() == at {
			return errors.Join(fmt.Errorf("no record at offset %d of %d", at, end), f.Close())
		}
		at = f.ResumeOffset()
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// readKafka reads all records below end with franz-go, whose defaults have one fetch in flight and
// one buffered.
func readKafka(ctx context.Context, b *broker, address string, end int64) error {
	c, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.SASL(scram.Auth{User: "perf", Pass: b.key}.AsSha256Mechanism()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{catchUpTopic: {0: kgo.NewOffset().At(0)}}),
	)
	if err != nil {
		return err
	}
	defer c.Close()
	for at := int64(0); at < end; {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			return err
		}
		f.EachRecord(func(r *kgo.Record) { at = r.Offset + 1 })
	}
	return nil
}
