package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	loadTime = flag.Duration("time", 0, "TestWorkers: duration of the load (0: until a broker and a worker were killed once)")
	workers  = flag.Int("workers", 4, "TestWorkers: workers, of all languages in turns")
)

// Settings of the queue of TestWorkers: leases are short, so that those of killed workers end soon.
const (
	workersQueue   = "jobs"
	leaseTime      = 3 * time.Second
	deliveriesMax  = 5
	sendPause      = 50 * time.Millisecond
	killPause      = 2 * time.Second // on average
	specialsMax    = 4000            // messages of a producer with an entry in the script
	workerCapacity = 4
)

// TestWorkers lets workers of all languages share a queue, while producers of all languages send messages with
// dedup IDs, the broker that leads is killed again and again, and so are workers. Then each message that was
// acknowledged was given to a worker, is no longer in the queue, and is at most one dead letter; those that must
// fail are one.
func TestWorkers(t *testing.T) {
	skipShort(t)
	t.Parallel()
	w := &field{t: t, spoken: commands(t), sent: map[string]string{}, script: map[string]string{}, dir: t.TempDir()}
	w.site = must.Get(newSite(testenv.Program(t), t.TempDir(), 2))(t)
	t.Cleanup(w.site.close)
	must.NoError(t, w.site.send("PUT", "/queues/"+workersQueue, args{"settings": args{
		"visibility": leaseTime.String(), "max-deliveries": deliveriesMax, "backoff": "100ms", "dedup-window": "1h",
	}}, nil))
	w.plan()
	for i := range *workers {
		w.employ(i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	for i := range w.spoken {
		p := w.start(i)
		producers.Go(func() {
			w.produce(ctx, p, i)
			w.end(p)
		})
	}
	w.disturb()
	cancel()
	producers.Wait()
	w.drain()
	for _, h := range w.hands {
		must.Get(h.peer.call(t.Context(), "stop", args{}))(t)
	}
	w.working.Wait()
	for _, h := range w.hands {
		w.end(h.peer)
	}
	w.judge()
}

// field is one TestWorkers.
type field struct {
	t       *testing.T
	spoken  []speaker
	site    *site
	dir     string
	script  map[string]string
	hands   []*hand
	working sync.WaitGroup

	mu     sync.Mutex        // guards the fields below
	sent   map[string]string // acknowledged messages: who has sent them
	repeat int               // requests that producers have repeated

	kills, takeovers, stops int // of workers and brokers; of the main goroutine
}

// hand is a worker, as consecutive processes.
type hand struct {
	n    int // its language is that of n modulo the number of languages
	peer *peer
}

// kinds are what workers do with special messages, by the rest of their number.
var kinds = map[int]string{3: "fail:broken", 17: "dead:no use", 29: "retry:0.2", 41: "sleep:4"}

func value(language string, n int) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(language, ", ", "-"), n)
}

// plan makes the script.
func (w *field) plan() {
	for _, s := range w.spoken {
		for n := range specialsMax {
			if action := kinds[n%100]; action != "" {
				w.script[value(s.name, n)] = action
			}
		}
	}
}

// start starts a process of a language with a client of both brokers.
func (w *field) start(n int) *peer {
	s := w.spoken[n%len(w.spoken)]
	p := must.Get(startPeer(s.command, s.env))(w.t)
	w.t.Cleanup(p.kill)
	a := must.Get(p.call(w.t.Context(), "open", args{"addresses": []string{"http://" + w.site.nodes[0].address, "http://" + w.site.nodes[1].address}, "token": token}))(w.t)
	if a.Error != nil || a.Crash != "" {
		w.t.Fatalf("open: %+v %s", a.Error, a.Crash)
	}
	return p
}

// end ends a process, which must end well.
func (w *field) end(p *peer) {
	if err := p.stop(); err != nil {
		w.t.Error(err)
	}
	if err := p.secrets(token); err != nil {
		w.t.Error(err)
	}
}

// employ starts a worker.
func (w *field) employ(n int) {
	h := &hand{n: n}
	w.hands = append(w.hands, h)
	w.work(h)
}

// work starts the process of a worker, and its call, which must not fail unless the process is killed.
func (w *field) work(h *hand) {
	h.peer = w.start(h.n)
	p := h.peer
	w.working.Go(func() {
		a, err := p.callFor(context.Background(), 24*time.Hour, "work", args{
			"queue": workersQueue, "concurrency": workerCapacity, "log": w.log(h.n), "script": w.script,
		})
		if err == nil && (a.Error != nil || a.Crash != "") {
			w.t.Errorf("worker %d (%s): %+v %s", h.n, w.spoken[h.n%len(w.spoken)].name, a.Error, a.Crash)
		}
	})
}

func (w *field) log(n int) string { return filepath.Join(w.dir, fmt.Sprintf("worker%d.log", n)) }

// produce sends messages until ctx ends. It repeats a request until it is acknowledged: the dedup IDs let the broker
// store each message once.
func (w *field) produce(ctx context.Context, p *peer, language int) {
	name := w.spoken[language].name
	for n := 0; ctx.Err() == nil; time.Sleep(sendPause) {
		var list []args
		var values []string
		for range 1 + rand.IntN(9) {
			v := value(name, n)
			n++
			values, list = append(values, v), append(list, args{"value": v, "dedup": v})
		}
		for !w.send(p, list) {
			w.mu.Lock()
			w.repeat++
			w.mu.Unlock()
			time.Sleep(sendPause)
		}
		w.mu.Lock()
		for _, v := range values {
			w.sent[v] = name
		}
		w.mu.Unlock()
	}
}

// send reports whether messages are stored.
func (w *field) send(p *peer, list []args) bool {
	a, err := p.call(context.Background(), "send", args{"queue": workersQueue, "messages": list})
	if err != nil || a.Crash != "" {
		w.t.Errorf("send: %v %s", err, a.Crash)
		return true
	}
	if a.Error != nil {
		if a.Error.Outcome == "none" {
			w.t.Errorf("send: outcome of an error: %+v", *a.Error)
		}
		return false
	}
	var got api.MessageResults
	if err := json.Unmarshal(a.Result, &got); err != nil || len(got.Messages) != len(list) {
		w.t.Errorf("send: %v: %d results for %d messages", err, len(got.Messages), len(list))
		return true
	}
	for i := range got.Messages {
		if got.Messages[i].Code != "" {
			return false
		}
	}
	return true
}

// disturb kills brokers and workers, and stops workers, until the load ends; without -time once each.
func (w *field) disturb() {
	if *loadTime == 0 {
		for action := range 3 {
			w.act(action)
		}
		return
	}
	bar := progress.New(os.Stderr, "acknowledged messages", -1, nil)
	defer bar.Clear()
	for end := time.Now().Add(*loadTime); time.Now().Before(end); {
		time.Sleep(rand.N(2 * killPause))
		w.mu.Lock()
		bar.Set(int64(len(w.sent)))
		w.mu.Unlock()
		w.act(rand.IntN(5))
	}
}

// act kills a worker, stops one, or kills the broker that leads.
func (w *field) act(action int) {
	h := w.hands[rand.IntN(len(w.hands))]
	switch action {
	case 0:
		h.peer.kill()
		w.work(h)
		w.kills++
	case 1:
		must.Get(h.peer.call(w.t.Context(), "stop", args{}))(w.t)
		w.end(h.peer)
		w.work(h)
		w.stops++
	default:
		w.site.kill()
		must.NoError(w.t, w.site.takeOver())
		w.takeovers++
	}
}

// drain waits until the queue is empty.
func (w *field) drain() {
	last, left := time.Now(), int64(-1)
	for {
		var q api.Queue
		must.NoError(w.t, w.site.get("/queues/"+workersQueue, &q))
		n := q.Ready + q.Leased + q.Delayed + q.Retry + q.Dying
		if n == 0 {
			return
		}
		if n != left {
			last, left = time.Now(), n
		}
		if time.Since(last) > readyTime {
			w.t.Fatalf("%d messages stay in the queue: %+v", n, q)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// judge checks what became of the messages.
func (w *field) judge() {
	given, by := w.given()
	letters := w.letters()
	var q api.Queue
	must.NoError(w.t, w.site.get("/queues/"+workersQueue, &q))
	if q.Sent != int64(len(w.sent)) {
		w.t.Errorf("the queue had %d messages, but %d with different dedup IDs were sent", q.Sent, len(w.sent))
	}
	doubled, dead := 0, 0
	for v := range w.sent {
		n, l := given[v], letters[v]
		verb, _, _ := strings.Cut(w.script[v], ":")
		ends := verb == "fail" || verb == "dead" || verb == "retry"
		if dead += l; !ends && n > 1 {
			doubled++
		}
		switch {
		case n == 0:
			w.t.Errorf("%s was acknowledged, and not given to a worker", v)
		case l > 1 || ends && l != 1:
			w.t.Errorf("%s (%q) is %d dead letters", v, w.script[v], l)
		case !ends && l > 0 && n < 2:
			w.t.Errorf("%s is a dead letter, but was given once", v)
		}
	}
	for v := range letters {
		if w.sent[v] == "" {
			w.t.Errorf("%s is a dead letter, and was not sent", v)
		}
	}
	w.t.Logf("%d messages acknowledged, %d requests repeated; %d takeovers, %d workers killed, %d stopped; %d given more than once for that; %d dead letters; calls of functions by language: %v",
		len(w.sent), w.repeat, w.takeovers, w.kills, w.stops, doubled, dead, by)
	for _, s := range w.spoken {
		if len(w.sent) == 0 || by[s.name] == 0 {
			w.t.Errorf("%s: nothing was tested", s.name)
		}
	}
}

// given counts the calls of functions by message and by language.
func (w *field) given() (given, by map[string]int) {
	given, by = map[string]int{}, map[string]int{}
	for _, h := range w.hands {
		text, _ := os.ReadFile(w.log(h.n)) // no file: no call
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) != 3 || w.sent[fields[2]] == "" {
				w.t.Errorf("worker %d got a message that was not sent: %q", h.n, line)
				continue
			}
			given[fields[2]]++
			by[w.spoken[h.n%len(w.spoken)].name]++
		}
	}
	return given, by
}

// letters counts dead letters by their value.
func (w *field) letters() map[string]int {
	counts := map[string]int{}
	for before := ""; ; {
		var page api.QueueMessages
		path := "/queues/" + workersQueue + ".dead/messages?limit=1000"
		if before != "" {
			path += "&before=" + before
		}
		must.NoError(w.t, w.site.get(path, &page))
		for i := range page.Messages {
			counts[text(page.Messages[i].Value, nil)]++
		}
		if before = page.Next; before == "" {
			return counts
		}
	}
}
