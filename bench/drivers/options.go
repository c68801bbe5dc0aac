package drivers

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/sut"
)

// options reads the options of one Config. Its methods may be called in any order, by one
// goroutine. Done returns the errors.
type options struct {
	c      *sut.Config
	known  []string
	faults []error
}

// readOptions starts to read the options of c.
func readOptions(c *sut.Config) *options { return &options{c: c} }

// Done returns all errors, those of unknown options first; nil if there are none.
func (r *options) Done() error {
	for _, name := range slices.Sorted(maps.Keys(r.c.Options)) {
		if !slices.Contains(r.known, name) {
			err := fmt.Errorf("unknown option %q; known options: %s", name, strings.Join(r.known, ", "))
			return errors.Join(append([]error{err}, r.faults...)...)
		}
	}
	return errors.Join(r.faults...)
}

func (r *options) value(name string) (string, bool) {
	r.known = append(r.known, name)
	v, ok := r.c.Options[name]
	return v, ok
}

func (r *options) fail(name, value, want string) {
	r.faults = append(r.faults, fmt.Errorf("option %q: %q: want %s", name, value, want))
}

// Text is an option with any value.
func (r *options) Text(name, otherwise string) string {
	if v, ok := r.value(name); ok {
		return v
	}
	return otherwise
}

// OneOf is an option with one of the given values, the first of which is the default.
func (r *options) OneOf(name string, words ...string) string {
	v, ok := r.value(name)
	if !ok {
		return words[0]
	}
	if !slices.Contains(words, v) {
		r.fail(name, v, "one of "+strings.Join(words, ", "))
		return words[0]
	}
	return v
}

// Bool is an option that is true or false.
func (r *options) Bool(name string, otherwise bool) bool {
	v, ok := r.value(name)
	if !ok {
		return otherwise
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		r.fail(name, v, "true or false")
		return otherwise
	}
	return b
}

// Int is an option that is a number from low to high.
func (r *options) Int(name string, otherwise, low, high int) int {
	v, ok := r.value(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		want := fmt.Sprintf("a number from %d to %d", low, high)
		if high == math.MaxInt {
			want = fmt.Sprintf("a number of at least %d", low)
		}
		r.fail(name, v, want)
		return otherwise
	}
	return n
}

// Duration is an option that is a duration of at least 0, with a unit.
func (r *options) Duration(name string, otherwise time.Duration) time.Duration {
	v, ok := r.value(name)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		r.fail(name, v, "a duration such as 5ms")
		return otherwise
	}
	return d
}
