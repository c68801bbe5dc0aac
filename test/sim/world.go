package sim

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/test/sim/watch"
)

// Result is the result of a run.
type Result struct {
	Config Config
	Stats  Stats
	Hash   uint64 // of the trace: equal for equal seeds
	Err    error  // the first violation, or nil
}

// simulation is one run.
type simulation struct {
	cfg   Config
	now   int64
	queue queue
	calm  bool

	// One stream per purpose, so that disabling one fault does not change the others.
	schedRand, faultRand, loadRand, crashRand, idRand, keyRand, cutRand, typeRand, watchRand, rightsRand, auditRand, eventRand *rand.Rand
	atomicRand, txRand                                                                                                         *rand.Rand

	store         *store
	nodes         []*node
	clients       []*producer
	atomicClients []*atomicClient
	txClients     []*txClient
	txOps         uint64 // ops of transactions
	groups        []*group
	check         *checker
	topics        []*topic
	watch         *watch.Sim // nil: no triggers
	stats         Stats
	err           error
	hash          uint64
	trace         io.Writer // nil: none

	watchOps uint64 // given to brokers
	rights   bool   // principals and rules change
	secrets  uint64 // numbers given to secrets
	audit    bool   // changes have audit records
	auditOps uint64 // their number

	riemann     []*sender
	eventOps    uint64 // ops of Riemann front ends
	eventNumber int64  // of the newest Riemann event

	lossRand, clockRand, feedRand, netRand, scrubRand *rand.Rand

	net        *network // nil: brokers have no links
	registered []cluster.Registration
	slowList   time.Duration // how long a LIST of registrations may take
	outage     outage
	calls      []*call // without an answer

	loss   *loss // nil: nothing was lost
	ending bool  // over will be set
	over   bool  // the run ends here, before everything has finished
}

// Run performs the run of a configuration. trace, if not nil, gets a readable line per step.
func Run(cfg Config, trace io.Writer) Result {
	return runOn(cfg, trace, func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(cfg.Seed, n)) })
}

// runOn is Run with another source of randomness: stream returns that of each purpose, from 1 to
// 19.
func runOn(cfg Config, trace io.Writer, stream func(n uint64) *rand.Rand) Result {
	w := &simulation{cfg: cfg, now: begin, trace: trace, hash: 14695981039346656037}
	w.schedRand, w.faultRand, w.loadRand, w.crashRand, w.idRand, w.keyRand = stream(1), stream(2), stream(3), stream(4), stream(5), stream(6)
	w.cutRand, w.typeRand, w.watchRand, w.lossRand, w.clockRand = stream(7), stream(8), stream(9), stream(10), stream(11)
	w.rightsRand, w.auditRand, w.eventRand, w.feedRand, w.netRand, w.scrubRand = stream(12), stream(13), stream(14), stream(15), stream(16), stream(17)
	w.atomicRand, w.txRand = stream(18), stream(19)
	w.store = newStore(w)
	w.check = newChecker(w)
	w.build()
	w.runUntil(w.now + int64(cfg.Chaos))
	if !w.over {
		w.calmDown()
	}
	w.runUntil(w.now + int64(cfg.Calm))
	w.rest()
	w.idle()
	if w.err == nil && !w.over && !w.loss.matters() {
		w.check.atEnd()
	}
	for _, n := range w.nodes {
		if n.run != nil {
			n.run.events.kill()
		}
	}
	w.watchedEnd()
	w.stats.Millis = int((w.now - begin) / 1e6)
	if w.clustered() {
		w.stats.Cluster.Runs, w.stats.Cluster.Brokers = 1, w.cfg.Nodes
	}
	w.stats.Slots, w.stats.Records = w.check.slots, w.check.records
	return Result{Config: cfg, Stats: w.stats, Hash: w.hash, Err: w.err}
}

func (w *simulation) build() {
	for i := range w.cfg.Topics {
		w.topics = append(w.topics, &topic{name: fmt.Sprintf("t%d", i), compacted: i < w.cfg.Compacted, stamped: i >= w.cfg.Topics-w.cfg.Stamped})
	}
	for i := range w.cfg.Nodes + w.cfg.Followers {
		n := &node{w: w, id: i, readOnly: i >= w.cfg.Nodes, dataDir: dataDir{folderless: chance(w.lossRand, w.cfg.Folderless)}}
		w.nodes = append(w.nodes, n)
		w.after(w.upTo(w.crashRand, 20*time.Millisecond), n.start)
		w.faultsOf(n)
	}
	if w.clustered() {
		w.net = newNetwork(w)
		if w.cfg.Cluster.Old {
			w.oldLog()
		}
	}
	for i := range w.cfg.Producers {
		p := &producer{w: w, id: i, idempotent: w.loadRand.IntN(2) == 0}
		w.clients = append(w.clients, p)
		w.after(w.upTo(w.loadRand, w.cfg.Think), p.next)
	}
	w.groupsAndTrims()
	w.principals()
	w.audits()
	w.watchers()
	w.senders()
	w.atomics()
	w.transactions()
	w.packs()
	w.retypes()
	w.readers()
	w.refusals()
	w.losses()
	w.together()
	w.wrongClocks()
	w.outages()
	w.callers()
}

// calmDown ends the chaos: no new faults, and all brokers run.
func (w *simulation) calmDown() {
	w.calm = true
	w.store.refusing = false
	w.heal()
	for _, n := range w.nodes {
		n.resume()
		n.cut = 0
		n.rightClock()
		if n.run != nil {
			n.run.engine.Calm()
		} else {
			w.after(w.units(5*time.Second), n.start) // if it does not restart sooner
		}
	}
	w.logf("calm")
}

// fail records the first violation and ends the run.
func (w *simulation) fail(format string, args ...any) {
	if !w.loss.isForked() {
		w.violated(format, args...)
	}
}

// violated is fail for rules that also hold after an unseen loss.
func (w *simulation) violated(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		w.logf("VIOLATION %v", w.err)
	}
}

// logf adds a line to the trace and to its hash.
func (w *simulation) logf(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%12.6f %s\n", float64(w.now)/1e9, fmt.Sprintf(format, args...))
	}
}

// mark adds a fact of the run to the trace's hash.
func (w *simulation) mark(kind string, v ...uint64) {
	h := fnv.New64a()
	io.WriteString(h, kind)
	x := w.hash ^ h.Sum64() ^ uint64(w.now)
	for _, n := range v {
		x = (x ^ n) * 1099511628211
	}
	w.hash = x * 1099511628211
}

// after schedules f. Events at equal times run in order of scheduling.
func (w *simulation) after(d time.Duration, f func()) {
	w.queue.push(w.now+int64(max(d, 0)), f)
}

func (w *simulation) runUntil(end int64) {
	for w.queue.until(end) && w.err == nil && !w.over {
		at, do := w.queue.pop()
		w.now = at
		w.stats.Steps++
		do()
	}
	if !w.over {
		w.now = max(w.now, end)
	}
}

func (w *simulation) upTo(r *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(d)))
}

// around draws a time with the given mean and a heavy tail.
func (w *simulation) around(r *rand.Rand, mean time.Duration) time.Duration {
	d := time.Duration(r.ExpFloat64() * float64(mean))
	if r.IntN(100) == 0 {
		d *= 20
	}
	return d + 1
}

func chance(r *rand.Rand, p float64) bool { return p > 0 && r.Float64() < p }
