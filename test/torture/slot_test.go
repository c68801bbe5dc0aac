package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/testenv"
)

// slot runs consecutive broker processes with the same data directory, proxies and addresses.
type slot struct {
	r     *run
	n     int
	rng   *rand.Rand
	wire  *faultproxy.Wire
	kafka *faultproxy.Wire  // of Kafka clients
	store *faultproxy.Store // nil if the bucket is a folder

	mu         sync.Mutex // guards the fields below
	broker     *testenv.Broker
	ready      time.Time // since when it leads; zero: it does not
	terminated bool      // SIGTERM was sent
	starts     int

	timers sync.WaitGroup // goroutines that will send SIGCONT
	log    *os.File
}

func newSlot(r *run, n int) (*slot, error) {
	s := &slot{r: r, n: n, rng: stream(r.p.seed, streamSlot+n)}
	var err error
	if s.wire, err = faultproxy.NewWire(s.rng.Uint64()); err != nil {
		return nil, err
	}
	if s.kafka, err = faultproxy.NewWire(s.rng.Uint64()); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(filepath.Join(r.dir, fmt.Sprintf("broker-%d.log", n))); err != nil {
		return nil, err
	}
	if r.p.disk {
		return s, nil
	}
	if s.store, err = faultproxy.NewStore(r.shared.server.Endpoint, s.rng.Uint64()); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *slot) close() {
	s.wire.Close()
	s.kafka.Close()
	if s.store != nil {
		s.store.Close()
	}
	s.timers.Wait()
	_ = s.log.Close()
}

// disturb turns the faults of the plan on, or all faults off.
func (s *slot) disturb(on bool) {
	var wire faultproxy.WireConfig
	var store faultproxy.StoreConfig
	if on {
		wire, store = s.r.p.wire, s.r.p.store
	}
	s.wire.SetConfig(wire)
	s.kafka.SetConfig(wire)
	if s.store == nil {
		return
	}
	s.store.SetConfig(store)
	if !on {
		s.store.Unblock()
	}
}

func (s *slot) name() string    { return fmt.Sprintf("broker %d", s.n) }
func (s *slot) dataDir() string { return filepath.Join(s.r.dir, fmt.Sprintf("data-%d", s.n)) }

// live runs brokers in the slot until ctx ends, and then kills the last one.
func (s *slot) live(ctx context.Context) {
	var delay time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		b, err := s.start(ctx)
		if err != nil {
			s.r.fault("%s: %v", s.name(), err)
			return
		}
		announced := make(chan struct{})
		go func() { // ends with the broker
			defer close(announced)
			s.announce(b)
		}()
		select {
		case <-b.Done():
		case <-ctx.Done():
			b.Kill()
		}
		<-announced
		s.wire.SetTarget("")
		s.kafka.SetTarget("")
		delay = s.ended(b, ctx.Err() != nil)
	}
}

// start starts a process.
func (s *slot) start(ctx context.Context) (*testenv.Broker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.starts == 0
	s.starts++
	if !first && s.rng.Float64() < s.r.p.wipeData {
		s.r.counts.add("data folders wiped", 1)
		if err := os.RemoveAll(s.dataDir()); err != nil {
			return nil, err
		}
	} else if s.rng.Float64() < s.r.p.wipeCache {
		if err := os.RemoveAll(filepath.Join(s.dataDir(), "cache")); err != nil {
			return nil, err
		}
	}
	env := append(environment(s.r.key()), "SEB_HURRY_ALONE=1") // a start deposes the leader
	if s.r.p.disk && slices.Contains(s.r.p.flags, "--snapshot-slots") {
		env = append(env, "SEB_HURRY=1")
	}
	if s.r.p.journalBytes > 0 {
		env = append(env, fmt.Sprintf("SEB_HURRY_JOURNAL=%d", s.r.p.journalBytes))
	}
	if s.r.p.sessions < 6*time.Second {
		env = append(env, "SEB_HURRY_GROUPS=1")
	}
	if points := s.failpoints(first && s.n == 0); points != "" && !s.r.calm.Load() {
		env = append(env, "SEB_FAILPOINTS="+points)
	}
	spec := s.r.spec()
	if s.store != nil {
		spec = s.store.Spec(s.r.bucket)
	}
	args := append([]string{"--bucket", spec, "--data-dir", s.dataDir(), "--http-port", "0", "--kafka-listen", "127.0.0.1:0", "--auto-create-topics=false", "--take-over"}, s.r.p.flags...)
	b, err := testenv.ServeLogged(s.r.shared.seb, env, s.line, args...)
	if err != nil {
		return nil, err
	}
	s.r.counts.add("starts", 1)
	s.broker, s.terminated, s.ready = b, false, time.Time{}
	return b, nil
}

// announce records when a broker leads.
func (s *slot) announce(b *testenv.Broker) {
	began := time.Now()
	address, err := b.Address(s.dataDir())
	if err != nil {
		return // the process ended
	}
	s.wire.SetTarget(strings.TrimPrefix(address, "http://"))
	s.mu.Lock()
	s.ready = time.Now()
	s.mu.Unlock()
	s.r.counts.add("starts that led", 1)
	s.r.mu.Lock()
	s.r.leads = append(s.r.leads, time.Since(began))
	s.r.mu.Unlock()
	s.r.rec.Note(s.name(), "leads, pid %d, after %v", b.Pid(), time.Since(began).Round(time.Millisecond))
}

// ended checks how a broker ended, and returns the pause before the next start.
func (s *slot) ended(b *testenv.Broker, over bool) time.Duration {
	s.mu.Lock()
	told, led := s.terminated, !s.ready.IsZero()
	s.ready = time.Time{}
	s.mu.Unlock()
	code, by := b.Exit()
	s.r.rec.Note(s.name(), "pid %d ended: code %d %v", b.Pid(), code, by)
	switch {
	case by == syscall.SIGKILL:
		if !over {
			s.r.counts.add("SIGKILL", 1)
			if !led {
				s.r.counts.add("SIGKILL while starting", 1)
			}
		}
		return 0
	case code == 0 && told:
		s.r.counts.add("stopped regularly", 1)
		return 0
	case code == 3:
		s.r.counts.add("fenced", 1)
		return span(s.rng, 10*time.Millisecond, s.r.p.restartMax)
	case by == syscall.SIGTERM && told: // before its signal handler was installed
		s.r.counts.add("stopped at once", 1)
		return 0
	case code == 1 && told:
		s.r.counts.add("stopped, not in order", 1)
		return 0
	case (code == 4 || code == 1 && !led) && s.store != nil:
		// The store check at a start with an empty data directory, and a store that refuses or does
		// not answer.
		s.r.counts.add("ended by the store", 1)
		return 10 * time.Millisecond
	}
	s.r.fault("%s ended by itself: code %d %v\n%s", s.name(), code, by, b.Log())
	return 0
}

// line processes a line of the broker's output.
func (s *slot) line(text string) {
	_, _ = fmt.Fprintln(s.log, text)
	if address, ok := testenv.KafkaAddress(text); ok {
		s.kafka.SetTarget(address)
		return
	}
	if rest, ok := strings.CutPrefix(text, "failpoint "); ok {
		name, action, _ := strings.Cut(rest, " ")
		s.r.counts.add("failpoint "+action, 1)
		s.r.counts.add("at "+name, 1)
		if action == "kill" {
			s.r.counts.add("killed at "+name, 1)
		}
		s.r.rec.Note(s.name(), "failpoint %s", rest)
		if action == "stop" {
			s.resumeLater(s.current(), s.pauseTime())
		}
		return
	}
	switch {
	case strings.HasPrefix(text, "panic:"), strings.HasPrefix(text, "fatal error:"), strings.Contains(text, "DATA RACE"):
		s.r.fault("%s: %s", s.name(), text)
	case strings.Contains(text, `msg="log alarm: `):
		s.r.rec.Note(s.name(), "%s", text)
		if !strings.Contains(text, "store refuses") {
			s.r.counts.add("alarms", 1)
		} else {
			s.r.counts.add("alarms of a store that refuses", 1)
		}
	case strings.Contains(text, "level=ERROR"):
		s.r.counts.add("errors logged", 1)
	}
}

// current returns the process in the slot; nil before the first.
func (s *slot) current() *testenv.Broker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broker
}

// leads returns since when the broker in the slot leads, according to its own log; zero: it does
// not.
func (s *slot) leads() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}
