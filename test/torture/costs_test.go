package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/internal/node"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	costsWarm    = flag.Duration("costs-warm", 0, "how long the brokers of the cost table live before counting begins; the full run takes 40m")
	costsMeasure = flag.Duration("costs-measure", 3*time.Second, "how long the requests of the cost table are counted; the full run takes 1h")
)

// Prices of AWS S3 in dollars; a LIST is paid as a PUT, a DELETE is free.
const (
	putPrice      = 0.005 / 1000
	getPrice      = 0.0004 / 1000
	hoursPerMonth = 730
)

// costRow is one broker of the cost table, a process of its own.
type costRow struct {
	Bucket string
	Topics int
	Wait   time.Duration
}

// costResult is what a row's process says in the end.
type costResult struct {
	Sent, Read int64 // records
	RSSMax     int64
	Ranges     int // of the log's state
	Packs      int
}

const (
	// rowVariable tells a process of this test that it is a row.
	rowVariable = "SEB_COST_ROW"
	// rowReady is what it prints once its topics are there.
	rowReady = "ready"
)

// TestCosts counts what brokers with default settings ask of the store in a month's 730th part: merging, snapshots,
// collection and retention included, and a consumer that keeps up. The rows run side by side, each with a prefix of its
// own and a proxy that counts.
func TestCosts(t *testing.T) {
	server := testenv.S3ForTest(t)
	t.Setenv("AWS_ACCESS_KEY_ID", testenv.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.SecretKey)
	topics := []int{1, 20, 1000}
	if *costsMeasure < time.Minute {
		topics = topics[:2]
	}
	var rows []*runningRow
	for _, wait := range []time.Duration{250 * time.Millisecond, time.Second} {
		for _, n := range topics {
			rows = append(rows, startRow(t, server.Endpoint, costRow{Topics: n, Wait: wait}))
		}
	}
	watch(*costsWarm)
	begin := time.Now()
	for _, r := range rows {
		r.from = r.proxy.Counts()
	}
	watch(*costsMeasure)
	took := time.Since(begin) // longer, on a machine that does other things
	for _, r := range rows {
		r.counts = r.proxy.Counts().Sub(r.from)
	}
	t.Logf("on %v; %v counted after %v; per hour:", machine.Here(), took.Round(time.Second), *costsWarm)
	hour := float64(time.Hour) / float64(took)
	t.Log("| topics | batch wait | PUT | GET | LIST | DELETE | requests a month | one object per topic |")
	for _, r := range rows {
		r.stop(t)
		c := r.counts
		bill := func(puts, gets int) float64 {
			return hour * hoursPerMonth * (float64(puts)*putPrice + float64(gets)*getPrice)
		}
		puts, gets, lists, deletes := c.Of(testenv.Put), c.Of(testenv.Get), c.Of(testenv.List), c.Of(testenv.Delete)
		t.Logf("| %d | %v | %.0f | %.0f | %.0f | %.0f | $%.2f | $%.2f |", r.Topics, r.Wait, hour*float64(puts), hour*float64(gets), hour*float64(lists),
			hour*float64(deletes), bill(puts+lists, gets), bill(c.Of(testenv.Put, "wal")*r.Topics, 0))
		snap := r.proxy.Puts()["snap"]
		t.Logf("  counted: %v; snapshots of at most %d bytes; %d records sent, %d read; %d MiB of memory at most; state of %d ranges, %d packs", c, snap.Max,
			r.result.Sent, r.result.Read, r.result.RSSMax>>20, r.result.Ranges, r.result.Packs)
		r.judge(t, took)
	}
}

// runningRow is a row's process.
type runningRow struct {
	costRow
	proxy        *testenv.S3Proxy
	cmd          *exec.Cmd
	stdin        io.Closer
	out          *bufio.Reader
	from, counts testenv.S3Counts
	result       costResult
}

func startRow(t *testing.T, endpoint string, row costRow) *runningRow {
	t.Helper()
	proxy, err := testenv.NewS3Proxy(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	row.Bucket = proxy.Spec(fmt.Sprintf("costs/%d-%v", row.Topics, row.Wait))
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	r := &runningRow{costRow: row, proxy: proxy, cmd: exec.Command(os.Args[0], "-test.run=^TestCostRow$", "-test.timeout=0")}
	r.cmd.Env = append(os.Environ(), rowVariable+"="+string(text))
	r.cmd.Stderr = os.Stderr
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.out = bufio.NewReader(stdout)
	if r.stdin, err = r.cmd.StdinPipe(); err != nil { // it ends when this is closed, and so with this process
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.stdin.Close() })
	if line, err := r.out.ReadString('\n'); err != nil || strings.TrimSpace(line) != rowReady {
		t.Fatalf("%d topics at %v: says %q: %v", r.Topics, r.Wait, line, err)
	}
	return r
}

// stop ends the process and takes what it says.
func (r *runningRow) stop(t *testing.T) {
	t.Helper()
	_ = r.stdin.Close()
	said, err := io.ReadAll(r.out)
	if err := errors.Join(err, r.cmd.Wait()); err != nil {
		t.Fatalf("%d topics at %v: %v\n%s", r.Topics, r.Wait, err, said)
	}
	line, _, _ := bytes.Cut(said, []byte("\n"))
	if err := json.Unmarshal(line, &r.result); err != nil {
		t.Fatalf("%d topics at %v: %v\n%s", r.Topics, r.Wait, err, said)
	}
}

// judge looks whether the counts are what they should be.
func (r *runningRow) judge(t *testing.T, took time.Duration) {
	t.Helper()
	if slots := r.counts.Of(testenv.Put, "wal"); float64(slots) > 1.1*float64(took)/float64(r.Wait)+5 {
		t.Errorf("%d topics at %v: %d slots in %v", r.Topics, r.Wait, slots, took)
	}
	// The tail has them, or the cache, but for those that came while it had too many to write.
	if n := r.counts.Of(testenv.Get, "wal"); n > r.counts.Of(testenv.Put, "wal")/100 {
		t.Errorf("%d topics at %v: %d GETs of slots", r.Topics, r.Wait, n)
	}
	if r.result.Read == 0 {
		t.Errorf("%d topics at %v: the consumer read nothing of %d records", r.Topics, r.Wait, r.result.Sent)
	}
}

// TestCostRow is the process of a row: a broker with default settings, producers that keep every topic busy, and a
// consumer of the first topic.
func TestCostRow(t *testing.T) {
	text := os.Getenv(rowVariable)
	if text == "" {
		t.Skip("a part of TestCosts")
	}
	var row costRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		t.Fatal(err)
	}
	n, err := node.Open(t.Context(), node.Options{
		Bucket: row.Bucket, DataDir: t.TempDir(), CacheDir: t.TempDir(), CacheBytes: 1 << 30, BatchWait: row.Wait,
	})
	if err != nil {
		t.Fatal(err)
	}
	debug.SetMemoryLimit(n.Budget().GoLimit()) // as the server does
	var wg sync.WaitGroup
	for i := range row.Topics {
		wg.Go(func() { // they all go into one slot
			spec := broker.TopicSpec{Settings: map[string]string{"retention-time": retention.String()}}
			if _, err := n.CreateTopic(t.Context(), fmt.Sprint("t", i), spec); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fmt.Println(rowReady)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var result costResult
	wg.Go(func() { result.Read = consume(ctx, t, n) })
	result.Sent = keepBusy(ctx, t, n, &row)
	wg.Wait()
	view := n.View()
	for _, topic := range view.Topics() {
		result.Ranges += len(topic.Partitions.At(0).Ranges)
	}
	result.Packs, result.RSSMax = len(view.Packs()), machine.RSSMax()
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(&result); err != nil {
		t.Fatal(err)
	}
}

// retention of every topic: short enough to be at work within the hour.
const retention = 20 * time.Minute

// ticksPerWait is how evenly the records of a row are spread: an object is begun soon after the one before it was cut.
const ticksPerWait = 25

// keepBusy sends a record to each topic in each batch wait, or more often if there are few topics, until ctx ends. Each
// topic has an idempotent producer.
func keepBusy(ctx context.Context, t *testing.T, n *node.Node, row *costRow) (sent int64) {
	tick := time.NewTicker(row.Wait / ticksPerWait)
	defer tick.Stop()
	value := []byte(strings.Repeat("x", 100))
	sequences := make([]int32, row.Topics)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for next := 0; ; {
		select {
		case <-ctx.Done():
			return sent
		case <-tick.C:
		}
		appends := make([]broker.Append, max(1, row.Topics/ticksPerWait))
		for i := range appends {
			to := next % row.Topics
			next++
			data, sum, err := record.Append(nil, []record.Record{{Value: value, Timestamp: time.Now().UnixMilli()}}, record.EncodeOptions{
				Producer: &record.Producer{ID: int64(to + 1), Sequence: sequences[to]},
			})
			if err != nil {
				t.Error(err)
				return sent
			}
			sequences[to]++
			appends[i] = broker.Append{Topic: fmt.Sprint("t", to), Data: data, Summary: sum, ExpectedOffset: -1}
		}
		sent += int64(len(appends))
		ticket := n.Submit(t.Context(), appends)
		waiting.Go(func() {
			for _, r := range ticket.Wait(t.Context()) {
				if r.Err != nil {
					t.Errorf("append: %v", r.Err)
				}
			}
		})
	}
}

// consume reads the first topic as it grows, until ctx ends.
func consume(ctx context.Context, t *testing.T, n *node.Node) (records int64) {
	for at := int64(0); ; {
		f, err := n.Fetch(ctx, []broker.Want{{Topic: "t0", Offset: at}}, 1, 30*time.Second)
		switch {
		case ctx.Err() != nil:
			return at
		case errors.Is(err, broker.ErrOverBudget):
			continue
		case err != nil:
			t.Error(err)
			return at
		}
		part := &f.Parts[0]
		if part.Err != nil {
			t.Error(part.Err)
		}
		for i := range part.Chunks {
			at = part.Chunks[i].End
		}
		f.Release()
	}
}
