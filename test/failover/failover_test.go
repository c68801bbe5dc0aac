package failover

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// TestNothingIsLostOrDoubled replaces the leader of a folder twice: by SIGTERM and by SIGKILL. It
// checks the history, and no times.
func TestNothingIsLostOrDoubled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no brokers")
	}
	r := must.Get(Run(t.Context(), Options{
		Program: testenv.Program(t), Dir: t.TempDir(), Brokers: 2, Faults: []Fault{Term, Kill}, Settle: 200 * time.Millisecond,
		Progress: func(line string) { t.Log(line) },
	}))(t)
	for _, p := range r.Problems {
		t.Error(p)
	}
	if len(r.Rounds) != 2 || r.Records == 0 {
		t.Errorf("%d rounds and %d records, want 2 rounds with records", len(r.Rounds), r.Records)
	}
	for _, round := range r.Rounds {
		if round.Takeovers == 0 {
			t.Errorf("no broker took over after %s", round.Fault)
		}
	}
	t.Logf("standbys: %v, records: %d, unknown outcomes: %d", r.Standbys, r.Records, r.Unknown)
}

// TestNothingIsLostInNamespaces cuts two brokers from each other, stops one, and takes the power of the
// other. It checks the history, and no times.
func TestNothingIsLostInNamespaces(t *testing.T) {
	program := inNamespaces(t)
	if program == "" {
		return
	}
	faults := []Fault{CutPair, OneWay, StopStandby, Power}
	r := must.Get(Run(t.Context(), Options{
		Program: program, Dir: t.TempDir(), Brokers: 2, Namespaces: true, Faults: faults, Clients: []Client{HTTP},
		Settle: 200 * time.Millisecond, Hold: 500 * time.Millisecond, Progress: func(line string) { t.Log(line) },
	}))(t)
	for _, p := range r.Problems {
		t.Error(p)
	}
	if len(r.Rounds) != len(faults) || r.Records == 0 {
		t.Errorf("%d rounds and %d records, want %d rounds with records", len(r.Rounds), r.Records, len(faults))
	}
}

// inNamespaces runs the calling test again in a network of its own, and returns the program to test there;
// "" if that is done.
func inNamespaces(t *testing.T) string {
	const program = "SEB_TEST_PROGRAM"
	switch {
	case Isolated():
		return os.Getenv(program)
	case testing.Short():
		t.Skip("-short: no brokers")
	}
	if err := NamespacesMissing(t.Context()); err != nil {
		t.Skip(err)
	}
	t.Setenv(program, testenv.Program(t))
	must.NoError(t, Isolate(t.Context(), []string{"-test.run", "^" + t.Name() + "$", "-test.v"}))
	return ""
}

// site runs commands in two namespaces that have nothing but loopback addresses.
type site struct {
	*testing.T
	program, dir string
}

func (s *site) command(n int, args ...string) (*exec.Cmd, *sebtest.Log) {
	var log sebtest.Log
	c := exec.CommandContext(s.Context(), "ip", append([]string{"netns", "exec", netns(n), s.program}, args...)...)
	c.Dir, c.Stdout, c.Stderr, c.SysProcAttr = s.dir, &log, &log, testenv.Attributes()
	return c, &log
}

func (s *site) serve(n int, args ...string) (*exec.Cmd, *sebtest.Log) {
	c, log := s.command(n, append([]string{"serve", "--bucket", "./b", "--data-dir", fmt.Sprint("d", n)}, args...)...)
	must.NoError(s, c.Start())
	s.Cleanup(func() {
		_ = c.Process.Kill()
		if s.Failed() {
			s.Logf("broker %d:\n%s", n, log)
		}
	})
	return c, log
}

func (s *site) produce(n int, value string) (*exec.Cmd, *sebtest.Log) {
	c, log := s.command(n, "produce", "t", "--data-dir", fmt.Sprint("d", n))
	c.Stdin = strings.NewReader(value + "\n")
	must.NoError(s, c.Start())
	return c, log
}

func (s *site) stores(n int, value string) {
	s.Helper()
	if c, log := s.produce(n, value); c.Wait() != nil {
		s.Fatalf("broker %d does not store %q: %s", n, value, log)
	}
}

// TestBrokersThatDoNotReachEachOther: two brokers with the default listeners in two network namespaces.
// The second waits, and says what to do. --take-over leads at once, and ends the first.
func TestBrokersThatDoNotReachEachOther(t *testing.T) {
	program := inNamespaces(t)
	if program == "" {
		return
	}
	must.NoError(t, privateRun())
	for n := range 2 {
		must.NoError(t, ip(t.Context(), "netns add "+netns(n)+"\n"))
		must.NoError(t, inside(t.Context(), netns(n), "link set lo up\n"))
	}
	s := &site{t, program, t.TempDir()}
	first, log := s.serve(0)
	sebtest.Eventually(t, "the first leads", func() bool { return log.Contains("msg=serving role=leader") })
	s.stores(0, "one")
	second, waits := s.serve(1)
	sebtest.Eventually(t, "the second waits, and says so", func() bool {
		return waits.Contains("msg=serving role=follower") && waits.Contains("--advertise") &&
			waits.Contains("level=WARN msg=\"another broker of the bucket and this one do not reach each other\"")
	})
	if c, said := s.command(1, "health", "--data-dir", "d1"); c.Run() == nil {
		t.Errorf("the second is ready: %s", said)
	}
	s.stores(0, "two")
	must.NoError(t, second.Process.Signal(syscall.SIGTERM))
	_ = second.Wait()
	if waits.Contains("role=leader") {
		t.Errorf("the second has led:\n%s", waits)
	}
	_, leads := s.serve(1, "--take-over")
	sebtest.Eventually(t, "the second leads", func() bool { return leads.Contains("msg=serving role=leader") })
	s.stores(1, "three")
	late, said := s.produce(0, "four")
	_ = first.Wait()
	_ = late.Process.Kill() // it repeats its request
	if late.Wait() == nil {
		t.Errorf("the first stores a record, and is deposed: %s", said)
	}
	check.Equalf(t, first.ProcessState.ExitCode(), 3, "exit code of the first")
	check.Containsf(t, log.String(), "do not reach each other", "log of the first")
}
