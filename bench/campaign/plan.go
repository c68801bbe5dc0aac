// Package campaign compares Seb with other brokers and writes a report. It starts one broker at a
// time, runs the workloads on it, keeps every result in a file, and makes a document from the
// files. An interrupted campaign continues where it stopped.
package campaign

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/workload"
)

// Settings identify comparable campaigns. Results of different settings are never mixed.
type Settings struct {
	// Duration is the measured time of a run; 0: as Budget allows, up to 20 seconds.
	Duration time.Duration
	// Repeats of each run; 0: 3, or 5 for a long or flushed campaign.
	Repeats int
	// Budget is the time for the whole campaign if Duration is 0; 0: 50 minutes.
	Budget time.Duration
	// Long selects runs of 10 minutes of Seb, NATS and Redis.
	Long bool
	// Flushed selects the brokers that flush before they acknowledge, without subscribers.
	Flushed bool
}

// The defaults and the limits for Budget.
const (
	durationDefault = 20 * time.Second
	durationLeast   = 5 * time.Second
	largeLeast      = 10 * time.Second // of article-e: 1,000 messages, the minimum for a p99
	durationLong    = 10 * time.Minute
	repeatsDefault  = 3
	repeatsMore     = 5 // of the others
	repeatsMax      = 100
	budgetDefault   = 50 * time.Minute
)

// The parts of a campaign.
const (
	PartRuns     = "runs"       // the article's five runs, of all systems
	PartWaits    = "batch-wait" // Seb's batch wait
	PartFollower = "follower"   // messages received from another broker
	PartLoops    = "loops"      // open and closed loop on a broker that pauses for a second
	PartFlushed  = "flushed"    // brokers that flush before they acknowledge
	PartFlush    = "flush"      // whether they do
)

// allParts are the parts in the order of documents.
var allParts = []string{PartRuns, PartWaits, PartFollower, PartLoops, PartFlushed, PartFlush}

// system is a measured system.
type system struct {
	label  string // in tables and pictures, and for Only
	peer   string // name of the peer; "": none is started
	driver string
	wait   time.Duration // Seb's batch wait; 0: its default
}

// systems are those of the article's runs, in the order of the tables.
var systems = []system{
	{label: "Seb memory", peer: "seb-memory", driver: "seb"},
	{label: "Seb disk", peer: "seb-fsync", driver: "seb"},
	{label: "Seb S3", peer: "seb-s3", driver: "seb"},
	{label: "Seb disk, Kafka's protocol", peer: "seb-fsync", driver: "kafka"},
	{label: "Kafka", peer: "kafka-memory", driver: "kafka"},
	{label: "Kafka flushed", peer: "kafka-fsync", driver: "kafka"},
	{label: "NATS core", peer: "nats-memory", driver: "nats"},
	{label: "JetStream memory", peer: "nats-memory", driver: "nats-jetstream"},
	{label: "JetStream file", peer: "nats-fsync", driver: "nats-jetstream"},
	{label: "RabbitMQ classic", peer: "rabbitmq-memory", driver: "rabbitmq-classic"},
	{label: "RabbitMQ quorum", peer: "rabbitmq-fsync", driver: "rabbitmq-quorum"},
	{label: "Redis pub/sub", peer: "redis-memory", driver: "redis-pubsub"},
	{label: "Redis streams", peer: "redis-memory", driver: "redis-streams"},
	{label: "Redis streams AOF", peer: "redis-fsync", driver: "redis-streams"},
	{label: "nothing over TCP", driver: tcpFloor},
	{label: "nothing", driver: "noop"},
}

// tcpFloor is the driver without a system, over TCP.
const tcpFloor = "noop-tcp"

// waits are the tested batch waits.
var waits = []time.Duration{time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond}

// Step is one run.
type Step struct {
	Part     string
	System   system
	Workload workload.Workload
	Repeat   int
	Delay    time.Duration // of each flush of the broker, made with strace; 0: strace does not run
}

// Label returns the system's label in tables and pictures.
func (s *Step) Label() string { return s.System.label }

// name returns the name of the step's file, without extension, below its part.
func (s *Step) name() string {
	work := slug(s.Workload.Name)
	if s.Workload.Loop == workload.Closed {
		work += "-closed"
	}
	return fmt.Sprintf("%s/%s-%s-%d", s.Part, work, slug(s.System.label), s.Repeat)
}

// slug makes a label part of a file name.
func slug(label string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(label))
}

// session is the runs of one broker between its start and its end.
type session struct {
	peer  string
	wait  time.Duration
	steps []Step
}

// Plan is all runs of a campaign, in order.
type Plan struct {
	Settings Settings // without zeros
	sessions []session
}

var errSettings = errors.New("campaign")

// NewPlan fills in the settings.
func NewPlan(s Settings) (*Plan, error) {
	if s.Repeats == 0 {
		s.Repeats = repeatsDefault
		if s.Long || s.Flushed {
			s.Repeats = repeatsMore
		}
	}
	s.Budget = cmp.Or(s.Budget, budgetDefault)
	switch {
	case s.Repeats < 1 || s.Repeats > repeatsMax:
		return nil, fmt.Errorf("%w: repeats: want 1 to %d, given %d", errSettings, repeatsMax, s.Repeats)
	case s.Long && s.Flushed:
		return nil, fmt.Errorf("%w: want a long or a flushed campaign, not both", errSettings)
	case s.Duration < 0 || s.Budget < 0:
		return nil, fmt.Errorf("%w: durations: want more than 0, given %v and %v", errSettings, s.Duration, s.Budget)
	}
	if s.Duration == 0 && s.Long {
		s.Duration = durationLong
	}
	if s.Duration > 0 {
		return &Plan{s, sessions(s, s.Duration)}, nil
	}
	for s.Duration = durationDefault; ; s.Duration -= time.Second {
		p := &Plan{s, sessions(s, max(s.Duration, largeLeast))}
		if s.Duration <= durationLeast || p.Estimate() <= s.Budget {
			return p, nil
		}
	}
}

// Name returns the name of the results folder.
func (p *Plan) Name() string {
	name := fmt.Sprintf("%v-x%d", p.Settings.Duration, p.Settings.Repeats)
	if p.Settings.Long {
		name = "long-" + name
	}
	if p.Settings.Flushed {
		name = "flushed-" + name
	}
	return name
}

// Steps returns all runs of the plan.
func (p *Plan) Steps() (list []Step) {
	for i := range p.sessions {
		list = append(list, p.sessions[i].steps...)
	}
	return list
}

// Choose selects systems, works and parts; an empty list selects all. A system is selected by its
// label, its peer, or the part of the peer before the dash, in any case. A work is selected with or
// without article-.
func (p *Plan) Choose(only, runs, parts []string) (*Plan, error) {
	matches := func(list []string, names ...string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(want string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(strings.TrimSpace(want), name) })
		})
	}
	chosen := &Plan{Settings: p.Settings}
	for _, s := range p.sessions {
		family, _, _ := strings.Cut(s.peer, "-")
		steps := slices.DeleteFunc(slices.Clone(s.steps), func(x Step) bool {
			letter := strings.TrimPrefix(x.Workload.Name, "article-")
			return !matches(only, x.System.label, slug(x.System.label), s.peer, family) || !matches(runs, x.Workload.Name, letter) || !matches(parts, x.Part)
		})
		if len(steps) > 0 {
			s.steps = steps
			chosen.sessions = append(chosen.sessions, s)
		}
	}
	if len(chosen.sessions) == 0 {
		return nil, fmt.Errorf("%w: no runs match --only %q --runs %q --parts %q; systems: %s; runs: %s; parts: %s", errSettings, only, runs, parts,
			strings.Join(labels(), ", "), strings.Join(workload.Presets(), ", "), strings.Join(allParts, ", "))
	}
	return chosen, nil
}

func labels() (list []string) {
	for _, s := range systems {
		list = append(list, s.label)
	}
	return list
}

// sessions orders all runs: a round of the article's runs, then the other parts, then further
// rounds, so that an interrupted campaign has some results of everything. Every round starts with
// another system, so that no system is always measured at the same time.
func sessions(s Settings, large time.Duration) (list []session) {
	if s.Flushed {
		return flushedSessions(s)
	}
	list = round(s, large, 1)
	if !s.Long {
		list = append(list, others(s)...)
	}
	for n := 2; n <= s.Repeats; n++ {
		list = append(list, round(s, large, n)...)
	}
	return list
}

// longPeers are the peers of a long campaign.
var longPeers = []string{"seb", "nats", "redis"}

// round returns every system with every work, once.
func round(s Settings, large time.Duration, repeat int) (list []session) {
	for _, one := range systems {
		family, _, _ := strings.Cut(one.peer, "-")
		if s.Long && !slices.Contains(longPeers, family) || one.peer == "" && repeat > 1 {
			continue // baselines are measured once, for comparison
		}
		var steps []Step
		for _, name := range workload.Presets() {
			w := work(name, s.Duration)
			if name == "article-e" {
				w.Duration = workload.Duration(large)
			}
			steps = append(steps, Step{PartRuns, one, w, repeat, 0})
		}
		if n := len(list); n > 0 && list[n-1].peer == one.peer {
			list[n-1].steps = append(list[n-1].steps, steps...)
			continue
		}
		list = append(list, session{peer: one.peer, steps: steps})
	}
	first := (repeat - 1) * len(list) / max(s.Repeats, 1) % len(list)
	return slices.Concat(list[first:], list[:first])
}

// others returns the parts that are done once.
func others(s Settings) (list []session) {
	b := work("article-b", s.Duration)
	for _, base := range systems[1:3] { // disk and S3
		for _, wait := range waits {
			one := base
			one.label, one.wait = fmt.Sprintf("%s, %v", base.label, wait), wait
			list = append(list, session{peer: one.peer, wait: wait, steps: []Step{{PartWaits, one, b, 1, 0}}})
		}
	}
	for _, base := range systems[1:3] {
		alone, followed := base, base
		followed.peer += "-follower"
		alone.label += ", received from the writer"
		followed.label += ", received from a follower"
		list = append(list, session{peer: alone.peer, steps: []Step{{PartFollower, alone, b, 1, 0}}},
			session{peer: followed.peer, steps: []Step{{PartFollower, followed, b, 1, 0}}})
	}
	for _, label := range []string{"Seb disk", "Redis streams"} {
		one := systems[slices.Index(labels(), label)]
		open := b
		open.Faults = []workload.Fault{{Kind: workload.Pause, At: s.Duration / 2, For: pause}}
		closed := open
		closed.Loop = workload.Closed
		list = append(list, session{peer: one.peer, steps: []Step{{PartLoops, one, open, 1, 0}, {PartLoops, one, closed, 1, 0}}})
	}
	return list
}

// pause is how long the broker is stopped.
const pause = time.Second

// The times in addition to the duration.
const (
	warmupShort = 2 * time.Second
	warmupLong  = 5 * time.Second
	drain       = 5 * time.Second
	largeStream = 128 << 20 // retained bytes of each of many streams

	// lagLimit is higher than the default, because generator and broker share the cores here.
	// Waking up to send takes some 0.1 ms, and the fastest brokers do not take much longer for a
	// message.
	lagLimit = 33
)

// work returns a preset as used here.
func work(name string, duration time.Duration) workload.Workload {
	w, _ := workload.Preset(name) // the presets named here exist
	w.Duration, w.Warmup, w.Timeout = workload.Duration(duration), workload.Duration(warmupShort), workload.Duration(drain)
	w.LagLimit = lagLimit
	if duration >= time.Minute {
		w.Warmup = workload.Duration(warmupLong)
	}
	return w
}

// Approximate times in addition to the runs, for the estimate.
const (
	stepRest = 1200 * time.Millisecond // connecting, waiting for unexpected messages, closing
	primeFor = 3 * time.Second
)

// startTimes are the times that peers take to start and to end.
var startTimes = map[string]time.Duration{"kafka": 14 * time.Second, "rabbitmq": 10 * time.Second, "seb": 3 * time.Second}

// Estimate returns the approximate duration of the plan.
func (p *Plan) Estimate() (sum time.Duration) {
	for i := range p.sessions {
		sum += p.sessions[i].overhead()
		for k := range p.sessions[i].steps {
			sum += p.sessions[i].steps[k].estimate()
		}
	}
	return sum
}

// overhead returns the time before the first run of a session and after the last.
func (s *session) overhead() time.Duration {
	if s.peer == "" {
		return 0
	}
	family, _, _ := strings.Cut(s.peer, "-")
	t := max(startTimes[family], time.Second)
	if s.primed() {
		t += primeFor + stepRest
	}
	return t
}

// primed reports whether the broker gets some load before the first run.
func (s *session) primed() bool { return s.steps[0].Part == PartRuns || s.steps[0].Part == PartFlushed }

func (s *Step) estimate() time.Duration {
	t := s.Workload.Length() + stepRest
	if s.behind() {
		t += time.Duration(s.Workload.Timeout) + stepRest
	}
	return t
}

// behind reports whether two cores are known to be too few for the system and work.
func (s *Step) behind() bool {
	switch s.Workload.Name {
	case "article-e":
		return s.System.peer != "" && s.System.driver != "redis-pubsub"
	case "article-d":
		return s.System.driver == "rabbitmq-classic" || s.System.driver == "rabbitmq-quorum" || s.System.peer == "nats-fsync"
	}
	return s.System.peer == "nats-fsync"
}
