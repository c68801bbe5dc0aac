// The options of a driver: names with text values and defaults. Errors name the option, its value
// and the allowed values.

package sut

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options reads the options of one Config. Its methods may be called in any order, by one
// goroutine. Done returns the errors.
type Options struct {
	c      *Config
	known  []string
	faults []error
}

// ReadOptions starts to read the options of c.
func ReadOptions(c *Config) *Options { return &Options{c: c} }

// Done returns all errors, those of unknown options first; nil if there are none.
func (r *Options) Done() error {
	return errors.Join(append([]error{r.c.Only(r.known...)}, r.faults...)...)
}

func (r *Options) value(name string) (string, bool) {
	r.known = append(r.known, name)
	v, ok := r.c.Options[name]
	return v, ok
}

func (r *Options) fail(name, value, want string) {
	r.faults = append(r.faults, fmt.Errorf("option %q: %q: want %s", name, value, want))
}

// Text is an option with any value.
func (r *Options) Text(name, otherwise string) string {
	if v, ok := r.value(name); ok {
		return v
	}
	return otherwise
}

// OneOf is an option with one of the given values, the first of which is the default.
func (r *Options) OneOf(name string, words ...string) string {
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
func (r *Options) Bool(name string, otherwise bool) bool {
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
func (r *Options) Int(name string, otherwise, low, high int) int {
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
func (r *Options) Duration(name string, otherwise time.Duration) time.Duration {
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
