package faultproxy

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Kind is a kind of fault.
type Kind string

// Faults between a broker and its store. A PUT or DELETE that is "applied" has reached the store,
// but the broker does not know that.
const (
	Lost        Kind = "lost answer"        // applied, then the connection is reset
	Reset       Kind = "reset"              // not applied; the connection is reset
	Broken      Kind = "500"                // not applied: InternalError
	BrokenLate  Kind = "500 applied"        // applied, but InternalError
	Gateway     Kind = "502"                // not applied: answer of a gateway
	GatewayLate Kind = "504 applied"        // applied: timeout of a gateway
	Throttled   Kind = "503 burst"          // SlowDown to all requests for a while
	Denied      Kind = "403 burst"          // AccessDenied to all requests for a while
	Conflict    Kind = "409"                // of PUTs, not applied: ConditionalRequestConflict
	Doubled     Kind = "doubled"            // applied twice; the second answer is returned
	Late        Kind = "late"               // the connection is reset, and the request is applied later
	Stalled     Kind = "stall"              // a pause before or after it is applied
	Hung        Kind = "hang"               // no answer until the broker's timeout; applied or not
	Slow        Kind = "slow bytes"         // the answer arrives slowly
	Cut         Kind = "cut body"           // the answer's body ends early
	Longer      Kind = "length too large"   // Content-Length is larger than the body
	Shorter     Kind = "length too small"   // Content-Length and body are too short
	OtherRange  Kind = "other range"        // the answer claims another range
	Damaged     Kind = "damaged bytes"      // a bit of a GET's body flips, once per name
	Partitioned Kind = "store out of reach" // see Store.Block
)

// Faults between clients and a broker.
const (
	Refused    Kind = "refused"          // a connection is reset immediately
	CutUp      Kind = "request cut"      // reset after part of a request
	CutDown    Kind = "answer cut"       // reset after part of an answer
	AnswerLost Kind = "answer cut off"   // reset when the answer begins
	Delayed    Kind = "delay"            // every piece is delayed
	HalfOpen   Kind = "half-open"        // one direction stops for a while, then reset
	Trickled   Kind = "one byte a write" // for a while
)

// Rates is the probability of each kind for one request or connection, 0 to 1. Each meets at most
// one fault.
type Rates map[Kind]float64

// chance draws random values from a seed. Its methods may be called concurrently.
type chance struct {
	mu     sync.Mutex // guards the fields below
	rng    *rand.Rand
	counts map[Kind]int64
}

func newChance(seed uint64) *chance {
	return &chance{rng: rand.New(rand.NewPCG(seed, 7)), counts: map[Kind]int64{}}
}

// kind draws a fault among the possible ones, in their order.
func (c *chance) kind(rates Rates, possible []Kind) Kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.rng.Float64()
	for _, k := range possible {
		if u -= rates[k]; u < 0 {
			c.counts[k]++
			return k
		}
	}
	return ""
}

func (c *chance) count(k Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[k]++
}

// int returns a value from 0 to n-1, or 0 for n below 1.
func (c *chance) int(n int64) int64 {
	if n < 1 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Int64N(n)
}

func (c *chance) coin() bool { return c.int(2) == 0 }

// span returns a time from a millisecond to most, distributed logarithmically.
func (c *chance) span(most time.Duration) time.Duration {
	if most <= time.Millisecond {
		return most
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(float64(time.Millisecond) * math.Pow(float64(most)/float64(time.Millisecond), c.rng.Float64()))
}

// Counts returns the number of faults so far by kind.
func (c *chance) Counts() map[Kind]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[Kind]int64, len(c.counts))
	for k, n := range c.counts {
		all[k] = n
	}
	return all
}
