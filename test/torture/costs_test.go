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
	costsWarm    = flag.Duration("costs-warm", 0, "run time of the brokers of the cost table before counting begins (full run: 40m)")
	costsMeasure = flag.Duration("costs-measure", 3*time.Second, "time to count requests for the cost table (full run: 1h)")
)

// Prices of AWS S3 in dollars. A LIST costs as much as a PUT; a DELETE is free.
const (
	putPrice      = 0.005 / 1000
	getPrice      = 0.0004 / 1000
	hoursPerMonth = 730
)

// costRow is one broker of the cost table, in a separate process.
type costRow struct {
	Bucket string
	Topics int
	Wait   time.Duration
}

// costResult is the final output of a row's process.
type costResult struct {
	Sent, Read int64 // records
	RSSMax     int64
	Ranges     int // of the log's state
	Packs      int
}

const (
	// rowVariable marks a process of this test as a row.
	rowVariable = "SEB_COST_ROW"
	// rowReady is what it prints when its topics exist.
	rowReady = "ready"
)

// TestCosts counts the requests of brokers with default settings in 1/730 of a month, including
// merging, snapshots, collection and retention, and a consumer that keeps up. The rows run
// concurrently, each with its own prefix and counting proxy.
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
	took := time.Since(begin) // longer on a busy machine
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
	// It ends when this is closed, and so with this process.
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
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

// stop ends the process and reads its result.
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

// judge checks the counts.
func (r *runningRow) judge(t *testing.T, took time.Duration) {
	t.Helper()
	if slots := r.counts.Of(testenv.Put, "wal"); float64(slots) > 1.1*float64(took)/float64(r.Wait)+5 {
		t.Errorf("%d topics at %v: %d slots in %v", r.Topics, r.Wait, slots, took)
	}
	// The consumer reads from the tail or the cache, except for slots that arrive while the cache
	// has too many to write.
	if n := r.counts.Of(testenv.Get, "wal"); n > r.counts.Of(testenv.Put, "wal")/100 {
		t.Errorf("%d topics at %v: %d GETs of slots", r.Topics, r.Wait, n)
	}
	if r.result.Read == 0 {
		t.Errorf("%d topics at %v: the consumer read nothing of %d records", r.Topics, r.Wait, r.result.Sent)
	}
}

// TestCostRow is the process of a row: a broker with default settings, producers that keep every
// topic busy, and a consumer of the first topic.
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
	debug.SetMemoryLimit(n.Budget().GoLimit()) // like the server
	var wg sync.WaitGroup
	for i := range row.Topics {
		wg.Go(func() { // they share one slot
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

// retention of every topic: short enough to take effect within the hour.
const retention = 20 * time.Minute

// ticksPerWait is how evenly the records of a row are spread, so that an object is begun soon after
// the previous one was frozen.
const ticksPerWait = 25

// keepBusy sends a record to each topic per batch wait, or more often with few topics, until ctx
// ends. Each topic has an idempotent producer.
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

// consume follows the first topic until ctx ends.
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
