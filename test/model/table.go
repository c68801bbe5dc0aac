package model

import (
	"fmt"
	"strings"
)

// Info describes a rule.
type Info struct {
	Rule
	H    string // of the design
	Name string
	Text string
	// Trials are runs without the rule that break an invariant.
	Trials []Config
}

// Named returns the rule with a name.
func Named(name string) (Info, error) {
	for _, i := range All {
		if i.Name == name {
			return i, nil
		}
	}
	return Info{}, fmt.Errorf("rule %q: not known", name)
}

// Find runs seeds from 1 until one breaks an invariant without the rule. It returns the number of
// runs and the violation, "" after the last seed.
func (i Info) Find(trial Config, seeds int) (runs int, violation string) {
	trial.Without |= Without(i.Rule)
	for n := range seeds {
		trial.Seed = uint64(n + 1)
		if v := Run(trial).Violation; v != "" {
			return n + 1, v
		}
	}
	return seeds, ""
}

// Where names the runs of a trial.
func Where(c Config) string {
	if c.Schedule != "" {
		return "schedule " + c.Schedule
	}
	list := []string{string(c.Mode)}
	if c.Brokers > 0 {
		list = append(list, fmt.Sprint(c.Brokers, " brokers"))
	}
	if c.Faults != "" {
		list = append(list, c.Faults)
	}
	if c.Bugs&(1<<FeedEarly) != 0 {
		list = append(list, "a leader that feeds early")
	}
	if c.Bugs&(1<<SealThenStop) != 0 {
		list = append(list, "a candidate that stops after its SEAL")
	}
	return strings.Join(list, "; ")
}

// Row returns a line of RULES.md: the run with the lowest seed that breaks an invariant.
func (i Info) Row(seeds int) string {
	runs, broken, at := 0, "", ""
	for _, c := range i.Trials {
		if n, v := i.Find(c, seeds); v != "" && (broken == "" || n < runs) {
			runs, broken, at = n, v, Where(c)
		}
	}
	switch {
	case broken == "":
		return fmt.Sprintf("| %s | %s | %s | nothing found in %d runs | | |", i.H, i.Name, i.Text, seeds)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %d |", i.H, i.Name, i.Text, broken, at, runs)
}
