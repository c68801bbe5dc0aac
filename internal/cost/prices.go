package cost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sebbroker/seb/internal/objstore"
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
	b, err := io.ReadAll(io.LimitReader(f, pricesMax+1))
	if err != nil {
		return Prices{}, err
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
	if len(b) > pricesMax {
		return p, fmt.Errorf("a file of prices has at most %d bytes", pricesMax)
	}
	var file struct {
		Put     *float64 `json:"put_per_million"`
		List    *float64 `json:"list_per_million"`
		Get     *float64 `json:"get_per_million"`
		Storage *float64 `json:"storage_per_gb_month"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return p, fmt.Errorf("prices as JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("prices as JSON: want one object")
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
