package sim

import (
	"strings"
	"time"
)

// Shrink finds a smaller configuration that fails by the same rule: a shorter chaos, fewer kinds of
// faults, fewer brokers and clients. It calls tried, if not nil, after every step.
func Shrink(cfg Config, tried func(c Config, fails bool)) Config {
	rule := brokenRule(Run(cfg, nil))
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
				fails := brokenRule(Run(c, nil)) == rule
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

// brokenRule returns the name before the colon of a violation, such as I1 or R5; "" if there is
// none.
func brokenRule(r Result) string {
	if r.Err == nil {
		return ""
	}
	rule, _, _ := strings.Cut(r.Err.Error(), ":")
	return rule
}

// smallers are the steps of Shrink, largest reductions first. A step that changes nothing is
// skipped.
var smallers = []func(*Config){
	func(c *Config) { c.Chaos /= 2 },
	func(c *Config) { c.Chaos -= min(c.Chaos, max(c.Chaos/10, time.Millisecond)) },
	func(c *Config) { c.PauseEvery = 0 },
	func(c *Config) { c.CrashEvery = 0 },
	func(c *Config) { c.RefuseEvery = 0 },
	func(c *Config) { c.CutEvery = 0 },
	func(c *Config) { c.Ghosts = 0 },
	func(c *Config) { c.Together = 0 },
	func(c *Config) { c.ClockEvery = 0 },
	func(c *Config) { c.ClockRate = 0 },
	func(c *Config) { c.RetypeEvery = 0 },
	func(c *Config) { c.Stamped = max(0, c.Stamped-1) },
	func(c *Config) { c.Watch.StallEvery = 0 },
	func(c *Config) { c.Watch.PauseEvery = 0 },
	func(c *Config) { c.Watch.LoseView = 0 },
	func(c *Config) { c.Watch.OldView = 0 },
	func(c *Config) { c.Watch.LostAnswer = 0 },
	func(c *Config) { c.Watch.Refused = 0 },
	func(c *Config) { c.Watch.Triggers = max(min(1, c.Watch.Triggers), c.Watch.Triggers-1) },
	func(c *Config) { c.Damage = 0 },
	func(c *Config) { c.Conflict = 0 },
	func(c *Config) { c.Late = 0 },
	func(c *Config) { c.FailBefore = 0 },
	func(c *Config) { c.FailAfter = 0 },
	func(c *Config) { c.HideLists = 0 },
	func(c *Config) { c.ClockSkew = 0 },
	func(c *Config) { c.Followers = 0 },
	func(c *Config) { c.Nodes = max(1, c.Nodes-1) },
	func(c *Config) { c.Producers = max(1, c.Producers-1) },
	func(c *Config) { c.Compacted = max(0, c.Compacted-1) },
	func(c *Config) { c.Topics = max(1, c.Compacted, c.Topics-1) },
	func(c *Config) { c.Parts = max(1, c.Parts-1) },
	func(c *Config) { c.Pipeline = 1 },
	func(c *Config) { c.Window = max(1, c.Window-1) },
}
