package mutants

// Kind is a kind of runs.
type Kind struct {
	Name string
	N    uint64 // the largest number of runs that may be needed to find a mutant
	// Package is the simulator. A mutant is built into its test.
	Package string
}

const (
	logSim     = "test/sim"
	journalSim = "test/journalsim"
	queueSim   = "test/queuesim"
	atomicRuns = "test/atomics"
)

// Kinds are all kinds of runs.
var Kinds = []Kind{
	{"default", 200, logSim},
	{"losses", 400, logSim},
	{"copies", 400, logSim},
	{"clocks", 200, logSim},
	{"standbys", 200, logSim},
	{"cluster", 300, logSim},
	{"months", 20, logSim},
	{"riemann", 200, logSim},
	{"short", 5000, logSim},
	{"journal", 2000, journalSim},
	{"queue", 1000, queueSim},
	{"atomics", 200, atomicRuns},
}

// kind returns the kind of a name, nil if there is none.
func kind(name string) *Kind {
	for i := range Kinds {
		if Kinds[i].Name == name {
			return &Kinds[i]
		}
	}
	return nil
}

// Packages returns the seeds of a mutant by the package that runs them.
func (m *Mutant) Packages() map[string][]Seeds {
	packages := make(map[string][]Seeds)
	for _, s := range m.Seeds {
		p := kind(s.Kind).Package
		packages[p] = append(packages[p], s)
	}
	return packages
}
