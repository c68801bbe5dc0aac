// Package check reports a value or error that a test does not expect. The test continues; those of
// package must end it.
package check

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// NoErrorf reports the error after the text, if there is one.
func NoErrorf(t T, err error, format string, args ...any) {
	if err != nil {
		t.Helper()
		t.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// Error reports the text if there is no error.
func Error(t T, err error, format string, args ...any) {
	if err == nil {
		t.Helper()
		t.Errorf(format, args...)
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

// EqualSlices reports two slices that differ.
func EqualSlices[S ~[]V, V comparable](t T, got, want S) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Errorf("%s", Different(got, want))
	}
}

// EqualSlicesf reports two slices that differ, after the text.
func EqualSlicesf[S ~[]V, V comparable](t T, got, want S, format string, args ...any) {
	if !slices.Equal(got, want) {
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

// ErrorContains reports a nil error, and one whose text lacks a part.
func ErrorContains(t T, err error, part string) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Errorf("error %v, want one with %q", err, part)
	}
}

// ErrorContainsf reports a nil error, and one whose text lacks a part, after another text.
func ErrorContainsf(t T, err error, part, format string, args ...any) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Errorf("%s: error %v, want one with %q", fmt.Sprintf(format, args...), err, part)
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
	switch got.(type) {
	case fmt.Stringer:
	case []byte, []string:
		verb = "%q"
	default:
		if reflect.ValueOf(got).Kind() == reflect.String {
			verb = "%q"
		}
	}
	return fmt.Sprintf("got "+verb+", want "+verb, got, want)
}
