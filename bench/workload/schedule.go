// The times at which messages are due, computed in advance, so that a slow system does not delay
// the times of later messages.

package workload

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"time"
)

// Rate is a number of messages per million seconds: 2.5 messages per second are 2,500,000.
type Rate uint64

// PerSecond is one message per second.
const PerSecond Rate = 1_000_000

// RateMax is the highest rate, 100 million messages per second.
const RateMax = 100_000_000 * PerSecond

// ParseRate parses messages per second, such as 3000 or 0.25. Digits below a millionth are an
// error.
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

// String returns messages per second, in the form of ParseRate.
func (r Rate) String() string { return strconv.FormatFloat(r.Float(), 'f', -1, 64) }

// Float returns messages per second.
func (r Rate) Float() float64 { return float64(r) / float64(PerSecond) }

// ScheduleOptions are the options of a schedule.
type ScheduleOptions struct {
	Start  int64         // of the first message, nanoseconds
	Length time.Duration // messages are due from Start to Start+Length, exclusive
	Rate   Rate          // of all parts together
	// Part is the index of a sender among Parts senders, each with a separate schedule. With a
	// fixed rate the senders alternate.
	Part, Parts int
	// Batch messages of a sender are due at the same time; 0 is 1.
	Batch int
	// Poisson draws the gaps from an exponential distribution, seeded with Seed and Part.
	Poisson bool
	Seed    uint64
}

// Schedule returns the times of a sender's messages, in order. It is not for concurrent use.
type Schedule struct {
	o    ScheduleOptions
	due  int64  // of the current batch, nanoseconds from Start
	left int    // messages of the current batch that Next has not returned
	next uint64 // fixed: the number of the next batch, among those of all parts
	rand *rand.Rand
	at   float64 // Poisson: nanoseconds from Start to the next batch
	mean float64
}

// NewSchedule returns a schedule at its start. Schedules with equal options return equal times.
func NewSchedule(o ScheduleOptions) *Schedule {
	if o.Parts < 1 || o.Part < 0 || o.Part >= o.Parts || o.Rate < 1 || o.Rate > RateMax {
		panic(fmt.Sprintf("schedule: part %d of %d at rate %d", o.Part, o.Parts, o.Rate))
	}
	o.Batch = max(o.Batch, 1)
	s := &Schedule{o: o, next: uint64(o.Part)}
	if o.Poisson {
		s.rand = rand.New(rand.NewPCG(o.Seed, uint64(o.Part)))
		s.mean = 1e15 / float64(o.Rate) * float64(o.Parts*o.Batch)
		s.at = s.rand.ExpFloat64() * s.mean
	}
	return s
}

// Next returns the time of the next message, and false after the last.
func (s *Schedule) Next() (int64, bool) {
	if s.left == 0 {
		s.left = s.o.Batch
		if s.o.Poisson {
			s.due = int64(s.at)
			s.at += s.rand.ExpFloat64() * s.mean
		} else {
			s.due = s.o.Rate.After(s.next * uint64(s.o.Batch))
			s.next += uint64(s.o.Parts)
		}
	}
	s.left--
	return s.o.Start + s.due, s.due < int64(s.o.Length)
}

// After returns the time at which message n is due, in nanoseconds after the first (number 0),
// rounded down. It computes n·10⁹/rate exactly, so that rounding errors do not accumulate. The
// result is limited to 292 years.
func (r Rate) After(n uint64) int64 {
	hi, lo := bits.Mul64(n, uint64(time.Second)*uint64(PerSecond))
	if hi >= uint64(r) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(r))
	return int64(min(q, math.MaxInt64))
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseRate.
func (r *Rate) UnmarshalText(text []byte) error {
	rate, err := ParseRate(string(text))
	if err == nil {
		*r = rate
	}
	return err
}
