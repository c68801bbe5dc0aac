package main

import (
	"testing"

	"github.com/sebbroker/seb/test/check"
)

func TestSparkline(t *testing.T) {
	values := make([]*float64, 60)
	low, high := 1.0, 8.0
	for name, c := range map[string]struct {
		set  map[int]*float64
		want string
	}{
		"no value":            {nil, ""},
		"the largest of each": {map[int]*float64{0: &low, 2: &low, 3: &high}, "▁█"},
		"a gap":               {map[int]*float64{0: &high, 4: &high}, "█ █"},
		"zero":                {map[int]*float64{1: new(float64)}, "▁"},
	} {
		clear(values)
		for at, v := range c.set {
			values[at] = v
		}
		check.Equalf(t, sparkline(values), c.want, "%s", name)
	}
}
