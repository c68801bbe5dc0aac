package story

import (
	"strings"
	"time"

	"github.com/sebbroker/seb/driplang"
)

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// plainUnits are the units of plain durations, in milliseconds.
var plainUnits = []int64{day, hour, 30 * minute, 15 * minute, 10 * minute, minute, 10 * second, second, 100, 10, 1}

// usual is the time between two events without a window.
const usual = hour

// plain returns a duration between two others that is easy to read, near the wanted one. It excludes
// both, if there is another one. low is at most high.
func plain(low, want, high int64) int64 {
	for _, u := range plainUnits {
		for _, d := range []int64{want / u * u, (want/u + 1) * u} {
			if low < d && d < high {
				return d
			}
		}
	}
	return high
}

// between returns a plain duration in the middle of two others.
func between(low, high int64) int64 { return plain(low, low+(high-low)/2, high) }

// beyond returns the next plain duration that is longer than d.
func beyond(d int64) int64 {
	for _, u := range plainUnits {
		if u <= max(d, 1) {
			return (d/u + 1) * u
		}
	}
	return d + 1
}

// words returns a duration in English. A millisecond more or less than a plainer one is said so.
func words(millis int64) string {
	if millis == 0 {
		return "0 milliseconds"
	}
	in := func(millis int64) string { return driplang.DurationInWords(time.Duration(millis) * time.Millisecond) }
	if more := in(millis + 1); millis > 2 && parts(more) < parts(in(millis)) {
		return "1 millisecond less than " + more
	}
	return in(millis)
}

func parts(s string) int { return strings.Count(s, ",") + strings.Count(s, " and ") }
