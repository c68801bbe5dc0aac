package drivers

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/sut"
)

func TestOptionsAndDefaults(t *testing.T) {
	r := readOptions(&sut.Config{Options: map[string]string{"n": "7", "wait": "5ms", "on": "true", "kind": "b", "text": "x"}})
	if n := r.Int("n", 1, 0, 9); n != 7 {
		t.Errorf("n: %d", n)
	}
	if n := r.Int("m", 1, 0, 9); n != 1 {
		t.Errorf("m: %d", n)
	}
	if d := r.Duration("wait", 0); d != 5*time.Millisecond {
		t.Errorf("wait: %v", d)
	}
	if !r.Bool("on", false) || !r.Bool("other", true) {
		t.Error("on, other")
	}
	if k := r.OneOf("kind", "a", "b"); k != "b" {
		t.Errorf("kind: %s", k)
	}
	if k := r.OneOf("sort", "a", "b"); k != "a" {
		t.Errorf("sort: %s", k)
	}
	if s := r.Text("text", "") + r.Text("none", "y"); s != "xy" {
		t.Errorf("text: %s", s)
	}
	if err := r.Done(); err != nil {
		t.Error(err)
	}
}

func TestOptionErrors(t *testing.T) {
	r := readOptions(&sut.Config{Options: map[string]string{"n": "10", "m": "x", "wait": "-1s", "on": "perhaps", "kind": "c", "oops": "1"}})
	if n := r.Int("n", 1, 0, 9); n != 1 {
		t.Errorf("n: %d", n)
	}
	r.Int("m", 1, 2, math.MaxInt)
	r.Duration("wait", 0)
	r.Bool("on", false)
	r.OneOf("kind", "a", "b")
	err := r.Done()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`unknown option "oops"; known options: n, m, wait, on, kind`, `option "n": "10": want a number from 0 to 9`,
		`option "m": "x": want a number of at least 2`, `option "wait": "-1s"`, `option "on": "perhaps"`, `option "kind": "c": want one of a, b`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not contain %q", err, want)
		}
	}
}
