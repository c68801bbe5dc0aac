package result

import "time"

// Time formats nanoseconds for display, to three digits.
func Time(ns float64) string {
	d := time.Duration(ns)
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(max(unit/1000, 1) * pow10(d/unit)).String()
		}
	}
	return d.String()
}

// pow10 returns the factor 1, 10 or 100 for rounding to three digits, given n digits before the
// decimal point.
func pow10(n time.Duration) time.Duration {
	switch {
	case n >= 100:
		return 100
	case n >= 10:
		return 10
	}
	return 1
}
