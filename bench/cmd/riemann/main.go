// Command riemann measures the reference load of Riemann's protocol: a broker process with a bucket
// on disk, and in turns a process that only reads, counts and answers. It prints the tables of
// docs/reports/riemann.md: acknowledged events per second, CPU time per event, and latencies of
// single events. With -flood it measures appends over HTTP and Kafka during a flood of datagrams
// instead, which is another section of the report. Without -program it builds Seb first. The defaults
// take two minutes.
//
//	go run -C bench ./cmd/riemann -report docs/reports/riemann.md    # also writes docs/reports/riemann.svg
//	go run -C bench ./cmd/riemann -flood -report docs/reports/riemann.md
//	go run -C bench ./cmd/riemann -rounds 1 -time 2s -latency 1s     # a first impression
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/riemanntest"
	"github.com/sebbroker/seb/test/testenv"
)

//go:embed main.go
var source string

type options struct {
	rounds      int
	time        time.Duration
	latency     time.Duration
	connections int
	window      int
	disk        string
	program     string
	flood       bool
	rate        int
	report      string
	version     string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "turns of Seb and of the bare server")
	flag.DurationVar(&o.time, "time", 8*time.Second, "duration of a turn")
	flag.DurationVar(&o.latency, "latency", 12*time.Second, "duration of each measurement of latencies")
	flag.IntVar(&o.connections, "connections", 4, "connections of the load, or with -flood clients")
	flag.IntVar(&o.window, "window", 100, "messages of a connection that wait for their answer")
	flag.BoolVar(&o.flood, "flood", false, "measure other clients during a flood of datagrams")
	flag.IntVar(&o.rate, "rate", 100_000, "datagrams per second of -flood")
	flag.StringVar(&o.disk, "disk", "bin", "folder on the measured disk")
	flag.StringVar(&o.program, "program", "", "a built seb (empty: build it)")
	flag.StringVar(&o.report, "report", "", "Markdown file for the report; its picture has the same name and .svg (empty: only print)")
	flag.StringVar(&o.version, "version", "", "version in the report (empty: from git describe)")
	bare := flag.String("bare", "", "be the bare server on this address, until SIGTERM")
	campaign.Do(source, func(ctx context.Context) error {
		if *bare != "" {
			return serveBare(ctx, *bare)
		}
		if o.rounds < 1 || o.time < 2*slice || o.connections < 1 || o.window < 1 || o.rate < 1 {
			return fmt.Errorf("-rounds, -connections, -window and -rate: want at least 1; -time: want at least %v", 2*slice)
		}
		if o.flood && o.connections < 2 {
			return errors.New("-connections: want at least 2 with -flood")
		}
		o.version = cmp.Or(o.version, campaign.Version(ctx))
		return o.run(ctx)
	})
}

// serveBare is the process of the bare server. It prints its number of messages at the end.
func serveBare(ctx context.Context, addr string) error {
	s, err := riemanntest.NewBare(addr)
	if err != nil {
		return err
	}
	fmt.Println(listeningLine)
	<-ctx.Done()
	err = s.Close()
	fmt.Printf("%s%d\n", countLine, s.Count())
	return err
}

func (o *options) run(ctx context.Context) (err error) {
	if err := os.MkdirAll(o.disk, 0o750); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.disk, "riemann-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	p := place{options: o, dir: dir}
	if p.seb = o.program; p.seb == "" {
		if p.seb, err = testenv.Build(dir); err != nil {
			return err
		}
	}
	if p.self, err = os.Executable(); err != nil {
		return err
	}
	if o.flood {
		r, err := p.flood(ctx)
		if err != nil {
			return err
		}
		return o.writeFlood(r)
	}
	r, err := p.measure(ctx)
	if err != nil {
		return err
	}
	return o.write(r)
}

// writeFlood prints the section of the flood, or writes it into the report.
func (o *options) writeFlood(r *flooded) error {
	if o.report == "" {
		return r.write(os.Stdout)
	}
	var section strings.Builder
	text, err := os.ReadFile(o.report)
	if err := errors.Join(err, r.write(&section)); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(o.report, []byte(replaceSection(string(text), floodHeading, section.String())), 0o644), r.write(os.Stdout))
}

// write prints the report, or writes it and its picture.
func (o *options) write(r *result) error {
	if o.report == "" {
		return r.write(os.Stdout, "")
	}
	picture := strings.TrimSuffix(o.report, ".md") + ".svg"
	sections := ""
	if old, err := os.ReadFile(o.report); err == nil { // the sections of other measurements stay
		if i := strings.Index(string(old), "\n## "); i >= 0 {
			sections = string(old[i:])
		}
	}
	var text, svg strings.Builder
	if err := errors.Join(r.write(&text, filepath.Base(picture)), r.sheet().SVG(&svg)); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(o.report, []byte(text.String()+sections), 0o644),
		os.WriteFile(picture, []byte(svg.String()), 0o644),
		r.write(os.Stdout, ""),
	)
}

const (
	// topic is the default of --riemann-topic.
	topic = "riemann"
	// The bare server prints these lines: when it accepts connections, and its number of messages at
	// the end.
	listeningLine = "listening"
	countLine     = "messages: "
)

// target is a running server.
type target struct {
	*testenv.Broker
	addr  string // of Riemann's protocol
	turns []turn
	all   int64 // acknowledged events, with those of the warm-up
	peak  int64 // memory in bytes

	url, data string // only of Seb
}

// startSeb starts a broker with an empty bucket on the measured disk.
func (p *place) startSeb(name string, args ...string) (*target, error) {
	addr, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	t := &target{addr: addr, data: filepath.Join(p.dir, name+"-data")}
	bucket := "file:" + filepath.Join(p.dir, name+"-bucket")
	args = append([]string{"--bucket", bucket, "--data-dir", t.data, "--http-port", "0", "--riemann-listen", addr}, args...)
	if t.Broker, err = testenv.Serve(p.seb, nil, args...); err != nil {
		return nil, err
	}
	if t.url, err = t.Address(t.data); err != nil {
		t.Kill()
		return nil, err
	}
	return t, nil
}

// startBare starts the bare server in a process.
func (p *place) startBare() (*target, error) {
	addr, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	listening := make(chan struct{})
	note := func(line string) {
		if line == listeningLine {
			close(listening)
		}
	}
	run, err := testenv.StartProgram(p.self, nil, note, "-bare", addr)
	if err != nil {
		return nil, err
	}
	select {
	case <-listening:
		return &target{Broker: run, addr: addr}, nil
	case <-run.Done():
		return nil, fmt.Errorf("bare server ended: %s", run.Log())
	}
}

// stored returns the number of events in the broker's topic.
func (t *target) stored(ctx context.Context) (int64, error) {
	key, err := os.ReadFile(filepath.Join(t.data, "api-key"))
	if err != nil {
		return 0, err
	}
	c, err := client.New(t.url, client.Options{APIKey: strings.TrimSpace(string(key))})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	found, err := c.Topic(ctx, topic)
	return found.NextOffset, err
}

// stop stops a broker gracefully.
func (t *target) stop() error {
	if code := t.Stop(); code != 0 {
		return fmt.Errorf("exit code %d of seb\n%s", code, t.Log())
	}
	return nil
}

// counted stops the bare server and compares its count with the answers.
func (t *target) counted() error {
	t.Stop()
	want := fmt.Sprint(countLine, t.all/riemanntest.PerMessage)
	if !strings.HasSuffix(t.Log(), want) {
		return fmt.Errorf("output of the bare server: %q, want %q at the end", t.Log(), want)
	}
	return nil
}
