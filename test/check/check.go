// Package check reports a value or error that a test does not expect. The test continues; those of
// package must end it.
package check

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// T is a test: testing.TB or *rapid.T.
type T interface {
	Helper()                           // the failure is reported at the line of the caller
	Errorf(format string, args ...any) // the test continues
}

// NoError reports the error, if there is one.
func NoError(t T, err error) {
	if err != nil {
		t.Helper()
		t.Errorf("%v", err)
	}
}

// Equal reports two values that differ.
func Equal[V comparable](t T, got, want V) {
	if got != want {
		t.Helper()
		t.Errorf("%s", Different(got, want))
	}
}

// Equalf reports two values that differ, after the text.
func Equalf[V comparable](t T, got, want V, format string, args ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%s: %s", fmt.Sprintf(format, args...), Different(got, want))
	}
}

// ErrorIs reports an error that is not the wanted one.
func ErrorIs(t T, err, want error) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("error %v, want %v", err, want)
	}
}

// ErrorIsf reports an error that is not the wanted one, after the text.
func ErrorIsf(t T, err, want error, format string, args ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%s: error %v, want %v", fmt.Sprintf(format, args...), err, want)
	}
}

// Contains reports a text without a part of it.
func Contains(t T, text, part string) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%q lacks %q", text, part)
	}
}

// Containsf reports a text without a part of it, after another text.
func Containsf(t T, text, part, format string, args ...any) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%s: %q lacks %q", fmt.Sprintf(format, args...), text, part)
	}
}

// Err returns the error of a call without its result.
func Err[V any](_ V, err error) error { return err }

// Different describes two values that should be equal.
func Different(got, want any) string {
	verb := "%+v"
	if _, named := got.(fmt.Stringer); !named && reflect.ValueOf(got).Kind() == reflect.String {
		verb = "%q"
	}
	return fmt.Sprintf("got "+verb+", want "+verb, got, want)
}
