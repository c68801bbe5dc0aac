package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/report"
	histograms "github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/client"
	host "github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/test/riemanntest"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	floodMemory   = "64MiB" // --memory-limit of the broker
	floodTopic    = "appends"
	floodRecord   = 100  // bytes of a record of the other clients
	burstsSecond  = 1000 // bursts of datagrams per second
	settleTimeout = time.Minute
	sampleEvery   = 10 * time.Millisecond // of memory
)

// The kinds of turns, which alternate.
const (
	quiet  = iota // no datagrams
	unread        // datagrams to a socket that no process reads: what the sender and the kernel take
	flood         // datagrams to Seb
	kinds
)

var kindNames = [kinds]string{"none", "to a socket that is not read", "to Seb"}

// floodTurn is a turn of appends over HTTP and Kafka.
type floodTurn struct {
	took         time.Duration
	http, kafka  *histograms.Histogram
	server, load time.Duration // CPU time of the broker, and of this process
	sent         uint64        // datagrams
	stored       uint64        // their events
	dropped      uint64
}

// flooded is the result of the flood.
type flooded struct {
	*options
	started       time.Time
	before, after machine.Detail
	filesystem    string
	turns         [kinds][]floodTurn
	peak          [2]int64 // memory of the broker in bytes: before the first flood, in all
	records       int64    // in the topic of events, without those that the broker adds
	stored        uint64
}

// flooder sends datagrams, and compares them with the counts of the broker.
type flooder struct {
	*target
	key       string
	toSeb     net.Conn
	unread    net.Conn
	datagram  []byte
	sent      uint64 // to Seb
	had       counts
	program   int64 // bytes of the program's pages
	appenders []func(ctx context.Context) error
	http      int // of appenders use HTTP
}

// counts are counters of the broker.
type counts struct{ stored, dropped, expired uint64 }

func (p *place) flood(ctx context.Context) (r *flooded, err error) {
	r = &flooded{options: p.options, started: time.Now(), before: machine.HereInDetail()}
	if r.filesystem, err = machine.Filesystem(p.dir); err != nil {
		return nil, err
	}
	f, stop, err := p.startFlood(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	peak := f.sample()
	defer func() { peak() }()
	bar := progress.New(os.Stderr, "riemann", int64(kinds*p.rounds), nil)
	for round := -1; round < p.rounds; round++ { // the first one warms up, without a flood
		for kind := range kinds {
			if round < 0 && kind == flood {
				r.peak[0] = peak()
				peak = f.sample()
				continue
			}
			d := p.time
			if round < 0 {
				d /= 4
			}
			t, err := f.turn(ctx, p.options, kind, d)
			if err != nil {
				return nil, fmt.Errorf("datagrams %s: %w\n%s", kindNames[kind], err, f.Log())
			}
			if round >= 0 {
				r.turns[kind] = append(r.turns[kind], t)
				bar.Add(1)
			}
		}
	}
	bar.Clear()
	r.peak[1], r.after = peak(), machine.HereInDetail()
	if r.records, err = f.target.stored(ctx); err != nil {
		return nil, err
	}
	had, err := f.counts(ctx)
	if err != nil {
		return nil, err
	}
	r.stored, r.records = had.stored, r.records-int64(had.expired)
	return r, f.target.stop()
}

// sample measures the memory that the kernel cannot reclaim: that of the program, whose pages it
// reads from a file, and the anonymous pages. It returns the function that ends it and returns the
// peak.
func (f *flooder) sample() (peak func() int64) {
	var most int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			most = max(most, f.program+f.Status("RssAnon"))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	end := sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
	return func() int64 {
		end()
		return most
	}
}

// startFlood starts a broker, its clients and the sockets for datagrams.
func (p *place) startFlood(ctx context.Context) (f *flooder, stop func(), err error) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0") // stays open: it is the socket that is not read
	if err != nil {
		return nil, nil, err
	}
	kafka, err := testenv.FreeAddress()
	if err != nil {
		return nil, nil, err
	}
	f = &flooder{datagram: riemanntest.Message(1)}
	to, err := testenv.FreeAddress()
	if err != nil {
		return nil, nil, err
	}
	f.target, err = p.startSeb("flood", "--riemann-udp", to, "--kafka-listen", kafka, "--memory-limit", floodMemory)
	if err != nil {
		return nil, nil, err
	}
	f.program = f.Status("RssFile") + f.Status("RssShmem") // the latter in a file system in memory
	var k *kgo.Client
	stop = func() {
		f.Kill()
		if k != nil {
			k.Close()
		}
		_ = udp.Close()
	}
	key, err := os.ReadFile(filepath.Join(f.data, "api-key"))
	f.key = strings.TrimSpace(string(key))
	if err == nil {
		f.toSeb, err = net.Dial("udp", to)
	}
	if err == nil {
		f.unread, err = net.Dial("udp", udp.LocalAddr().String())
	}
	if err == nil {
		k, err = f.clients(ctx, p.options, kafka)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return f, stop, nil
}

// clients starts the clients, of which half use Kafka's protocol.
func (f *flooder) clients(ctx context.Context, o *options, kafka string) (*kgo.Client, error) {
	c, err := client.New(f.url, client.Options{APIKey: f.key})
	if err != nil {
		return nil, err
	}
	if _, err := c.CreateTopic(ctx, floodTopic, client.TopicSpec{}); err != nil {
		return nil, err
	}
	value := bytes.Repeat([]byte("x"), floodRecord)
	f.http = (o.connections + 1) / 2
	for range f.http {
		f.appenders = append(f.appenders, func(ctx context.Context) error {
			_, err := c.ProduceValues(ctx, floodTopic, [][]byte{value}, client.ProduceOptions{})
			return err
		})
	}
	k, err := kgo.NewClient(kgo.SeedBrokers(kafka), kgo.SASL(plain.Auth{User: "riemann", Pass: f.key}.AsMechanism()), kgo.ProducerLinger(0), kgo.DefaultProduceTopic(floodTopic), kgo.DisableIdempotentWrite(),
		kgo.MaxProduceRequestsInflightPerBroker(o.connections))
	if err != nil {
		return nil, err
	}
	for len(f.appenders) < o.connections {
		f.appenders = append(f.appenders, func(ctx context.Context) error {
			return k.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr()
		})
	}
	return k, nil
}

// turn measures appends for a time: each client begins the next one after the answer to the last.
func (f *flooder) turn(ctx context.Context, o *options, kind int, d time.Duration) (t floodTurn, err error) {
	t.http, t.kafka = histograms.NewHistogram(), histograms.NewHistogram()
	before, err := machine.Process(f.Pid())
	if err != nil {
		return t, err
	}
	begin, own := time.Now(), host.CPUTime()
	ctx, cancel := context.WithDeadline(ctx, begin.Add(d+settleTimeout))
	defer cancel()
	var mu sync.Mutex // guards the histograms
	errs := make(chan error, len(f.appenders)+1)
	for i, do := range f.appenders {
		go func() {
			var err error
			for at := time.Now(); err == nil && time.Since(begin) < d; at = time.Now() {
				err = do(ctx)
				mu.Lock()
				if i < f.http {
					t.http.Record(int64(time.Since(at)))
				} else {
					t.kafka.Record(int64(time.Since(at)))
				}
				mu.Unlock()
			}
			errs <- err
		}()
	}
	go func() {
		var err error
		switch kind {
		case unread:
			t.sent, err = f.send(ctx, f.unread, o.rate, begin.Add(d))
		case flood:
			t.sent, err = f.send(ctx, f.toSeb, o.rate, begin.Add(d))
			f.sent += t.sent
		}
		errs <- err
	}()
	for range len(f.appenders) + 1 {
		err = errors.Join(err, <-errs)
	}
	t.took, t.load = time.Since(begin), host.CPUTime()-own
	after, fault := machine.Process(f.Pid())
	if err = errors.Join(err, fault); err != nil {
		return t, err
	}
	t.server = after.CPU - before.CPU
	if kind == flood {
		err = f.settle(ctx, &t)
	}
	return t, err
}

// send sends datagrams at a rate per second until a time, in bursts. It makes up for late bursts.
func (f *flooder) send(ctx context.Context, to net.Conn, rate int, until time.Time) (sent uint64, err error) {
	tick := time.NewTicker(time.Second / burstsSecond)
	defer tick.Stop()
	for begin := time.Now(); ; {
		now := time.Now()
		if now.After(until) {
			return sent, nil
		}
		for due := uint64(now.Sub(begin).Seconds() * float64(rate)); sent < due; sent++ {
			if _, err := to.Write(f.datagram); err != nil {
				return sent, err
			}
			if sent%256 == 0 && time.Now().After(until) { // the machine is too slow for the rate
				return sent + 1, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return sent, ctx.Err()
		}
	}
}

// settle waits until every datagram is stored or counted as dropped. The kernel's count arrives with
// the next datagram, so settle sends more of them.
func (f *flooder) settle(ctx context.Context, t *floodTurn) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := f.toSeb.Write(f.datagram); err != nil {
			return err
		}
		f.sent++
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d datagrams were sent, the broker has counted %+v: %w", f.sent, f.had, ctx.Err())
		}
		now, err := f.counts(ctx)
		if err != nil {
			return err
		}
		if now.stored+now.dropped == f.sent {
			t.stored, t.dropped = now.stored-f.had.stored, now.dropped-f.had.dropped
			f.had = now
			return nil
		}
	}
}

// counts reads the counters of the broker.
func (f *flooder) counts(ctx context.Context) (c counts, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/metrics", http.NoBody)
	if err != nil {
		return c, err
	}
	r.Header.Set("Authorization", "Bearer "+f.key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), " ")
		to := map[string]*uint64{
			"seb_riemann_events_total": &c.stored, "seb_riemann_datagrams_dropped_total": &c.dropped, "seb_riemann_index_expired_total": &c.expired,
		}[name]
		if to == nil {
			continue
		}
		if *to, err = strconv.ParseUint(value, 10, 64); err != nil {
			return c, fmt.Errorf("metric %s: %w", name, err)
		}
	}
	return c, nil
}

// floodHeading is the section of the report.
const floodHeading = "## Other clients during a flood of datagrams\n"

// slowest is the largest ratio of p99 with a flood and without.
const slowest = 2

// percentile returns a percentile of a turn's latencies in ms.
func percentile(of func(*floodTurn) *histograms.Histogram, p float64) func(floodTurn) float64 {
	return func(t floodTurn) float64 {
		d, _ := of(&t).Percentile(p)
		return float64(d) / float64(time.Millisecond)
	}
}

func httpOf(t *floodTurn) *histograms.Histogram  { return t.http }
func kafkaOf(t *floodTurn) *histograms.Histogram { return t.kafka }

// write writes the section of the flood.
func (r *flooded) write(out io.Writer) error {
	loads := func(l [3]float64) string { return fmt.Sprintf("%.2f, %.2f, %.2f", l[0], l[1], l[2]) }
	fmt.Fprintf(out, `%s
Commit %s, %s. %s.
Bucket on %s. Load average (1, 5 and 15 minutes) %s before the run,
%s after it.

%s

The broker has a memory limit of %s. %d clients append records of %d bytes over HTTP, and %d over
Kafka's protocol; each begins the next append after the answer to the last one. Meanwhile this process
sends %d datagrams per second with one event each: none; to a socket that is not read, which costs
what the sender and the kernel take; to Seb. The kinds take turns of %v and share the machine. Median
and range of %d turns.

`, floodHeading, r.version, r.started.UTC().Format(time.DateOnly), r.before, r.filesystem, loads(r.before.Load), loads(r.after.Load),
		"```sh\ngo run -C bench ./cmd/riemann -flood -report docs/reports/riemann.md    # two minutes\n```",
		floodMemory, (r.connections+1)/2, floodRecord, r.connections/2, r.rate, r.time, r.rounds)
	rows := [][]string{{"datagrams", "HTTP p50, ms", "HTTP p99, ms", "Kafka p50, ms", "Kafka p99, ms", "appends/s", "Seb's CPU, cores", "load's CPU, cores"}}
	for kind, turns := range r.turns {
		row := []string{kindNames[kind]}
		for _, of := range []func(*floodTurn) *histograms.Histogram{httpOf, kafkaOf} {
			for _, p := range []float64{50, 99} {
				row = append(row, report.SpreadBy(turns, percentile(of, p)).Format("%.1f"))
			}
		}
		rows = append(rows, append(row,
			report.SpreadBy(turns, func(t floodTurn) float64 { return float64(t.http.Count()+t.kafka.Count()) / t.took.Seconds() }).Format("%.0f"),
			report.SpreadBy(turns, func(t floodTurn) float64 { return t.server.Seconds() / t.took.Seconds() }).Format("%.2f"),
			report.SpreadBy(turns, func(t floodTurn) float64 { return t.load.Seconds() / t.took.Seconds() }).Format("%.2f")))
	}
	if err := report.AlignedTable(out, rows); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return report.AlignedTable(out, r.verdicts())
}

// ratio compares a percentile of turns of the same round.
func (r *flooded) ratio(of func(*floodTurn) *histograms.Histogram, than int) report.Spread {
	var list []float64
	for i := range r.turns[flood] {
		figure := percentile(of, 99)
		list = append(list, figure(r.turns[flood][i])/figure(r.turns[than][i]))
	}
	return report.SpreadOf(list)
}

func (r *flooded) verdicts() [][]string {
	rows := [][]string{{"flood to Seb", "measured", "target", ""}}
	for _, c := range []struct {
		name string
		of   func(*floodTurn) *histograms.Histogram
	}{{"HTTP", httpOf}, {"Kafka", kafkaOf}} {
		all, own := r.ratio(c.of, quiet), r.ratio(c.of, unread)
		rows = append(rows,
			[]string{c.name + " p99, of that without datagrams", all.Format("%.2f"), fmt.Sprintf("≤ %d", slowest), report.Verdict(all.Middle <= slowest)},
			[]string{c.name + " p99, of that with unread datagrams", own.Format("%.2f"), "", ""})
	}
	var sent, stored, dropped uint64
	for _, t := range r.turns[flood] {
		sent, stored, dropped = sent+t.sent, stored+t.stored, dropped+t.dropped
	}
	rate := func(of func(floodTurn) uint64) string {
		return report.SpreadBy(r.turns[flood], func(t floodTurn) float64 { return float64(of(t)) / t.took.Seconds() }).Format("%.0f")
	}
	mib := func(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
	return append(rows,
		[]string{"datagrams/s sent", rate(func(t floodTurn) uint64 { return t.sent }), fmt.Sprint(r.rate), ""},
		[]string{"datagrams/s stored", rate(func(t floodTurn) uint64 { return t.stored }), "", ""},
		[]string{"stored and dropped", fmt.Sprintf("%d and %d (%.1f %%)", stored, dropped, 100*float64(dropped)/float64(stored+dropped)), "all that were sent", report.Verdict(stored+dropped >= sent)},
		[]string{"events stored / counted", fmt.Sprintf("%d / %d", r.records, r.stored), "equal", report.Verdict(uint64(r.records) == r.stored)},
		[]string{"peak memory without and with floods", mib(r.peak[0]) + ", " + mib(r.peak[1]), floodMemory, report.Verdict(r.peak[1] <= 64<<20)})
}

// replaceSection replaces a section of a Markdown text, or adds it.
func replaceSection(text, heading, section string) string {
	before, after, _ := strings.Cut(text, heading)
	if i := strings.Index(after, "\n## "); i >= 0 {
		return before + section + after[i:]
	}
	return strings.TrimRight(before, "\n") + "\n\n" + section
}
