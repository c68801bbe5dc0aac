package agent_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/agent"
	_ "github.com/sebbroker/seb/bench/drivers" // registers the drivers
	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/internal/operate/quiet"

	"github.com/sebbroker/seb/bench/workload"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// asAgent is the environment variable that makes this program an agent instead of a test.
const asAgent = "SEB_BENCH_TEST_AGENT"

const secret = "a token of the tests, long enough"

func TestMain(m *testing.M) {
	quiet.Restore()
	if os.Getenv(asAgent) == "" {
		os.Exit(m.Run())
	}
	if err := beAgent(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func beAgent() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	token, err := agent.ReadToken("")
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Options{Token: token, Say: func(line string) { fmt.Println(line) }})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	return a.Serve(ctx, l)
}

func token(t *testing.T, text string) agent.Token {
	t.Helper()
	tok := must.Get(agent.NewToken(text))(t)
	return tok
}

// process is an agent in a separate process.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	lines   chan string // its output; closed at its end
}

func startAgent(t *testing.T) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asAgent+"=1", agent.TokenVariable+"="+secret)
	cmd.Stderr = t.Output()
	out := must.Get(cmd.StdoutPipe())(t)
	must.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd, lines: make(chan string, 1000)}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		for range p.lines { // until it has ended
		}
		_ = cmd.Wait()
	})
	go func() {
		defer close(p.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			p.lines <- in.Text()
		}
	}()
	p.address = strings.TrimPrefix(p.says("listening on"), "listening on ")
	return p
}

// says waits until the agent prints a line with a text.
func (p *process) says(text string) string {
	p.t.Helper()
	for line := range p.lines {
		if strings.Contains(line, secret) {
			p.t.Errorf("output contains the token: %s", line)
		}
		if strings.Contains(line, text) {
			return line
		}
	}
	p.t.Fatalf("the agent ended without printing %q", text)
	return ""
}

func newTeam(t *testing.T, agents ...*process) *agent.Team {
	t.Helper()
	o := agent.TeamOptions{Token: token(t, secret), Say: func(line string) { t.Log(line) }}
	for _, p := range agents {
		o.Agents = append(o.Agents, p.address)
	}
	team := must.Get(agent.NewTeam(o))(t)
	t.Cleanup(team.Close)
	return team
}

// shortWorkload is 400 messages per second for two seconds, from four publishers to two
// subscribers.
func shortWorkload() workload.Workload {
	w := workload.Default()
	w.Rate, w.Publishers, w.Subscribers = 400*workload.PerSecond, 4, 2
	w.Warmup, w.Duration, w.Timeout = workload.Duration(200*time.Millisecond), workload.Duration(2*time.Second), workload.Duration(time.Minute)
	return w
}

// endless is a workload that outlasts the test.
func endless() workload.Workload {
	w := shortWorkload()
	w.Duration = workload.Duration(time.Hour)
	return w
}

// bars returns the samples of curves by bar.
func bars(t *testing.T, curves ...*result.Curve) map[time.Duration]int64 {
	t.Helper()
	all := map[time.Duration]int64{}
	for _, c := range curves {
		h := must.Get(c.Histogram())(t)
		for _, b := range h.Bars() {
			all[b.To] += b.Count
		}
	}
	return all
}

// sameSamples checks that a merged result has exactly the samples of its parts.
func sameSamples(t *testing.T, merged *result.Run, parts []result.Run) {
	t.Helper()
	for _, name := range result.Names() {
		var curves []*result.Curve
		var n int64
		for i := range parts {
			c := parts[i].Curves.Named(name)
			if c.Count == 0 {
				t.Errorf("%s of part %d has no samples", name, i)
			}
			n += c.Count
			curves = append(curves, c)
		}
		want, got := bars(t, curves...), bars(t, merged.Curves.Named(name))
		for to, count := range want {
			if got[to] != count {
				t.Errorf("%s up to %v: %d samples, the parts have %d", name, to, got[to], count)
			}
		}
		if len(got) != len(want) || merged.Curves.Named(name).Count != n {
			t.Errorf("%s: %d bars and %d samples, the parts have %d and %d", name, len(got), merged.Curves.Named(name).Count, len(want), n)
		}
	}
}

func TestNothing(t *testing.T) {
	t.Parallel()
	team := newTeam(t, startAgent(t), startAgent(t))
	var progress int
	for range 2 { // over the same connections
		m, parts, err := team.DoParts(t.Context(), agent.Run{
			Workload: shortWorkload(), Target: workload.Target{Driver: "noop"},
			Progress: func(p load.Progress) {
				if progress++; p.Wanted != 400 {
					t.Errorf("%+v", p)
				}
			},
		})
		must.NoError(t, err)
		sameSamples(t, m, parts)
		// Each agent has its own system, with one subscriber.
		if c := m.Counts; c.Sent != 880 || c.Measured != 800 || c.Received != 880 || c.Expected != 880 || c.Others != 0 || !c.Clean() {
			t.Errorf("%+v %v", c, m.Errors)
		}
		if len(m.Agents) != 2 || m.Agents[0].Counts.Sent != 440 || m.StartApart <= 0 || m.Workload.Publishers != 4 {
			t.Errorf("%+v, apart %v", m.Agents, m.StartApart)
		}
	}
	if progress == 0 {
		t.Error("no progress was reported")
	}
}

func TestBroker(t *testing.T) {
	t.Parallel()
	o := peers.Options{Data: t.TempDir(), Progress: t.Output()}
	t.Cleanup(func() { check.NoError(t, peers.Down(context.Background(), o)) })
	up := must.Get(peers.Up(t.Context(), o, "seb-memory"))(t)
	p := up[0]
	target := workload.Target{Driver: "seb", Address: p.Targets[0].Address, Options: p.Targets[0].Options, PID: p.PID}
	agents := []*process{startAgent(t), startAgent(t)}
	for name, change := range map[string]func(w *workload.Workload){
		"to all":   func(*workload.Workload) {},
		"shared":   func(w *workload.Workload) { w.Shared, w.Partitions = true, 4 },
		"by topic": func(w *workload.Workload) { w.Topics = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			w := shortWorkload()
			change(&w)
			team := newTeam(t, agents...)
			defer team.Close() // so that the next team can use the agents
			m, parts := must.Get2(team.DoParts(t.Context(), agent.Run{Workload: w, Target: target, Floor: 200 * time.Millisecond}))(t)
			sameSamples(t, m, parts)
			want := int64(2 * 880)
			if w.Shared {
				want = 880
			}
			if c := m.Counts; c.Sent != 880 || c.Expected != want || c.Received != want || c.Others == 0 || !c.Clean() {
				t.Errorf("%+v %v", c, m.Errors)
			}
			if c := m.Curves.E2EIntended; c.Negative != 0 || c.Count >= m.Counts.Received {
				t.Errorf("%d samples, %d negative: only messages that return to their sender are measured", c.Count, c.Negative)
			}
			if m.System.Settings["bucket"] != "mem:" || m.System.PID != p.PID || m.Floor == nil || m.Floor.Curves.AckSent.Count != 80 {
				t.Errorf("%+v, floor %+v", m.System, m.Floor)
			}
		})
	}
	c := must.Get(client.New(target.Address, client.Options{APIKey: key(t, target.Options["key-file"])}))(t)
	topics := must.Get(c.Topics(t.Context()))(t)
	for _, topic := range topics {
		if strings.HasPrefix(topic.Name, "seb-bench") {
			t.Errorf("topic %s is left", topic.Name)
		}
	}
}

func key(t *testing.T, path string) string {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	return strings.TrimSpace(string(b))
}

func TestLossesBetweenAgents(t *testing.T) {
	t.Parallel()
	r := startRelay(t, func(n, i int) int {
		switch {
		case n%50 == 7*i:
			return 0
		case n%40 == 3+i:
			return 2
		}
		return 1
	})
	team := newTeam(t, startAgent(t), startAgent(t))
	w := shortWorkload()
	w.Timeout = workload.Duration(2 * time.Second) // the wait for lost messages
	m, parts := must.Get2(team.DoParts(t.Context(), agent.Run{Workload: w, Target: workload.Target{Driver: "relay", Address: r.l.Addr().String()}}))(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := m.Counts; r.lost == 0 || c.Lost != r.lost || c.Duplicates != r.doubled || c.Expected != 2*880 || c.Received != c.Expected-c.Lost || c.Foreign != 0 {
		t.Errorf("the broker lost %d and doubled %d; the result has %+v", r.lost, r.doubled, c)
	}
	if parts[0].Counts.Others == 0 || parts[1].Counts.Others == 0 {
		t.Error("an agent got nothing of the other")
	}
	sameSamples(t, m, parts)
}

// inTheMiddle starts an endless run on agents, performs an act during it, and returns the run's
// error.
func inTheMiddle(t *testing.T, target workload.Target, act func(), agents ...*process) error {
	t.Helper()
	team := newTeam(t, agents...)
	var once sync.Once
	_, err := team.Do(t.Context(), agent.Run{Workload: endless(), Target: target, Progress: func(load.Progress) { once.Do(act) }})
	return err
}

func TestAgentDies(t *testing.T) {
	t.Parallel()
	r := startRelay(t, func(int, int) int { return 1 })
	stays, dies := startAgent(t), startAgent(t)
	err := inTheMiddle(t, workload.Target{Driver: "relay", Address: r.l.Addr().String()}, func() { check.NoError(t, dies.cmd.Process.Kill()) }, stays, dies)
	check.ErrorContains(t, err, "agent "+dies.address+": ")
	stays.says("failed: ") // the run, which it was ordered to stop
	stays.says("session ends")
	t.Run("the other agent can be had again", func(t *testing.T) {
		m, err := newTeam(t, stays).Do(t.Context(), agent.Run{Workload: shortWorkload(), Target: workload.Target{Driver: "noop"}})
		if err != nil || m.Counts.Sent != 880 {
			t.Errorf("error %v", err)
		}
	})
}

func TestAgentHangs(t *testing.T) {
	t.Parallel()
	stays, hangs := startAgent(t), startAgent(t)
	err := inTheMiddle(t, workload.Target{Driver: "noop"}, func() { check.NoError(t, hangs.cmd.Process.Signal(syscall.SIGSTOP)) }, stays, hangs)
	check.ErrorContains(t, err, "agent "+hangs.address+": nothing received for 10s")
	stays.says("failed: ")
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	p := startAgent(t)
	team := newTeam(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := team.Do(ctx, agent.Run{Workload: endless(), Target: workload.Target{Driver: "noop"}, Progress: func(load.Progress) { cancel() }})
	if err != context.Canceled {
		t.Errorf("error %v", err)
	}
	p.says("failed: context canceled")
	p.says("session ends")
}

func TestCoordinatorDisconnects(t *testing.T) {
	t.Parallel()
	p := startAgent(t)
	run := agent.Run{Workload: endless(), Target: workload.Target{Driver: "noop"}}
	t.Run("its connection ends", func(t *testing.T) {
		hangUp := must.Get(agent.Mute(t.Context(), token(t, secret), p.address, run))(t)
		hangUp()
		p.says("failed: ")
		p.says("session ends: connection closed by the other side")
	})
	t.Run("it sends nothing", func(t *testing.T) {
		hangUp := must.Get(agent.Mute(t.Context(), token(t, secret), p.address, run))(t)
		defer hangUp()
		p.says("failed: ")
		p.says("session ends: nothing received for 10s")
	})
}

func TestAgentFails(t *testing.T) {
	t.Parallel()
	team := newTeam(t, startAgent(t), startAgent(t))
	_, err := team.Do(t.Context(), agent.Run{
		Workload: shortWorkload(), Target: workload.Target{Driver: "noop", Options: map[string]string{"queue": "none"}},
	})
	if err == nil || !strings.Contains(err.Error(), "agent 127.0.0.1:") || !strings.Contains(err.Error(), "queue") {
		t.Errorf("error %v", err)
	}
	t.Run("the next run is another", func(t *testing.T) {
		if _, err := team.Do(t.Context(), agent.Run{Workload: shortWorkload(), Target: workload.Target{Driver: "noop"}}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a failed setup is not an agent's error", func(t *testing.T) {
		_, err := team.Do(t.Context(), agent.Run{Workload: shortWorkload(), Target: workload.Target{
			Driver: "seb", Address: "http://127.0.0.1:1", Options: map[string]string{"bucket": "mem:"},
		}})
		if err == nil || !strings.HasPrefix(err.Error(), "set up: ") {
			t.Errorf("error %v", err)
		}
	})
}
