package faultproxy

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Kind is a kind of fault.
type Kind string

// Faults between a broker and its store. A PUT or DELETE "applied" has reached the store; the broker does not know.
const (
	Lost        Kind = "lost answer"        // applied, and the connection is reset before the answer
	Reset       Kind = "reset"              // not applied, and the connection is reset
	Broken      Kind = "500"                // not applied: InternalError
	BrokenLate  Kind = "500 applied"        // applied: InternalError all the same
	Gateway     Kind = "502"                // not applied: an answer of something in between
	GatewayLate Kind = "504 applied"        // applied: something in between gave up waiting
	Throttled   Kind = "503 burst"          // SlowDown to all requests for a while
	Denied      Kind = "403 burst"          // AccessDenied to all requests for a while
	Conflict    Kind = "409"                // of PUTs, not applied: ConditionalRequestConflict
	Doubled     Kind = "doubled"            // applied twice; the answer is that to the second
	Late        Kind = "late"               // the connection is reset, and it is applied later
	Stalled     Kind = "stall"              // nothing happens for a while, before or after it is applied
	Hung        Kind = "hang"               // no answer until the broker gives up; applied or not
	Slow        Kind = "slow bytes"         // the answer trickles
	Cut         Kind = "cut body"           // the answer's body ends early
	Longer      Kind = "length too large"   // Content-Length says more than comes
	Shorter     Kind = "length too small"   // Content-Length says less, and so much comes
	OtherRange  Kind = "other range"        // the answer is said to be another part of the object
	Damaged     Kind = "damaged bytes"      // a bit of a GET's body flips, once for each name
	Partitioned Kind = "store out of reach" // see Store.Block
)

// Faults between clients and a broker.
const (
	Refused    Kind = "refused"          // a connection is reset as soon as it is there
	CutUp      Kind = "request cut"      // reset after some bytes of a request
	CutDown    Kind = "answer cut"       // reset after some bytes of an answer
	AnswerLost Kind = "answer cut off"   // reset when the answer begins
	Delayed    Kind = "delay"            // every piece waits a while
	HalfOpen   Kind = "half-open"        // one direction carries nothing any more for a while, then it is reset
	Trickled   Kind = "one byte a write" // for a while
)

// Rates gives the probability of each kind for one request, or one connection, 0 to 1. Each meets at most one.
type Rates map[Kind]float64

// chance draws, from a seed. Its methods may be called concurrently.
type chance struct {
	mu     sync.Mutex // guards what follows
	rng    *rand.Rand
	counts map[Kind]int64
}

func newChance(seed uint64) *chance {
	return &chance{rng: rand.New(rand.NewPCG(seed, 7)), counts: map[Kind]int64{}}
}

// kind draws the fault of a request among those that can befall it, in their order.
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

// int is from 0 to n-1, and 0 for n below 1.
func (c *chance) int(n int64) int64 {
	if n < 1 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Int64N(n)
}

func (c *chance) coin() bool { return c.int(2) == 0 }

// span is between a millisecond and the most, and short ones are as likely as long ones.
func (c *chance) span(most time.Duration) time.Duration {
	if most <= time.Millisecond {
		return most
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(float64(time.Millisecond) * math.Pow(float64(most)/float64(time.Millisecond), c.rng.Float64()))
}

// Counts are the faults so far.
func (c *chance) Counts() map[Kind]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[Kind]int64, len(c.counts))
	for k, n := range c.counts {
		all[k] = n
	}
	return all
}
