package queues

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	loneJobs = flag.Int("lone-jobs", 3, "jobs of TestCostOfLoneJobs")
	quiet    = flag.Duration("quiet", 0, "time before TestCostOfWaitingWorkers counts; a broker itself sends a LIST ten minutes after its start")
	waiting  = flag.Duration("waiting", time.Second, "time that workers wait in TestCostOfWaitingWorkers")
	steady   = flag.Duration("steady", 0, "time of 1,000 jobs a second in TestCostOfSteadyJobs")
)

// putTime is the additional time of each PUT.
const putTime = 100 * time.Millisecond

// counted starts a broker with default settings on an S3 server whose requests are counted, and creates the
// queue jobs.
func counted(t *testing.T) (*broker, *testenv.S3Proxy) {
	t.Parallel()
	p := testenv.CountedS3(t)
	p.SetDelayOf(testenv.Put, putTime)
	b := newBroker(t)
	b.bucket = p.Spec("costs")
	b.env = append(b.env, testenv.S3Keys...)
	b.client.Transport = &http.Transport{MaxIdleConnsPerHost: 512}
	b.start()
	b.call(t.Context(), "PUT", "/queues/jobs", "{}", nil)
	return b, p
}

// TestCostOfLoneJobs: a job alone takes two PUTs, one for its message and one for its end. A worker waits
// for it.
func TestCostOfLoneJobs(t *testing.T) {
	b, p := counted(t)
	before := p.Counts()
	var took, held time.Duration
	for i := range *loneJobs {
		leased := make(chan api.QueueMessages)
		go func() { leased <- b.wait("jobs", 1, "1m") }()
		began := time.Now()
		b.post("/queues/jobs/messages", fmt.Sprintf(`{"value":"job %d"}`, i))
		took += time.Since(began)
		out := <-leased
		held += time.Since(began)
		b.done("jobs", &out)
	}
	puts := p.Counts().Sub(before)
	n := time.Duration(max(*loneJobs, 1))
	t.Logf("%d jobs: %v; sent after %v, at the worker after %v", *loneJobs, puts, took/n, held/n)
	if got := puts.Of(testenv.Put); got > 2**loneJobs {
		t.Errorf("%d PUTs for %d jobs, want at most 2 each", got, *loneJobs)
	}
}

// TestCostOfWaitingWorkers: 100 workers that wait make no request.
func TestCostOfWaitingWorkers(t *testing.T) {
	b, p := counted(t)
	wait := func(d time.Duration) testenv.S3Counts {
		before := p.Counts()
		var workers sync.WaitGroup
		for end := time.Now().Add(d); time.Now().Before(end); workers.Wait() {
			for range 100 {
				workers.Go(func() {
					b.wait("jobs", 10, min(time.Minute, max(time.Until(end), time.Second)).Round(time.Second).String())
				})
			}
		}
		return p.Counts().Sub(before)
	}
	t.Logf("before: %v", wait(*quiet))
	if counts := wait(*waiting); counts.Total() > 0 {
		t.Errorf("100 workers that waited %v: %v", *waiting, counts)
	}
}

// TestCostOfSteadyJobs: 1,000 jobs a second stay within the default budget.
func TestCostOfSteadyJobs(t *testing.T) {
	if *steady == 0 {
		t.Skip("needs -steady")
	}
	const (
		batch   = 10
		each    = 10 * time.Millisecond // between two batches
		senders = 200
		workers = 100
	)
	b, p := counted(t)
	value := strings.Repeat("x", 1<<10-20)
	var sent, done atomic.Int64
	var busy, working sync.WaitGroup
	before, began := p.Counts(), time.Now()
	for i := range senders {
		busy.Go(func() {
			for due := began.Add(time.Duration(i) * each); due.Sub(began) < *steady; due = due.Add(senders * each) {
				time.Sleep(time.Until(due))
				var body strings.Builder
				for range batch {
					fmt.Fprintf(&body, `{"value":"%d %s"}`+"\n", sent.Add(1), value)
				}
				b.post("/queues/jobs/messages", body.String())
			}
		})
	}
	ended := make(chan struct{})
	for range workers {
		working.Go(func() {
			for {
				out := b.lease("jobs", batch)
				b.done("jobs", &out)
				done.Add(int64(len(out.Messages)))
				select {
				case <-ended:
					if len(out.Messages) == 0 {
						return
					}
				default:
				}
			}
		})
	}
	busy.Wait()
	close(ended)
	working.Wait()
	took := time.Since(began)
	counts := p.Counts().Sub(before)
	var c api.Cost
	b.call(t.Context(), "GET", "/cost", "", &c)
	puts := counts.Of(testenv.Put) + counts.Of(testenv.List)
	perMonth := float64(puts) / took.Seconds() * 30 * 24 * 3600
	if c.PutBudget == nil {
		t.Fatal("a broker on S3 has no budget")
	}
	t.Logf("%d jobs in %v, %.0f a second: %v; %.2f PUTs and LISTs a second, $%.2f in 30 days, $%.4f per million jobs; budget %+v", done.Load(), took.Round(time.Second),
		float64(done.Load())/took.Seconds(), counts, float64(puts)/took.Seconds(), perMonth*5/1e6, float64(puts)/float64(done.Load())*5, *c.PutBudget)
	check.Equal(t, done.Load(), sent.Load())
	if c.PutBudget.Exceeded > 0 {
		t.Errorf("the budget is exceeded by %v", c.PutBudget.Exceeded)
	}
}
