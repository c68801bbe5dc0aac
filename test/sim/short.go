package sim

import (
	"math/rand/v2"
	"time"

	"github.com/sebbroker/seb/test/sebtest"
)

// chances is a random source that uses a fuzzer's bytes first, then a generator. It copies each
// byte into all bytes of a number, so that small changes of a byte are small changes of the drawn
// values.
type chances struct {
	b    []byte
	rest rand.PCG
}

func (c *chances) Uint64() uint64 {
	if len(c.b) == 0 {
		return c.rest.Uint64()
	}
	v := uint64(c.b[0]) * 0x0101010101010101
	c.b = c.b[1:]
	return v
}

// fuzzedConfig draws the configuration of a short run from bytes: few brokers, few seconds, and the
// probabilities of faults.
func fuzzedConfig(src *sebtest.Source) Config {
	ms := func(choices ...time.Duration) time.Duration { return sebtest.Pick(src, choices...) * time.Millisecond }
	rate := func(top float64) float64 { return float64(src.Byte()>>4) / 15 * top }
	c := Config{
		Chaos: 4 * time.Second, Calm: 8 * time.Second,
		Nodes: 1 + src.Int(3), Followers: src.Int(2), Topics: 1 + src.Int(2), Parts: 1 + src.Int(2), Producers: 1 + src.Int(3), Pipeline: 1 + src.Int(3),
		Think: ms(150, 300, 600), BatchWait: ms(0, 5, 50), Latency: ms(2, 20, 60), Window: 1 + src.Int(5), SnapshotSlots: 3 + src.Int(20),
		FailBefore: rate(0.3), FailAfter: rate(0.3), Late: rate(0.2), Conflict: rate(0.2), Damage: rate(0.02),
		RefuseEvery: ms(0, 2000), CrashEvery: ms(0, 500, 2000), PauseEvery: ms(0, 500, 2000), Restart: ms(50, 500), ClientTimeout: ms(500, 5000), GarbageWait: ms(200, 2000),
	}
	c.Compacted = src.Int(c.Topics + 1)
	c.CutEvery, c.Ghosts, c.ClockEvery = ms(0, 500, 2000), ms(0, 100, 1000), ms(0, 1000)
	// These use none of the bytes, so that kept inputs stay valid.
	c.Stamped, c.RetypeEvery = (c.Compacted+c.Window)%(c.Topics+1), c.GarbageWait/2*time.Duration(c.Window%2)
	c.Atomics = max(0, c.Window-4)
	c.Transactions = c.Pipeline - 1
	c.ClockSkew = sebtest.Pick(src, 0, time.Second, 365*24*time.Hour)
	return c
}

// RunBytes performs a short run that b determines: first the configuration, then the decisions.
func RunBytes(b []byte) Result {
	src := sebtest.Source{B: b}
	cfg := fuzzedConfig(&src)
	part := len(src.B) / 4
	return runOn(cfg, nil, func(n uint64) *rand.Rand {
		c := &chances{}
		c.rest.Seed(uint64(len(b)), n)
		if n <= 4 { // identifiers and keys come from the generator, because they must be unique
			c.b = src.B[part*int(n-1):][:part]
		}
		return rand.New(c)
	})
}

// RandomBytes returns a random input of RunBytes.
func RandomBytes(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, 60+r.IntN(1000))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
