package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/test/testenv"
)

// path is the measurement of one tool.
type path struct {
	Rate float64 `json:"records_per_second"` // from the tool
	// CPU is the user and system time of all threads of the broker, from before the tool until
	// after it.
	CPU float64 `json:"broker_cpu_us_per_record"`
	// Tool is the user and system time of the tool, with the start of its JVM.
	Tool float64 `json:"tool_cpu_us_per_record"`
	// Latency of a record including the producer's buffer.
	Wait float64 `json:"latency_p99_ms,omitempty"`
	Join float64 `json:"group_join_seconds,omitempty"` // not part of the rate

	// Numbers from the producer.
	Batch   float64 `json:"batch_bytes_mean,omitempty"`
	Request float64 `json:"request_latency_ms_mean,omitempty"` // from a request to its answer
}

// sample is one turn of a broker.
type sample struct {
	Produce path  `json:"produce"`
	Consume path  `json:"consume"`
	RSS     int64 `json:"rss_bytes"`      // after both
	Peak    int64 `json:"rss_max_bytes"`  // since the start
	Heap    int64 `json:"anon_rss_bytes"` // RSS without files such as the program
	// Later is the CPU time per record during the time to settle: Seb merges objects once a minute.
	Later float64 `json:"later_cpu_us_per_record,omitempty"`
}

// turn starts a broker in a new folder below dir, warms it up, and measures both tools.
func turn(ctx context.Context, o *options, tools, dir string, s *system) (got *sample, err error) {
	if dir, err = os.MkdirTemp(dir, s.name+"-"); err != nil {
		return nil, err
	}
	b, err := s.start(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	c := &clients{o: o, tools: tools, b: b}
	if _, err := c.both(ctx, "warm-up", o.Warmup); err != nil {
		return nil, err
	}
	if got, err = c.both(ctx, "measured", o.Records); err != nil {
		return nil, err
	}
	if got.RSS, got.Peak, got.Heap, err = memory(b.pid); err != nil {
		return nil, err
	}
	return got, c.settle(ctx, got)
}

// settle waits, and measures the broker's background work.
func (c *clients) settle(ctx context.Context, got *sample) error {
	if c.o.Settle == 0 {
		return nil
	}
	before, err := machine.Process(c.b.pid)
	if err != nil {
		return err
	}
	select {
	case <-time.After(c.o.Settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := machine.Process(c.b.pid)
	got.Later = float64((after.CPU - before.CPU).Microseconds()) / float64(c.o.Records+c.o.Warmup)
	return err
}

// clients runs Kafka's tools on a broker.
type clients struct {
	o     *options
	tools string
	b     *broker
}

// both writes a new topic and reads it.
func (c *clients) both(ctx context.Context, topic string, records int) (*sample, error) {
	if _, err := c.run(ctx, "TopicCommand", "--create", "--topic", topic, "--partitions", strconv.Itoa(c.o.Partitions)); err != nil {
		return nil, err
	}
	args := []string{"--topic", topic, "--num-records", strconv.Itoa(records), "--record-size", strconv.Itoa(c.o.Size), "--throughput", "-1", "--print-metrics"}
	args = append(args, properties(c.o.Properties)...)
	s := &sample{}
	err := c.measure(&s.Produce, records, produced, func() (string, error) { return c.run(ctx, "ProducerPerformance", args...) })
	if err == nil {
		err = heeded(c.o.Properties, s.Produce.Batch)
	}
	if err != nil {
		return nil, err
	}
	args = []string{"--topic", topic, "--num-records", strconv.Itoa(records), "--timeout", "60000"}
	args = append(args, properties(c.o.Consumer)...)
	return s, c.measure(&s.Consume, records, consumed, func() (string, error) { return c.run(ctx, "ConsumerPerformance", args...) })
}

// properties returns settings as arguments of the tools: all after one flag, because
// ProducerPerformance, unlike ConsumerPerformance, ignores earlier flags.
func properties(settings string) []string {
	return append([]string{"--command-property"}, strings.Fields(settings)...)
}

// measure runs a tool and reads its output and the broker's use meanwhile.
func (c *clients) measure(p *path, records int, read func(string, int) (path, error), run func() (string, error)) error {
	before, err := machine.Process(c.b.pid)
	if err != nil {
		return err
	}
	tool := childrenCPU()
	out, err := run()
	if err != nil {
		return err
	}
	tool = childrenCPU() - tool
	after, err := machine.Process(c.b.pid)
	if err != nil {
		return err
	}
	*p, err = read(out, records)
	p.CPU = float64((after.CPU - before.CPU).Microseconds()) / float64(records)
	p.Tool = float64(tool.Microseconds()) / float64(records)
	return err
}

// childrenCPU returns the user and system time of all child processes that have ended.
func childrenCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (c *clients) run(ctx context.Context, class string, args ...string) (string, error) {
	// Like Kafka's scripts for the perf tools: half a gigabyte and all compilers of Java.
	all := append([]string{
		"-Xmx512m", "-cp", c.tools, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"org.apache.kafka.tools." + class, "--bootstrap-server", c.b.address, "--command-config", c.b.settings,
	}, args...)
	return testenv.Command(ctx, ".", "java", all...)
}

// heeded checks that batches have the configured size, because a tool that ignores its settings
// measures something else.
func heeded(settings string, batch float64) error {
	for _, p := range strings.Fields(settings) {
		text, ok := strings.CutPrefix(p, "batch.size=")
		if !ok {
			continue
		}
		if want, err := strconv.ParseFloat(text, 64); err != nil || batch < want/2 || batch > want {
			return fmt.Errorf("producer has setting %s, but its batches have %.0f bytes", p, batch)
		}
	}
	return nil
}

// produced parses the last line of kafka-producer-perf-test about records, 1000 records sent,
// 2000.5 records/sec (…), …, 7 ms 99th, …, and the metrics of path.
func produced(out string, records int) (path, error) {
	var p path
	var n int
	var last string
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(line, "}")
		figure, err := strconv.ParseFloat(strings.Trim(value, " :\n"), 64)
		switch {
		case strings.Contains(line, " records sent, "):
			last = line
		case err != nil:
		case strings.HasPrefix(name, "producer-metrics:batch-size-avg:"):
			p.Batch = figure
		case strings.HasPrefix(name, "producer-metrics:request-latency-avg:"):
			p.Request = figure
		}
	}
	if _, err := fmt.Sscanf(last, "%d records sent, %f records/sec", &n, &p.Rate); err != nil || n != records || p.Rate <= 0 {
		return p, fmt.Errorf("not the end of %d records: %q", records, last)
	}
	for _, part := range strings.Split(last, ", ") {
		if text, ok := strings.CutSuffix(part, " ms 99th"); ok {
			p.Wait, _ = strconv.ParseFloat(text, 64) // 0: unknown
		}
	}
	return p, nil
}

// consumed parses the line of kafka-consumer-perf-test; the line above has the names of its
// columns.
func consumed(out string, records int) (path, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) < 2 {
		return path{}, fmt.Errorf("no table: %q", out)
	}
	names, cells := strings.Split(lines[len(lines)-2], ", "), strings.Split(lines[len(lines)-1], ", ")
	if len(names) != len(cells) {
		return path{}, fmt.Errorf("not a table: %q", out)
	}
	values := map[string]float64{}
	for i, name := range names {
		if v, err := strconv.ParseFloat(cells[i], 64); err == nil {
			values[name] = v
		}
	}
	p := path{Rate: values["fetch.nMsg.sec"], Join: values["rebalance.time.ms"] / 1000}
	if int(values["data.consumed.in.nMsg"]) < records || p.Rate <= 0 {
		return p, fmt.Errorf("not %d records: %q", records, out)
	}
	return p, nil
}

// memory returns a process's current and peak resident memory, and the anonymous part.
func memory(pid int) (now, most, anonymous int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		for field, into := range map[string]*int64{"VmRSS": &now, "VmHWM": &most, "RssAnon": &anonymous} {
			if name == field {
				n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
				if err != nil {
					return 0, 0, 0, err
				}
				*into = n << 10
			}
		}
	}
	if now == 0 || most == 0 {
		return 0, 0, 0, fmt.Errorf("/proc/%d/status has no memory", pid)
	}
	return now, most, anonymous, nil
}

// load returns the machine's load average.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// broker is a running broker.
type broker struct {
	address  string
	pid      int
	settings string // of clients
	stop     func() error
}

// system is a broker with a durability.
type system struct {
	name, title string
	start       func(ctx context.Context, o *options, dir string) (*broker, error)
}

const (
	kafkaName = "kafka"
	sebName   = "seb"
)

var systems = []system{
	{kafkaName, "Kafka 4.3.1, no fsync", kafka("kafka-memory")},
	{sebName, "Seb, disk, fsync", seb("")},
	{"kafka-fsync", "Kafka 4.3.1, flush for each message", kafka("kafka-fsync")},
	{"seb-memory", "Seb, memory", seb("mem:")},
}

func names() (list []string) {
	for _, s := range systems {
		list = append(list, s.name)
	}
	return list
}

func find(name string) (*system, error) {
	for i := range systems {
		if systems[i].name == name {
			return &systems[i], nil
		}
	}
	return nil, fmt.Errorf("unknown system %q; systems: %s", name, strings.Join(names(), ", "))
}

// peerLine matches the output of seb-bench for a running peer.
var peerLine = regexp.MustCompile(`address=(\S+) pid=(\d+)`)

// kafka starts a kind of Kafka with seb-bench.
func kafka(kind string) func(context.Context, *options, string) (*broker, error) {
	return func(ctx context.Context, o *options, dir string) (*broker, error) {
		down := func() error {
			out, err := exec.Command(o.Bench, "peers", "down", kind, "--data", dir).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
			}
			return nil
		}
		out, err := exec.CommandContext(ctx, o.Bench, "peers", "up", kind, "--data", dir).CombinedOutput()
		m := peerLine.FindSubmatch(out)
		if err != nil || m == nil {
			return nil, errors.Join(fmt.Errorf("start of Kafka: %w: %s", err, bytes.TrimSpace(out)), down())
		}
		pid, err := strconv.Atoi(string(m[2]))
		if err != nil {
			return nil, errors.Join(err, down())
		}
		b := &broker{address: string(m[1]), pid: pid, settings: filepath.Join(dir, "client.properties"), stop: down}
		if err := os.WriteFile(b.settings, nil, 0o600); err != nil {
			return nil, errors.Join(err, down())
		}
		return b, nil
	}
}

// seb starts `seb serve`; bucket "" is a folder.
func seb(bucket string) func(context.Context, *options, string) (*broker, error) {
	return func(_ context.Context, o *options, dir string) (*broker, error) {
		const key = "speed-key-0123456789"
		store := bucket
		store = cmp.Or(store, filepath.Join(dir, "bucket"))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		b := &broker{address: l.Addr().String(), settings: filepath.Join(dir, "client.properties")}
		text := `security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="speed" password="` + key + "\";\n"
		if err := errors.Join(l.Close(), os.WriteFile(b.settings, []byte(text), 0o600)); err != nil {
			return nil, err
		}
		data := filepath.Join(dir, "data")
		run, err := testenv.Serve(o.Seb, []string{"SEB_API_KEY=" + key}, append([]string{
			"--bucket", store, "--data-dir", data, "--http-port", "0", "--kafka-listen", b.address,
		}, strings.Fields(o.SebFlags)...)...)
		if err != nil {
			return nil, err
		}
		b.stop = func() error {
			if code := run.Stop(); code != 0 {
				return fmt.Errorf("seb ended with code %d: %s", code, run.Log())
			}
			return nil
		}
		if _, err := run.Address(data); err != nil {
			return nil, errors.Join(err, b.stop())
		}
		b.pid = run.Pid()
		return b, nil
	}
}
