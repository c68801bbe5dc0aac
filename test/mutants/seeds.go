package mutants

// Kind is a kind of runs.
type Kind struct {
	Name string
	N    uint64 // the largest number of runs that may be needed to find a mutant
	// Package performs the runs. A mutant is built into the test of this package, so a package imports
	// only the simulator that its runs need.
	Package string
}

const (
	logRuns     = "test/mutants/logruns"
	journalRuns = "test/mutants/journalruns"
)

// Kinds are all kinds of runs.
var Kinds = []Kind{
	{"default", 200, logRuns},
	{"losses", 400, logRuns},
	{"clocks", 200, logRuns},
	{"standbys", 200, logRuns},
	{"cluster", 100, logRuns},
	{"months", 20, logRuns},
	{"riemann", 200, logRuns},
	{"short", 5000, logRuns},
	{"journal", 2000, journalRuns},
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
