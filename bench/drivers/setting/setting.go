// Package setting reads the options of a driver: names with values as text, each of which has a default. Faults name the
// option, what it was given and what it takes.
package setting

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/sut"
)

// Reader reads the options of one Config. Its methods may be called in any order, by one goroutine; Done says what was wrong.
type Reader struct {
	c      *sut.Config
	known  []string
	faults []error
}

// Read begins to read the options of c.
func Read(c *sut.Config) *Reader { return &Reader{c: c} }

// Done returns all faults, that of an unknown option first; nil if there are none.
func (r *Reader) Done() error {
	return errors.Join(append([]error{r.c.Only(r.known...)}, r.faults...)...)
}

func (r *Reader) value(name string) (string, bool) {
	r.known = append(r.known, name)
	v, ok := r.c.Options[name]
	return v, ok
}

func (r *Reader) fail(name, value, want string) {
	r.faults = append(r.faults, fmt.Errorf("option %q: %q: want %s", name, value, want))
}

// Text is an option that takes anything.
func (r *Reader) Text(name, otherwise string) string {
	if v, ok := r.value(name); ok {
		return v
	}
	return otherwise
}

// OneOf is an option that takes one of some words, the first of which is the default.
func (r *Reader) OneOf(name string, words ...string) string {
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

// Bool is an option that takes true or false.
func (r *Reader) Bool(name string, otherwise bool) bool {
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

// Int is an option that takes a number from low to high.
func (r *Reader) Int(name string, otherwise, low, high int) int {
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

// Duration is an option that takes a time of at least 0 with a unit.
func (r *Reader) Duration(name string, otherwise time.Duration) time.Duration {
	v, ok := r.value(name)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		r.fail(name, v, "a time such as 5ms")
		return otherwise
	}
	return d
}
