package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Condition makes a comparison fail. Examples: p99>10% (the second median is more than a tenth
// above the first), p99>5ms (it is above 5 ms), rate<-5%, lost>0.
type Condition struct {
	text     string
	figure   string
	less     bool
	limit    float64
	relative bool // limit is a fraction of the first median, else a value of the second
}

// String returns the condition as it was given.
func (c *Condition) String() string { return c.text }

// ParseCondition parses a condition.
func ParseCondition(s string) (Condition, error) {
	fail := func(why string) (Condition, error) {
		return Condition{}, fmt.Errorf("condition %q: %s; want FIGURE>LIMIT or FIGURE<LIMIT, as in p99>10%%, p99.9>5ms, rate<-5%%, lost>0", s, why)
	}
	at := strings.IndexAny(s, "<>")
	if at < 0 {
		return fail("no < and no >")
	}
	c := Condition{text: s, figure: strings.TrimSpace(s[:at]), less: s[at] == '<'}
	known := slices.IndexFunc(figures, func(f figure) bool { return f.name == c.figure })
	if known < 0 {
		return fail(fmt.Sprintf("no figure %q, there are %s", c.figure, strings.Join(Figures(), ", ")))
	}
	limit := strings.TrimSpace(s[at+1:])
	if number, ok := strings.CutSuffix(limit, "%"); ok {
		c.relative = true
		v, err := strconv.ParseFloat(strings.TrimPrefix(number, "+"), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fail(fmt.Sprintf("%q is no percentage", limit))
		}
		c.limit = v / 100
		return c, nil
	}
	if figures[known].nanos {
		d, err := time.ParseDuration(limit)
		if err != nil {
			return fail(fmt.Sprintf("%q is no duration", limit))
		}
		c.limit = float64(d)
		return c, nil
	}
	v, err := strconv.ParseFloat(limit, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fail(fmt.Sprintf("%q is no number", limit))
	}
	c.limit = v
	return c, nil
}

// About reports whether a change is of the condition's figure.
func (c *Condition) About(x *Change) bool { return x.Figure == c.figure }

// Met reports whether a change meets the condition. Only a significant change meets a relative
// condition.
func (c *Condition) Met(x *Change) bool {
	if !c.About(x) {
		return false
	}
	value := x.After.Middle
	if c.relative {
		if !x.Apart {
			return false
		}
		value = x.Ratio() - 1
		if x.Before.Middle == 0 { // an increase from zero exceeds every fraction
			value = math.Inf(1)
			if x.After.Middle == 0 {
				value = 0
			}
		}
	}
	if c.less {
		return value < c.limit
	}
	return value > c.limit
}
