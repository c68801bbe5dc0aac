package torture

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/test/faultproxy"
)

// The purposes of random streams. Each has its own stream, so that one more draw does not change
// the others.
const (
	streamPlan = iota + 1
	streamNemesis
	streamSlot    // plus the slot's number
	streamJournal = 50
	streamClient  = 100 // plus the client's number
)

func stream(seed uint64, purpose int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(purpose)))
}

// plan is the plan of a run, drawn from the seed.
type plan struct {
	seed uint64
	disk bool // the bucket is a folder
	// journal: its epochs have journals, of files of journalBytes (0: the usual sizes).
	journal      bool
	journalBytes int
	exact        bool // few operations, for history.Linear
	slots        int  // number of brokers
	parts        int  // partitions of the topic
	length       time.Duration

	flags []string // of every broker
	store faultproxy.StoreConfig
	wire  faultproxy.WireConfig

	acts     map[act]float64 // weights
	stopMax  time.Duration   // of SIGSTOP and of an unreachable store
	acksMean float64         // acknowledgements between two acts
	// progressMax bounds the wait for acknowledgements, because all brokers may be stopped.
	progressMax time.Duration
	failpoints  float64       // share of starts with a failpoint
	focus       point         // an additional failpoint; no name: none
	wipeData    float64       // share of starts with an empty data directory
	wipeCache   float64       // share of starts with an empty cache
	restartMax  time.Duration // longest wait before a deposed broker restarts

	// sessions is the session timeout of group members. SEB_HURRY allows values below the broker's
	// minimum.
	sessions time.Duration

	clients []kind
	pause   time.Duration // longest pause of a client between operations
	trims   bool
}

// act is a fault of a broker.
type act string

const (
	actKill  act = "SIGKILL"
	actStop  act = "SIGSTOP"
	actTerm  act = "SIGTERM"
	actBlock act = "store out of reach"
)

// pick draws one of several.
func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// span returns a time between lo and hi, distributed logarithmically.
func span(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	if lo >= hi {
		return lo
	}
	return time.Duration(float64(lo) * math.Pow(float64(hi)/float64(lo), rng.Float64()))
}

// half is true half of the time.
func half(rng *rand.Rand) bool { return rng.IntN(2) == 0 }

// newPlan draws a plan. Every fourth has a short history; every third uses a folder.
func newPlan(seed uint64, length time.Duration) *plan {
	rng := stream(seed, streamPlan)
	journals := stream(seed, streamJournal)
	p := &plan{seed: seed, length: length, exact: seed%4 == 3, disk: seed%3 == 2, acts: map[act]float64{actKill: 1}}
	p.slots = pick(rng, 1, 1, 2, 2, 3)
	p.parts = 1 + rng.IntN(4)
	if seed%8 != 7 {
		p.aim(seed)
	}
	p.drawFlags(rng)
	p.drawFaults(rng)
	p.drawActs(rng)
	p.drawClients(rng)
	if p.exact {
		p.length = min(length, 5*time.Second)
	}
	p.drawJournal(journals)
	p.suitFocus()
	p.sessions = 700 * time.Millisecond
	if seed%5 == 1 {
		// The usual session timeout: groups need seconds until they read again after each broker.
		p.sessions = 6 * time.Second
		p.acksMean, p.progressMax = 1e6, 8*time.Second
	}
	return p
}

func (p *plan) drawFlags(rng *rand.Rand) {
	add := func(flag string, values ...string) { p.flags = append(p.flags, "--"+flag, pick(rng, values...)) }
	add("batch-wait-time", "0s", "0s", "1ms", "1ms", "5ms", "5ms", "20ms", "auto")
	// Short intervals, so that packs, snapshots and collections are always in progress.
	if short := half(rng); p.focus.short {
		p.flags = append(p.flags, "--pack-bytes", "32KiB", "--pack-age", "50ms", "--merge-interval", "20ms", "--snapshot-slots", "10")
	} else if short {
		add("pack-bytes", "4KiB", "32KiB", "256KiB")
		add("pack-age", "50ms", "500ms", "5s")
		add("merge-interval", "20ms", "200ms")
		add("snapshot-slots", "10", "30", "200")
	}
	if half(rng) {
		add("cache-size", "0", "64KiB", "4MiB")
	}
	if half(rng) {
		add("memory-limit", "16MiB", "64MiB")
	}
}

// drawJournal gives three of four buckets in a folder journals.
func (p *plan) drawJournal(rng *rand.Rand) {
	p.journal = p.disk && (rng.IntN(4) > 0 || strings.HasPrefix(p.focus.name, "journal."))
	if p.journal {
		p.journalBytes = pick(rng, 256<<10, 256<<10, 512<<10, 0)
	}
	if p.focus.name == "journal.left" || p.focus.name == "journal.next" || p.focus.name == "journal.removed" {
		p.journalBytes = 256 << 10
	}
}

func (p *plan) drawFaults(rng *rand.Rand) {
	// If every tenth request fails, a start takes long, so such runs are rare.
	storm := pick(rng, 0.0, 0, 0.1, 0.1, 0.3, 1)
	rates := func(kinds []faultproxy.Kind, most float64) faultproxy.Rates {
		r := faultproxy.Rates{}
		for _, k := range kinds {
			if on, rate := half(rng), storm*most*math.Pow(rng.Float64(), 2); on {
				r[k] = rate
			}
		}
		return r
	}
	p.store = faultproxy.StoreConfig{
		Rates: rates(faultproxy.StoreKinds, 0.03), Latency: span(rng, time.Millisecond, 20*time.Millisecond),
		StallMax: span(rng, 50*time.Millisecond, 3*time.Second), LateMax: span(rng, 100*time.Millisecond, 10*time.Second),
		BurstMax: span(rng, 50*time.Millisecond, time.Second),
	}
	// A hanging request or a refused PUT takes ten seconds of a run, or ends a broker.
	p.store.Rates[faultproxy.Hung] /= 20
	p.store.Rates[faultproxy.Denied] /= 10
	p.wire = faultproxy.WireConfig{
		Rates: rates(faultproxy.WireKinds, 0.15), DelayMax: span(rng, time.Millisecond, 200*time.Millisecond),
		HoldMax: span(rng, 50*time.Millisecond, 3*time.Second),
	}
}

func (p *plan) drawActs(rng *rand.Rand) {
	for _, a := range []act{actStop, actTerm, actBlock} {
		if on, weight := half(rng), 0.6*rng.Float64(); on {
			p.acts[a] = weight
		}
	}
	p.stopMax = span(rng, 100*time.Millisecond, 15*time.Second)
	if p.slots == 1 {
		p.stopMax = min(p.stopMax, time.Second) // no broker takes over
	}
	p.acksMean, p.progressMax = pick(rng, 2.0, 10, 30, 100), shortProgress
	if half(rng) {
		p.failpoints = 0.2 + 0.6*rng.Float64()
	}
	p.wipeData, p.wipeCache = 0.03*rng.Float64(), pick(rng, 0, 0.5, 1)
	p.restartMax = span(rng, 50*time.Millisecond, 3*time.Second)
}

func (p *plan) drawClients(rng *rand.Rand) {
	p.trims = rng.IntN(3) == 0 && p.parts > 1 // the last partition
	p.pause = span(rng, 2*time.Millisecond, 30*time.Millisecond)
	if p.exact {
		// A partition has few operations, and few at a time.
		p.pause = 60 * time.Millisecond
		p.clients = []kind{goProducer, rawProducer, conditional, reader, register, register, kafkaProducer, kafkaReader, kafkaRegister}
		p.trims = false
		return
	}
	p.clients = []kind{
		goProducer, pick(rng, sharedProducer, plainProducer), rawProducer, windowProducer, reader, follower, grouped, register,
		kafkaClient, kafkaProducer, kafkaReader, kafkaFollower, kafkaGroup, kafkaRegister,
	}
	for range rng.IntN(4) {
		p.clients = append(p.clients, pick(rng, goProducer, sharedProducer, plainProducer, rawProducer, windowProducer, conditional, reader, follower, register, kafkaClient, kafkaProducer, kafkaReader, kafkaGroup))
	}
	if rng.IntN(3) == 0 {
		p.clients = append(p.clients, compactedWriter)
	}
	if p.trims {
		p.clients = append(p.clients, trimmer)
	}
	if half(rng) {
		p.clients = append(p.clients, rights)
	}
}

// suitFocus changes what would keep brokers from reaching the plan's failpoint.
func (p *plan) suitFocus() {
	switch {
	case p.focus.short:
		p.acksMean, p.progressMax = max(p.acksMean, 100), longProgress
	case strings.HasPrefix(p.focus.name, "fenced"), p.focus.name == "journal.marked", p.focus.name == "journal.ended":
		p.slots = max(p.slots, 2)
	case strings.HasPrefix(p.focus.name, "stop"):
		p.acts[actTerm] = max(p.acts[actTerm], 0.5)
	}
	if strings.HasPrefix(p.focus.name, "compacted") && !slices.Contains(p.clients, compactedWriter) {
		p.clients = append(p.clients, compactedWriter)
	}
}

// bucketKind is the kind of bucket as -only names it.
func (p *plan) bucketKind() string {
	switch {
	case p.journal:
		return "journal"
	case p.disk:
		return "folder"
	}
	return "s3"
}

// String describes the plan in a few lines.
func (p *plan) String() string {
	var b strings.Builder
	bucket := "S3"
	if p.disk {
		bucket = "folder"
	}
	if p.journal {
		bucket = fmt.Sprintf("folder with journals, files of %d KiB", p.journalBytes>>10)
	}
	fmt.Fprintf(&b, "seed %d: %s, %d brokers, %d partitions, %v", p.seed, bucket, p.slots, p.parts, p.length)
	if p.exact {
		b.WriteString(", exact")
	}
	fmt.Fprintf(&b, "\n  flags %s", strings.Join(p.flags, " "))
	fmt.Fprintf(&b, "\n  acts %s, after %.0f acknowledgements, stops up to %v, deposed ones wait up to %v, failpoints in %.0f %% of starts, aimed at %q, data directory wiped in %.0f %%, cache in %.0f %%",
		weights(p.acts), p.acksMean, p.stopMax.Round(time.Millisecond), p.restartMax.Round(time.Millisecond), 100*p.failpoints, p.focus.name, 100*p.wipeData, 100*p.wipeCache)
	if !p.disk {
		fmt.Fprintf(&b, "\n  store %s; up to %v slower, stalls %v, late %v, bursts %v", weights(p.store.Rates), p.store.Latency.Round(time.Millisecond),
			p.store.StallMax.Round(time.Millisecond), p.store.LateMax.Round(time.Millisecond), p.store.BurstMax.Round(time.Millisecond))
	}
	fmt.Fprintf(&b, "\n  wire %s; delays %v, half-open %v", weights(p.wire.Rates), p.wire.DelayMax.Round(time.Millisecond), p.wire.HoldMax.Round(time.Millisecond))
	fmt.Fprintf(&b, "\n  clients %v, pause up to %v, sessions of members %v, trims %v", p.clients, p.pause.Round(time.Millisecond), p.sessions, p.trims)
	return b.String()
}

// weights lists numbers by name, as percentages.
func weights[K ~string, M ~map[K]float64](m M) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			parts = append(parts, fmt.Sprintf("%s %.2f %%", k, 100*m[k]))
		}
	}
	return strings.Join(parts, ", ")
}
