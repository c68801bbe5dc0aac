package cost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// Prices is a price list in dollars. DELETE is free in all of them.
type Prices struct {
	Name           string
	Put, List, Get float64 // for a million requests
	Storage        float64 // for a GB (10^9 bytes) and month
}

// Presets are the price lists that --prices knows by name. docs/reference/costs.md has their sources.
var Presets = []Prices{
	{Name: "s3-standard", Put: 5, List: 5, Get: 0.4, Storage: 0.023},
	{Name: "s3-express", Put: 1.13, List: 1.13, Get: 0.03, Storage: 0.11},
	{Name: "r2", Put: 4.5, List: 4.5, Get: 0.36, Storage: 0.015},
	{Name: "b2", Storage: 0.00695},
	{Name: "gcs", Put: 5, List: 5, Get: 0.4, Storage: 0.02},
	{Name: "free"},
}

// Preset returns a price list by name.
func Preset(name string) (Prices, bool) {
	for _, p := range Presets {
		if p.Name == name {
			return p, true
		}
	}
	return Prices{}, false
}

// HoursPerMonth is the length of a month in which a pace is given.
const HoursPerMonth = 730

// pricesMax bounds the size of a file of prices.
const pricesMax = 64 << 10

// LoadPrices returns the price list that a name or a file gives. "" means s3-standard for a bucket
// on S3, and free for all others.
func LoadPrices(from string, kind objstore.Kind) (Prices, error) {
	if from == "" {
		from = "free"
		if kind == objstore.KindS3 {
			from = "s3-standard"
		}
	}
	if p, known := Preset(from); known {
		return p, nil
	}
	var names []string
	for _, p := range Presets {
		names = append(names, p.Name)
	}
	f, err := os.Open(from)
	if err != nil {
		return Prices{}, fmt.Errorf("want %s or a file of prices: %w", strings.Join(names, ", "), err)
	}
	defer f.Close()
	b, err := input.ReadText(f, pricesMax)
	if err != nil {
		return Prices{}, fmt.Errorf("%s: %w", from, err)
	}
	p, err := parsePrices(b)
	if err != nil {
		return Prices{}, fmt.Errorf("%s: %w", from, err)
	}
	p.Name = filepath.Base(from)
	return p, nil
}

// parsePrices reads a file of prices. All members are required: a price that was forgotten would
// count as free.
func parsePrices(b []byte) (p Prices, err error) {
	var file struct {
		Put     *float64 `json:"put_per_million"`
		List    *float64 `json:"list_per_million"`
		Get     *float64 `json:"get_per_million"`
		Storage *float64 `json:"storage_per_gb_month"`
	}
	if err := input.JSON(b, &file, input.NullIsAbsent); err != nil {
		return p, fmt.Errorf("prices as JSON: %w", err)
	}
	var faults []error
	for _, of := range []struct {
		name string
		from *float64
		to   *float64
	}{
		{"put_per_million", file.Put, &p.Put},
		{"list_per_million", file.List, &p.List},
		{"get_per_million", file.Get, &p.Get},
		{"storage_per_gb_month", file.Storage, &p.Storage},
	} {
		switch {
		case of.from == nil:
			faults = append(faults, fmt.Errorf("%s is missing", of.name))
		case *of.from < 0:
			faults = append(faults, fmt.Errorf("%s %g: want 0 or more dollars", of.name, *of.from))
		default:
			*of.to = *of.from
		}
	}
	return p, errors.Join(faults...)
}

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
