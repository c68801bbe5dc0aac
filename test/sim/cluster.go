package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
)

// ClusterConfig is of runs in which each broker decides by a cluster.Core whether it leads.
type ClusterConfig struct {
	Unit  time.Duration // what a second is in cluster.Designed; 0: brokers have no Core
	Times cluster.Times
	Delay time.Duration // mean time of a message between two brokers
	// Exact means that the times have about the proportions of the designed ones, and that one fault
	// comes at a time. Then A1, A2, A7 and A11 hold as well. Otherwise each time is drawn on its own over
	// three orders of magnitude, and many faults come at once.
	Exact bool
	// Older brokers read only lower format levels than the others until they start again. Then the log
	// begins at a lower level, and so it does with Old.
	Older int
	Old   bool
	// Callers are clients that call any broker.
	Callers int
	// More adds kinds of faults: clocks that are set, and leaders that return while another broker
	// stands. In some of these runs the Older brokers stay old.
	More, Stay bool
}

// scaledTimes are the designed times for a unit.
func scaledTimes(unit time.Duration) cluster.Times {
	t := cluster.Designed
	for _, d := range timesOf(&t) {
		*d = time.Duration(float64(*d) * unit.Seconds())
	}
	return t
}

func timesOf(t *cluster.Times) []*time.Duration {
	return []*time.Duration{&t.Beat, &t.Silent, &t.Alive, &t.Fast, &t.Slow, &t.Trouble, &t.Parked, &t.Gap, &t.Young, &t.Doubt, &t.Late, &t.HandOver}
}

// drawCluster returns a run of two to ten brokers with a cluster.Core. A second of the designed times
// is between a tenth of a second and a hundred seconds.
func drawCluster(seed uint64) Config {
	c := drawUsual(seed)
	r := rand.New(rand.NewPCG(seed, 0x5ebc))
	pick := func(d ...time.Duration) time.Duration { return d[r.IntN(len(d))] }
	unit := time.Duration(float64(100*time.Millisecond) * math.Pow(10, 3*r.Float64()))
	units := func(d time.Duration) time.Duration { return time.Duration(float64(d) * unit.Seconds()) }
	c.Nodes, c.Followers = []int{2, 2, 2, 3, 3, 3, 4, 5, 6, 8, 10}[r.IntN(11)], 0
	k := &c.Cluster
	k.Unit, k.Exact, k.Times = unit, r.IntN(4) > 0, scaledTimes(unit)
	k.Times.Fast, k.Times.Slow = units(pick(20*time.Second, time.Minute, 10*time.Minute)), units(pick(8*time.Second, time.Minute))
	k.Delay = min(pick(time.Millisecond, 10*time.Millisecond, 80*time.Millisecond), unit/50)
	c.Latency = min(c.Latency, unit/20)
	c.Chaos, c.Calm = units(8*time.Minute), units(3*time.Minute)
	if c.Nodes > 4 {
		c.Chaos = units(4 * time.Minute)
	}
	c.Slow = max(1, int64(20*unit.Seconds()))
	c.Think, c.BatchWait = units(pick(500*time.Millisecond, 2*time.Second, 8*time.Second)), min(c.BatchWait, unit/20)
	c.ClientTimeout, c.Restart = units(pick(500*time.Millisecond, 5*time.Second, 30*time.Second)), units(pick(100*time.Millisecond, time.Second, 5*time.Second))
	c.GarbageWait = units(pick(200*time.Millisecond, 2*time.Second, 10*time.Second))
	c.Producers, c.Pipeline = 1+r.IntN(2), 1+r.IntN(2)
	c.CrashEvery, c.PauseEvery, c.RefuseEvery, c.CutEvery, c.RetypeEvery, c.ClockEvery, c.ClockSkew = 0, 0, 0, 0, 0, 0, 0
	if k.Old = r.IntN(4) == 0; k.Old {
		k.Older = r.IntN(c.Nodes)
	}
	k.Callers = rand.New(rand.NewPCG(seed, 0x5ebd)).IntN(4)
	c.Atomics = rand.New(rand.NewPCG(seed, 0x5ebf)).IntN(6) / 5 * 2
	c.Transactions = rand.New(rand.NewPCG(seed, 0x5ec1)).IntN(6) / 4
	more := rand.New(rand.NewPCG(seed, 0x5ebe))
	if k.More = more.IntN(2) == 0; k.More && more.IntN(2) == 0 {
		k.Old, k.Older, k.Stay = true, 1+more.IntN(c.Nodes), true
	}
	c.StandEvery = 1 // a fenced broker follows
	if k.Exact {
		c.FailBefore, c.FailAfter, c.Late, c.Conflict, c.Damage, c.Ghosts = 0, 0, 0, 0, 0, 0
		return c
	}
	for _, d := range timesOf(&k.Times) {
		*d = time.Duration(float64(*d) * math.Pow(10, 3*r.Float64()-1.5))
	}
	return c
}
