package queues

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	lasts = flag.Duration("time", 8*time.Second, "duration of the load of TestKilledBroker")
	every = flag.Duration("every", 2*time.Second, "mean time between two kills")
	boto3 = flag.Bool("boto3", false, "further workers use boto3, which is installed")
	onS3  = flag.Bool("s3", false, "the bucket is on the S3 server of the tests")
)

func TestMain(m *testing.M) {
	if address := os.Getenv(reportTo); address != "" {
		os.Exit(program(address))
	}
	os.Exit(testenv.Main(m))
}

// Settings of the queues: leases are short, so that many of them end.
const (
	visibility    = 2 * time.Second
	maxDeliveries = 4
)

// TestKilledBroker kills a broker again and again beside producers and workers, some of which never
// settle: those of HTTP, of package client, of `seb queue work`, which is killed too, and with -boto3 of SQS.
// Then each message that was acknowledged is done by the word of a worker, or one dead letter; no settlement that
// was answered is undone; a stored lease excludes others; and the messages of a key keep their order.
func TestKilledBroker(t *testing.T) {
	l := newLedger(t)
	b := newBroker(t)
	b.start()
	for name, settings := range map[string]string{"jobs": "", "ordered": `,"key-mode":"order"`} {
		b.call(t.Context(), "PUT", "/queues/"+name, fmt.Sprintf(`{"settings":{"visibility":"%s","max-deliveries":%d,"backoff":"100ms"%s}}`, visibility, maxDeliveries, settings), nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var load, workers sync.WaitGroup
	for i := range 3 {
		load.Go(func() { l.produce(ctx, b, "jobs", fmt.Sprint("p", i), "") })
		load.Go(func() { l.produce(ctx, b, "ordered", fmt.Sprint("k", i), fmt.Sprint("k", i)) })
	}
	working, stop := context.WithCancel(t.Context())
	for range 6 {
		workers.Go(func() { l.work(working, b, "jobs", &l.calm) })
		workers.Go(func() { l.work(working, b, "ordered", &l.calm) })
	}
	workers.Go(func() { l.goWork(working, b, "jobs") })
	workers.Go(func() { l.goWork(working, b, "ordered") })
	workers.Go(func() { l.programWork(working, b, "jobs") })
	if *boto3 {
		pair := boto3Pair(t, b)
		for _, queue := range []string{"jobs", "jobs", "jobs", "ordered"} {
			workers.Go(func() { l.boto3Work(working, b, queue, pair) })
		}
	}
	for end := time.Now().Add(*lasts); time.Now().Before(end); {
		time.Sleep(rand.N(2 * *every))
		l.kill(b)
	}
	cancel()
	load.Wait()
	l.calm.Store(true)
	for _, queue := range []string{"jobs", "ordered"} {
		b.drained(queue)
	}
	stop()
	workers.Wait()
	for _, queue := range []string{"jobs", "ordered"} {
		l.bury(b, queue)
	}
	l.judge()
}

// ledger is what the test knows of all messages, by their values.
type ledger struct {
	t     *testing.T
	calm  atomic.Bool // workers finish everything
	mu    sync.Mutex  // guards the fields below
	kills []time.Time
	all   map[string]*job
	keys  map[string][]*job
	early map[*job]*job // messages that no worker has ended, and a later one of their key that was given

	leases, done, retried, killed, left int
	ran, started, scripted              int // by package client, by `seb queue work`, and by boto3
}

type job struct {
	queue, value string
	acked        bool
	said         bool      // a worker has said done, perhaps without an answer
	answered     time.Time // a worker got the answer; zero: none did
	letters      int
	held         []held
}

// held is a lease that a worker got.
type held struct {
	from, until time.Time
	deliveries  int
	settled     bool // the worker has said anything
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, all: map[string]*job{}, keys: map[string][]*job{}, early: map[*job]*job{}}
}

// kill kills the broker, and starts it again.
func (l *ledger) kill(b *broker) {
	l.mu.Lock()
	l.kills = append(l.kills, time.Now())
	l.mu.Unlock()
	b.Kill()
	b.start()
}

// behindMax is how many messages of a key wait at most. One is done at a time, and more would never be done in time.
const behindMax = 100

// behind reports whether too many messages of a key wait.
func (l *ledger) behind(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.keys[key]) - behindMax
	return n >= 0 && l.keys[key][n].acked && !l.keys[key][n].said
}

// produce sends messages until ctx ends.
func (l *ledger) produce(ctx context.Context, b *broker, queue, name, key string) {
	for i := 0; ctx.Err() == nil; i++ {
		for key != "" && l.behind(key) && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		j := &job{queue: queue, value: fmt.Sprintf("%s-%d", name, i)}
		l.mu.Lock()
		l.all[queue+"/"+j.value] = j
		if key != "" {
			l.keys[key] = append(l.keys[key], j)
		}
		l.mu.Unlock()
		m := api.Message{Value: &j.value}
		if key != "" {
			m.Key = &key
		}
		var out api.MessageResults
		err := b.try(ctx, "POST", "/queues/"+queue+"/messages", api.Messages{Messages: []api.Message{m}}, &out)
		l.mu.Lock()
		if err == nil && out.Messages[0].Code == "" {
			j.acked = true
		}
		l.mu.Unlock()
		if err != nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// work leases and settles messages until ctx ends. When calm, it finishes all.
func (l *ledger) work(ctx context.Context, b *broker, queue string, calm *atomic.Bool) {
	for ctx.Err() == nil {
		began := time.Now()
		var out api.QueueMessages
		if err := b.try(ctx, "POST", "/queues/"+queue+"/lease", api.LeaseRequest{Max: 1 + rand.IntN(5), Wait: "500ms"}, &out); err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		var said api.Settlements
		var jobs []*job
		for i := range out.Messages {
			m := &out.Messages[i]
			j := l.leased(queue, m, began)
			if j == nil {
				continue
			}
			s := api.Settlement{Receipt: m.Receipt, Do: "done"}
			switch n := rand.IntN(20); {
			case calm.Load() || n < 12:
			case n < 15:
				s.Do, s.Reason = "retry", "a test"
			case n < 16:
				s.Do = "dead"
			default:
				continue // the worker dies
			}
			l.says(j, s.Do)
			said.Messages, jobs = append(said.Messages, s), append(jobs, j)
		}
		if len(jobs) > 0 {
			var results api.MessageResults
			if err := b.try(ctx, "POST", "/queues/"+queue+"/settle", said, &results); err == nil {
				l.settled(jobs, said.Messages, results.Messages)
			}
		}
	}
}

// leased checks a lease against what is known.
func (l *ledger) leased(queue string, m *api.QueueMessage, began time.Time) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases++
	j := l.all[queue+"/"+*m.Value]
	if j == nil {
		l.t.Errorf("a worker of %s got %q, which was not sent", queue, *m.Value)
		return nil
	}
	now := time.Now()
	if !j.answered.IsZero() && j.answered.Before(began) {
		l.t.Errorf("%s/%s is given at %s although it was done at %s", queue, j.value, now, j.answered)
	}
	if m.Deliveries > maxDeliveries+len(l.kills) {
		l.t.Errorf("%s/%s is delivered %d times, after %d kills", queue, j.value, m.Deliveries, len(l.kills))
	}
	if n := len(j.held); n > 0 {
		if h := &j.held[n-1]; !h.settled && began.Before(h.until) && now.Before(h.until) && (h.deliveries > 1 || !l.killedSince(h.from)) {
			l.t.Errorf("%s/%s is given at %s, but another worker has it since %s until %s, delivery %d", queue, j.value, now, h.from, h.until, h.deliveries)
		}
	}
	if m.Key != nil {
		for _, older := range l.keys[*m.Key] {
			if older == j {
				break
			}
			if older.acked && !older.said {
				l.early[older] = j
			}
		}
	}
	j.held = append(j.held, held{from: began, until: m.Until, deliveries: m.Deliveries})
	return j
}

func (l *ledger) count(n *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
}

func (l *ledger) killedSince(at time.Time) bool {
	return len(l.kills) > 0 && l.kills[len(l.kills)-1].After(at.Add(-time.Second))
}

// says notes a settlement before it is sent.
func (l *ledger) says(j *job, do string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j.held[len(j.held)-1].settled = true
	if j.said = j.said || do != "retry"; do == "retry" && j.held[len(j.held)-1].deliveries >= maxDeliveries {
		j.said = true // it goes to the dead-letter queue
	}
}

func (l *ledger) settled(jobs []*job, said []api.Settlement, results []api.MessageResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range results {
		switch {
		case r.Code != "":
			l.left++
		case said[i].Do == "done":
			l.done++
			jobs[i].answered = time.Now()
		case said[i].Do == "retry":
			l.retried++
		default:
			l.killed++
		}
	}
}

// bury reads the dead letters of a queue.
func (l *ledger) bury(b *broker, queue string) {
	ids := map[string]bool{}
	for {
		var out api.QueueMessages
		b.call(l.t.Context(), "POST", "/queues/"+queue+".dead/lease", `{"max":100}`, &out)
		if len(out.Messages) == 0 {
			return
		}
		var said api.Settlements
		for i := range out.Messages {
			m := &out.Messages[i]
			j := l.all[queue+"/"+*m.Value]
			if j == nil {
				l.t.Fatalf("letter %q was not sent", *m.Value)
			}
			j.letters++
			for _, h := range m.Headers {
				if h.Key != "seb-message" {
					continue
				}
				if id := *h.Value; ids[id] {
					l.t.Errorf("message %s of %s is a dead letter twice", id, queue)
				} else {
					ids[id] = true
				}
			}
			said.Messages = append(said.Messages, api.Settlement{Receipt: m.Receipt, Do: "done"})
		}
		must.NoError(l.t, b.try(l.t.Context(), "POST", "/queues/"+queue+".dead/settle", said, nil))
	}
}

// judge checks that each message has an end.
func (l *ledger) judge() {
	acked, letters, unknown := 0, 0, 0
	for name, j := range l.all {
		letters += j.letters
		switch {
		case !j.acked:
			unknown++
		case !j.said && j.letters == 0:
			l.t.Errorf("%s was acknowledged, but it has no end: leases %+v", name, j.held)
		default:
			acked++
		}
		if !j.answered.IsZero() && j.letters > 0 {
			l.t.Errorf("%s is done, and a dead letter", name)
		}
	}
	for older, j := range l.early { // the last leases of dead letters may have ended without a word
		if older.letters == 0 {
			l.t.Errorf("%s/%s was given before %s, which has its key", j.queue, j.value, older.value)
		}
	}
	l.t.Logf("%d functions and %d programs have ended; boto3 got %d messages", l.ran, l.started, l.scripted)
	l.t.Logf("%d kills; %d messages acknowledged, %d not; %d leases; %d done, %d retried, %d killed, %d refused settlements; %d dead letters",
		len(l.kills), acked, unknown, l.leases, l.done, l.retried, l.killed, l.left, letters)
	if acked == 0 || l.done == 0 || l.ran == 0 || l.started == 0 || len(l.kills) == 0 || *boto3 && l.scripted == 0 {
		l.t.Error("nothing was tested")
	}
}
