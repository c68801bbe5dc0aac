// Package must ends a test at an error or value that it does not expect.
package must

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sebbroker/seb/test/check"
)

// T is a test: testing.TB or *rapid.T.
type T interface {
	Helper()           // the failure is reported at the line of the caller
	Fatal(args ...any) // ends the test
}

// NoError ends the test with the error, if there is one.
func NoError(t T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// NoErrorf ends the test with the text and the error, if there is one.
func NoErrorf(t T, err error, format string, args ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(fmt.Sprintf("%s: %v", fmt.Sprintf(format, args...), err))
	}
}

// Error ends the test with the text if there is no error.
func Error(t T, err error, format string, args ...any) {
	if err == nil {
		t.Helper()
		t.Fatal(fmt.Sprintf(format, args...))
	}
}

// Get returns a function that returns v, or ends the test with the error. It makes a line of a call
// that must succeed: b := must.Get(os.ReadFile(name))(t).
func Get[V any](v V, err error) func(t T) V {
	return func(t T) V {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Get2 is Get for a call with two results and an error.
func Get2[V, W any](v V, w W, err error) func(t T) (V, W) {
	return func(t T) (V, W) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v, w
	}
}

// Equal ends the test if two values differ.
func Equal[V comparable](t T, got, want V) {
	if got != want {
		t.Helper()
		t.Fatal(check.Different(got, want))
	}
}

// Equalf ends the test with the text if two values differ.
func Equalf[V comparable](t T, got, want V, format string, args ...any) {
	if got != want {
		t.Helper()
		t.Fatal(fmt.Sprintf(format, args...) + ": " + check.Different(got, want))
	}
}

// EqualSlicesf ends the test with the text if two slices differ.
func EqualSlicesf[S ~[]V, V comparable](t T, got, want S, format string, args ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Fatal(fmt.Sprintf(format, args...) + ": " + check.Different(got, want))
	}
}

// ErrorIs ends the test at an error that is not the wanted one.
func ErrorIs(t T, err, want error) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Fatal(fmt.Sprintf("error %v, want %v", err, want))
	}
}

// ErrorIsf ends the test with the text at an error that is not the wanted one.
func ErrorIsf(t T, err, want error, format string, args ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Fatal(fmt.Sprintf("%s: error %v, want %v", fmt.Sprintf(format, args...), err, want))
	}
}

// ErrorContains ends the test at a nil error and at one whose text lacks a part.
func ErrorContains(t T, err error, part string) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Fatal(fmt.Sprintf("error %v, want one with %q", err, part))
	}
}

// ErrorContainsf ends the test with a description at a nil error and at one whose text lacks a part.
func ErrorContainsf(t T, err error, part, format string, args ...any) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Fatal(fmt.Sprintf("%s: error %v, want one with %q", fmt.Sprintf(format, args...), err, part))
	}
}

// Containsf ends the test with a description if a text lacks a part.
func Containsf(t T, text, part, format string, args ...any) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Fatal(fmt.Sprintf("%s: %q lacks %q", fmt.Sprintf(format, args...), text, part))
	}
}
