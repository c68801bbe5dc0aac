// When messages are to be sent, computed before the first one is: a slow system does not move the
// times of later messages.

package workload

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"time"
)

// Rate is a number of messages in a million seconds: 2.5 messages a second are 2,500,000.
type Rate uint64

// PerSecond is one message a second.
const PerSecond Rate = 1_000_000

// RateMax is the highest rate, 100 million messages a second.
const RateMax = 100_000_000 * PerSecond

// ParseRate reads messages a second, such as 3000 or 0.25. Digits below a millionth are an error.
func ParseRate(s string) (Rate, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("rate %q: want messages a second, such as 3000 or 0.5", s)
	}
	micro := f * float64(PerSecond)
	if !(micro >= 1 && micro <= float64(RateMax)) {
		return 0, fmt.Errorf("rate %q: want 0.000001 to %d messages a second", s, RateMax/PerSecond)
	}
	r := Rate(math.Round(micro))
	if math.Abs(micro-float64(r)) > 1e-3 {
		return 0, fmt.Errorf("rate %q: has digits below a millionth", s)
	}
	return r, nil
}

// String is messages a second, as ParseRate reads it.
func (r Rate) String() string { return strconv.FormatFloat(r.Float(), 'f', -1, 64) }

// Float is messages a second.
func (r Rate) Float() float64 { return float64(r) / float64(PerSecond) }

// ScheduleOptions say what a schedule holds.
type ScheduleOptions struct {
	Start  int64         // of the first message, nanoseconds
	Length time.Duration // messages are due from Start up to, and not at, Start+Length
	Rate   Rate          // of all parts together
	// Part of Parts: each of several senders has a schedule of its own. With a fixed rate they take
	// turns.
	Part, Parts int
	// Poisson draws the gaps from an exponential distribution, from Seed and Part.
	Poisson bool
	Seed    uint64
}

// Schedule gives the times of a sender's messages, in order. It is used by one goroutine.
type Schedule struct {
	o    ScheduleOptions
	next uint64 // fixed: the number of the next message, among those of all parts
	rand *rand.Rand
	at   float64 // Poisson: nanoseconds from Start to the next message
	mean float64
}

// NewSchedule returns a schedule at its beginning. Two schedules of the same options give the same
// times.
func NewSchedule(o ScheduleOptions) *Schedule {
	if o.Parts < 1 || o.Part < 0 || o.Part >= o.Parts || o.Rate < 1 || o.Rate > RateMax {
		panic(fmt.Sprintf("schedule: part %d of %d at rate %d", o.Part, o.Parts, o.Rate))
	}
	s := &Schedule{o: o, next: uint64(o.Part)}
	if o.Poisson {
		s.rand = rand.New(rand.NewPCG(o.Seed, uint64(o.Part)))
		s.mean = 1e15 / float64(o.Rate) * float64(o.Parts)
		s.at = s.rand.ExpFloat64() * s.mean
	}
	return s
}

// Next returns the time of the next message, and false after the last.
func (s *Schedule) Next() (int64, bool) {
	var after int64
	if s.o.Poisson {
		after = int64(s.at)
		s.at += s.rand.ExpFloat64() * s.mean
	} else {
		after = s.o.Rate.After(s.next)
		s.next += uint64(s.o.Parts)
	}
	return s.o.Start + after, after < int64(s.o.Length)
}

// After is when message n is due, in nanoseconds after the first (number 0), rounded down:
// n·10⁹/rate with all its digits, so that no remainder adds up. What lies beyond 292 years is that.
func (r Rate) After(n uint64) int64 {
	hi, lo := bits.Mul64(n, uint64(time.Second)*uint64(PerSecond))
	if hi >= uint64(r) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(r))
	return int64(min(q, math.MaxInt64))
}

// Within is how many messages are due in d at a fixed rate.
func (r Rate) Within(d time.Duration) uint64 {
	hi, lo := bits.Mul64(uint64(max(d, 0)), uint64(r))
	q, rest := bits.Div64(hi, lo, uint64(time.Second)*uint64(PerSecond))
	if rest > 0 {
		q++
	}
	// Rounding down makes a message due in d that by all its digits comes less than a nanosecond
	// later.
	for r.After(q) < int64(d) {
		q++
	}
	return q
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, as ParseRate.
func (r *Rate) UnmarshalText(text []byte) error {
	rate, err := ParseRate(string(text))
	if err == nil {
		*r = rate
	}
	return err
}
