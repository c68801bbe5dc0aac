package drivers

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestOptionsAndDefaults(t *testing.T) {
	r := readOptions(&sut.Config{Options: map[string]string{"n": "7", "wait": "5ms", "on": "true", "kind": "b", "text": "x"}})
	check.Equalf(t, r.Int("n", 1, 0, 9), 7, "n")
	check.Equalf(t, r.Int("m", 1, 0, 9), 1, "m")
	check.Equalf(t, r.Duration("wait", 0), 5*time.Millisecond, "wait")
	if !r.Bool("on", false) || !r.Bool("other", true) {
		t.Error("on, other")
	}
	check.Equalf(t, r.OneOf("kind", "a", "b"), "b", "kind")
	check.Equalf(t, r.OneOf("sort", "a", "b"), "a", "sort")
	check.Equalf(t, r.Text("text", "")+r.Text("none", "y"), "xy", "text")
	check.NoError(t, r.Done())
}

func TestOptionErrors(t *testing.T) {
	r := readOptions(&sut.Config{Options: map[string]string{"n": "10", "m": "x", "wait": "-1s", "on": "perhaps", "kind": "c", "oops": "1"}})
	check.Equalf(t, r.Int("n", 1, 0, 9), 1, "n")
	r.Int("m", 1, 2, math.MaxInt)
	r.Duration("wait", 0)
	r.Bool("on", false)
	r.OneOf("kind", "a", "b")
	err := r.Done()
	must.Error(t, err, "no error")
	for _, want := range []string{
		`unknown option "oops"; known options: n, m, wait, on, kind`, `option "n": "10": want a number from 0 to 9`,
		`option "m": "x": want a number of at least 2`, `option "wait": "-1s"`, `option "on": "perhaps"`, `option "kind": "c": want one of a, b`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not contain %q", err, want)
		}
	}
}
