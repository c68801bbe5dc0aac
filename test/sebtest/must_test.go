package sebtest_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// recorder is a test that records how it fails.
type recorder struct{ got []string }

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.got = append(r.got, "error: "+fmt.Sprintf(format, args...))
}

func (r *recorder) Fatal(args ...any) {
	r.got = append(r.got, "fatal: "+fmt.Sprint(args...))
	runtime.Goexit()
}

// do returns the failures of f, which ends like a test.
func do(f func(r *recorder)) []string {
	r, done := &recorder{}, make(chan struct{})
	go func() {
		defer close(done)
		f(r)
		r.got = append(r.got, "continues")
	}()
	<-done
	return r.got
}

func one(err error) (int, error) { return 1, err }

func two(err error) (int, string, error) { return 1, "b", err }

type pair struct{ A, B int }

// unexpected has by the wanted message a function that does not fail with nil, 3 and "a".
var unexpected = map[string]func(r *recorder, err error, n int, text string){
	"read: EOF": func(r *recorder, err error, _ int, _ string) { check.NoError(r, err); must.NoError(r, err) },
	"read: EOF 1": func(r *recorder, err error, _ int, _ string) {
		check.NoError(r, check.Err(one(err)))
		must.Get(one(err))(r)
	},
	"read: EOF 2": func(r *recorder, err error, _ int, _ string) { check.NoError(r, err); must.Get2(two(err))(r) },
	"call 7 succeeds": func(r *recorder, _ error, n int, _ string) {
		err := map[bool]error{true: io.EOF}[n == 3]
		check.Error(r, err, "call %d succeeds", 7)
		must.Error(r, err, "call %d succeeds", 7)
	},
	"call 7: read: EOF": func(r *recorder, err error, _ int, _ string) {
		check.NoErrorf(r, err, "call %d", 7)
		must.NoErrorf(r, err, "call %d", 7)
	},
	"text 7: got [4], want [3]": func(r *recorder, _ error, n int, _ string) {
		check.EqualSlicesf(r, []int{n}, []int{3}, "text %d", 7)
		must.EqualSlicesf(r, []int{n}, []int{3}, "text %d", 7)
	},
	`error sy b, want one with "a"`: func(r *recorder, _ error, _ int, text string) {
		check.ErrorContains(r, errors.New("sy "+text), "a")
		must.ErrorContains(r, errors.New("sy "+text), "a")
	},
	`call 7: error <nil>, want one with "a"`: func(r *recorder, _ error, n int, _ string) {
		err := map[bool]error{true: errors.New("a"), false: nil}[n == 3]
		check.ErrorContainsf(r, err, "a", "call %d", 7)
		must.ErrorContainsf(r, err, "a", "call %d", 7)
	},
	"got 4, want 3": func(r *recorder, _ error, n int, _ string) { check.Equal(r, n, 3); must.Equal(r, n, 3) },
	"got {A:3 B:4}, want {A:3 B:3}": func(r *recorder, _ error, n int, _ string) {
		check.Equal(r, pair{3, n}, pair{3, 3})
		must.Equal(r, pair{3, n}, pair{3, 3})
	},
	`text 7: got "b", want "a"`: func(r *recorder, _ error, _ int, text string) {
		check.Equalf(r, text, "a", "text %d", 7)
		must.Equalf(r, text, "a", "text %d", 7)
	},
	"error read: EOF, want <nil>": func(r *recorder, err error, _ int, _ string) { check.ErrorIs(r, err, nil); must.ErrorIs(r, err, nil) },
	"error read: EOF, want file does not exist": func(r *recorder, err error, _ int, _ string) {
		wanted := map[bool]error{true: nil, false: fs.ErrNotExist}[err == nil]
		check.ErrorIs(r, err, wanted)
		must.ErrorIs(r, err, wanted)
	},
	"call 7: error read: EOF, want <nil>": func(r *recorder, err error, _ int, _ string) {
		check.ErrorIsf(r, err, nil, "call %d", 7)
		must.ErrorIsf(r, err, nil, "call %d", 7)
	},
	`text 7: "b" lacks "a"`: func(r *recorder, _ error, _ int, text string) {
		check.Containsf(r, text, "a", "text %d", 7)
		must.Containsf(r, text, "a", "text %d", 7)
	},
}

func TestUnexpected(t *testing.T) {
	err := fmt.Errorf("read: %w", io.EOF)
	for want, f := range unexpected {
		if got := do(func(r *recorder) { f(r, nil, 3, "a") }); !slices.Equal(got, []string{"continues"}) {
			t.Errorf("%s: with the expected value: %q", want, got)
		}
		if want == "read: EOF 1" || want == "read: EOF 2" {
			want = "read: EOF"
		}
		if got := do(func(r *recorder) { f(r, err, 4, "b") }); !slices.Equal(got, []string{"error: " + want, "fatal: " + want}) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	checks := func(text string) func(r *recorder) {
		return func(r *recorder) {
			check.EqualSlices(r, []string{text}, []string{"a"})
			check.Contains(r, text, "a")
		}
	}
	if got, want := do(checks("b")), []string{`error: got ["b"], want ["a"]`, `error: "b" lacks "a"`, "continues"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := do(checks("a")); !slices.Equal(got, []string{"continues"}) {
		t.Errorf("with the expected value: %q", got)
	}
	if !errors.Is(check.Err(one(err)), io.EOF) || check.Err(one(nil)) != nil {
		t.Error("Err")
	}
	if a := must.Get(one(nil))(t); a != 1 {
		t.Error(a)
	}
	if a, b := must.Get2(two(nil))(t); a != 1 || b != "b" {
		t.Error(a, b)
	}
}
