package benchmark_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/base/machine"
)

// The following tests are of package machine.

func TestHere(t *testing.T) {
	m := machine.Here()
	if m.Cores < 1 || m.CPU == "" || m.Kernel == "" || !strings.Contains(m.System, "/") {
		t.Errorf("%+v", m)
	}
	if s := m.String(); !strings.Contains(s, m.CPU) || !strings.Contains(s, m.Kernel) {
		t.Error(s)
	}
}

func TestUse(t *testing.T) {
	before := machine.CPUTime()
	held := make([]byte, 8<<20)
	for i := range held {
		held[i] = byte(i)
	}
	if rss := machine.RSSMax(); rss < int64(len(held)) {
		t.Errorf("%d bytes allocated, RSS %d", len(held), rss)
	}
	if machine.CPUTime() < before || machine.CPUTime() == 0 {
		t.Error("CPU time does not pass")
	}
}

func TestAddProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for set, want := range map[string]int{"": machine.Cores() + 1, "2": before} {
		runtime.GOMAXPROCS(before)
		t.Setenv("GOMAXPROCS", set)
		machine.AddProcessor()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("GOMAXPROCS=%q: %d processors, want %d", set, got, want)
		}
	}
}
