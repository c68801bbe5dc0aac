package failover

import (
	"os"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
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
	if testing.Short() {
		t.Skip("-short: no brokers")
	}
	const program = "SEB_TEST_PROGRAM"
	if !Isolated() {
		if err := NamespacesMissing(t.Context()); err != nil {
			t.Skip(err)
		}
		t.Setenv(program, testenv.Program(t))
		must.NoError(t, Isolate(t.Context(), []string{"-test.run", "^" + t.Name() + "$", "-test.v"}))
		return
	}
	faults := []Fault{CutPair, OneWay, StopStandby, Power}
	r := must.Get(Run(t.Context(), Options{
		Program: os.Getenv(program), Dir: t.TempDir(), Brokers: 2, Namespaces: true, Faults: faults, Clients: []Client{HTTP},
		Settle: 200 * time.Millisecond, Hold: 500 * time.Millisecond, Progress: func(line string) { t.Log(line) },
	}))(t)
	for _, p := range r.Problems {
		t.Error(p)
	}
	if len(r.Rounds) != len(faults) || r.Records == 0 {
		t.Errorf("%d rounds and %d records, want %d rounds with records", len(r.Rounds), r.Records, len(faults))
	}
}
