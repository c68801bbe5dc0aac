package torture

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/history"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	topic  = "tortured"
	apiKey = "campaign-key-" // followed by the run's bucket
	// calmTime bounds everything that must finish in the calm.
	calmTime = 60 * time.Second
)

// shared is the state that all runs share.
type shared struct {
	seb    string // the program with failpoints
	plain  string // the released program
	server *testenv.S3Server
	keep   string // folder for failed runs
}

// run is one execution of a plan.
type run struct {
	shared *shared
	p      *plan
	dir    string
	bucket string // below the server's or the run's folder
	rec    *history.Recorder
	slots  []*slot
	counts tally

	calm   atomic.Bool // no more faults
	acks   atomic.Int64
	end    context.CancelFunc // ends the chaos
	failed atomic.Bool

	users  []*user
	kept   ledger    // of keptTopic
	rights *rightsOf // nil: none
	began  time.Time
	leads  []time.Duration // start times; guarded by mu

	mu      sync.Mutex // guards the fields below
	faults  []string   // faults outside the history
	nextID  int32      // of clients
	members []*members
}

// tally counts by name.
type tally struct {
	mu sync.Mutex // guards n
	n  map[string]int64
}

func (c *tally) add(name string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int64{}
	}
	c.n[name] += n
}

func (c *tally) get(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

func (c *tally) all() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// fault records a fault and ends the chaos.
func (r *run) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.rec.Note("fault", "%s", text)
	r.mu.Lock()
	r.faults = append(r.faults, text)
	r.mu.Unlock()
	r.failed.Store(true)
	r.end()
}

// newRun creates the folder, the proxies and the slots of a run.
func newRun(w *shared, p *plan) (*run, error) {
	dir, err := os.MkdirTemp(w.keep, fmt.Sprintf("seed-%d-", p.seed))
	if err != nil {
		return nil, err
	}
	r := &run{shared: w, p: p, dir: dir, end: func() {}, kept: ledger{name: keptTopic, keyed: true, ordered: true, unknown: map[int]bool{}}}
	if r.rec, err = history.NewRecorder(r.historyFile()); err != nil {
		return nil, err
	}
	r.bucket = filepath.Base(dir)
	for n := range p.slots {
		s, err := newSlot(r, n)
		if err != nil {
			return nil, err
		}
		r.slots = append(r.slots, s)
	}
	return r, nil
}

func (r *run) historyFile() string { return filepath.Join(r.dir, "history.jsonl") }

// objects returns the folder of the run's objects.
func (r *run) objects() string {
	if r.p.disk {
		return filepath.Join(r.dir, "bucket")
	}
	return filepath.Join(filepath.Dir(r.shared.keep), "s3", testenv.Bucket, r.bucket)
}

// spec names the bucket without a proxy.
func (r *run) spec() string {
	if r.p.disk {
		return fmt.Sprintf("file:%s?journal=%v", r.objects(), r.p.journal)
	}
	return r.shared.server.Spec(r.bucket)
}

func (r *run) close() {
	for _, s := range r.slots {
		s.close()
	}
	_ = r.rec.Close()
}

// key returns the API key of the run's brokers. Brokers of other runs refuse it.
func (r *run) key() string { return apiKey + r.bucket }

// environment returns the environment of every broker with a key.
func environment(key string) []string {
	return append([]string{"SEB_API_KEY=" + key}, testenv.S3Keys...)
}

// storeFaults counts the faults between brokers and store, by kind.
func (r *run) storeFaults() map[faultproxy.Kind]int64 {
	all := map[faultproxy.Kind]int64{}
	for _, s := range r.slots {
		if s.store != nil {
			addAll(all, s.store.Counts())
		}
	}
	return all
}

// wireFaults counts the faults between clients and brokers, by kind.
func (r *run) wireFaults() map[faultproxy.Kind]int64 {
	all := map[faultproxy.Kind]int64{}
	for _, s := range r.slots {
		addAll(all, s.wire.Counts())
		addAll(all, s.kafka.Counts())
	}
	return all
}

func addAll[K comparable](to, from map[K]int64) {
	for k, n := range from {
		to[k] += n
	}
}

// listed formats a tally.
func listed[K ~string](m map[K]int64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d %s", m[k], k))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
