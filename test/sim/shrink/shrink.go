// Package shrink makes failing runs of the simulator smaller.
package shrink

import (
	"strings"
	"time"

	"github.com/sebbroker/seb/test/sim"
)

// Config makes the configuration of a run that fails smaller, as long as it fails by the same rule: a shorter chaos, fewer
// kinds of fault, fewer brokers and clients. tried, if not nil, is told of every step.
func Config(cfg sim.Config, tried func(c sim.Config, fails bool)) sim.Config {
	rule := brokenRule(sim.Run(cfg, nil))
	if rule == "" {
		return cfg
	}
	for again := true; again; {
		again = false
		for _, smaller := range smallers {
			for {
				c := cfg
				smaller(&c)
				if c == cfg {
					break
				}
				fails := brokenRule(sim.Run(c, nil)) == rule
				if tried != nil {
					tried(c, fails)
				}
				if !fails {
					break
				}
				cfg, again = c, true
			}
		}
	}
	return cfg
}

// brokenRule is the name before the colon of a violation: I1, R5 and so on; "" if there is none.
func brokenRule(r sim.Result) string {
	if r.Err == nil {
		return ""
	}
	rule, _, _ := strings.Cut(r.Err.Error(), ":")
	return rule
}

// smallers are the steps of Config, those that take most away first. One that changes nothing is over.
var smallers = []func(*sim.Config){
	func(c *sim.Config) { c.Chaos /= 2 },
	func(c *sim.Config) { c.Chaos -= min(c.Chaos, max(c.Chaos/10, time.Millisecond)) },
	func(c *sim.Config) { c.PauseEvery = 0 },
	func(c *sim.Config) { c.CrashEvery = 0 },
	func(c *sim.Config) { c.RefuseEvery = 0 },
	func(c *sim.Config) { c.CutEvery = 0 },
	func(c *sim.Config) { c.Ghosts = 0 },
	func(c *sim.Config) { c.Together = 0 },
	func(c *sim.Config) { c.ClockEvery = 0 },
	func(c *sim.Config) { c.ClockRate = 0 },
	func(c *sim.Config) { c.RetypeEvery = 0 },
	func(c *sim.Config) { c.Stamped = max(0, c.Stamped-1) },
	func(c *sim.Config) { c.Watch.StallEvery = 0 },
	func(c *sim.Config) { c.Watch.PauseEvery = 0 },
	func(c *sim.Config) { c.Watch.LoseView = 0 },
	func(c *sim.Config) { c.Watch.OldView = 0 },
	func(c *sim.Config) { c.Watch.LostAnswer = 0 },
	func(c *sim.Config) { c.Watch.Refused = 0 },
	func(c *sim.Config) { c.Watch.Triggers = max(min(1, c.Watch.Triggers), c.Watch.Triggers-1) },
	func(c *sim.Config) { c.Damage = 0 },
	func(c *sim.Config) { c.Conflict = 0 },
	func(c *sim.Config) { c.Late = 0 },
	func(c *sim.Config) { c.FailBefore = 0 },
	func(c *sim.Config) { c.FailAfter = 0 },
	func(c *sim.Config) { c.HideLists = 0 },
	func(c *sim.Config) { c.ClockSkew = 0 },
	func(c *sim.Config) { c.Followers = 0 },
	func(c *sim.Config) { c.Nodes = max(1, c.Nodes-1) },
	func(c *sim.Config) { c.Producers = max(1, c.Producers-1) },
	func(c *sim.Config) { c.Compacted = max(0, c.Compacted-1) },
	func(c *sim.Config) { c.Topics = max(1, c.Compacted, c.Topics-1) },
	func(c *sim.Config) { c.Parts = max(1, c.Parts-1) },
	func(c *sim.Config) { c.Pipeline = 1 },
	func(c *sim.Config) { c.Window = max(1, c.Window-1) },
}
