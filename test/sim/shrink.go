package sim

import (
	"reflect"
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
var smallers = func() []func(*Config) {
	steps := []func(*Config){
		func(c *Config) { c.Chaos /= 2 },
		func(c *Config) { c.Chaos -= min(c.Chaos, max(c.Chaos/10, time.Millisecond)) },
		func(c *Config) { c.Pipeline = 1 },
	}
	for name := range strings.FieldsSeq(`PauseEvery CrashEvery RefuseEvery CutEvery Ghosts Together ClockEvery ClockRate RetypeEvery
		Watch.StallEvery Watch.PauseEvery Watch.LoseView Watch.OldView Watch.LostAnswer Watch.Refused
		Damage Conflict Late FailBefore FailAfter HideLists ClockSkew Followers Stamped Atomics Transactions`) {
		steps = append(steps, func(c *Config) { c.field(name).SetZero() })
	}
	for name := range strings.FieldsSeq("Watch.Triggers Nodes Producers Compacted Topics Parts Window") {
		steps = append(steps, func(c *Config) {
			n := c.field(name)
			n.SetInt(max(n.Int()-1, min(n.Int(), 1)))
			c.Compacted, c.Stamped = min(c.Compacted, c.Topics), min(c.Stamped, c.Topics)
		})
	}
	return steps
}()

// field returns a field by its name, of Watch with the prefix "Watch.".
func (c *Config) field(name string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	if of, found := strings.CutPrefix(name, "Watch."); found {
		return v.FieldByName("Watch").FieldByName(of)
	}
	return v.FieldByName(name)
}
