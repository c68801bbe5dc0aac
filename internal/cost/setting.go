package cost

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Setting is a parsed --put-budget. The zero Setting is the default.
type Setting struct {
	text      string
	off       bool
	dollars   float64 // a month
	perSecond float64 // PUTs
}

const (
	// defaultMonth is the default budget in PUTs: 52 dollars at the prices of s3-standard. It is what a
	// broker makes that stores an object every 250 ms.
	defaultMonth = 10.4e6
	// gapMax is the longest gap that a budget may sustain. Twice that is below the timeouts of clients.
	gapMax = 10 * time.Second
)

var errSetting = errors.New("want dollars a month such as 20USD/month, PUTs a second such as 5/s, or off")

// ParseSetting parses a budget: "20USD/month", "5/s", "off", or "" for the default.
func ParseSetting(text string) (Setting, error) {
	s := Setting{text: text}
	if text == "" || text == "off" {
		s.off = text == "off"
		return s, nil
	}
	to := &s.dollars
	number, ok := strings.CutSuffix(text, "USD/month")
	if !ok {
		to = &s.perSecond
		number, ok = strings.CutSuffix(text, "/s")
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || !(v > 0) || v > 1e9 {
		return Setting{}, errSetting
	}
	*to = v
	return s, nil
}

// Off reports whether the wait is fixed.
func (s Setting) Off() bool { return s.off }

// Limit returns the budget in PUTs at a price list. wait is the fixed wait. Error: the budget is so
// small that clients would time out.
func (s Setting) Limit(p *Prices, wait time.Duration) (Limit, error) {
	l := Limit{Wait: wait}
	switch {
	case s.perSecond > 0:
		l.Second = s.perSecond
	case p.Put == 0:
		return l, nil
	case s.dollars > 0:
		l.Month = s.dollars * 1e6 / p.Put
	default:
		l.Month, l.Careful = defaultMonth, true
	}
	const month = 31 * 24 * time.Hour
	if least := float64(month / gapMax); l.Month > 0 && l.Month < least {
		return Limit{}, fmt.Errorf("a PUT every %v at the prices %s: want at least one every %v, %.2fUSD/month",
			time.Duration(float64(month)/l.Month).Round(100*time.Millisecond), p.Name, gapMax, least*p.Put/1e6+0.005)
	}
	if least := 1 / gapMax.Seconds(); l.Second > 0 && l.Second < least {
		return Limit{}, fmt.Errorf("want at least %g/s", least)
	}
	return l, nil
}

// name is the budget for people, at a price list.
func (s Setting) name(p *Prices) string {
	if s.text != "" {
		return s.text
	}
	return fmt.Sprintf("%gUSD/month", defaultMonth*p.Put/1e6)
}
