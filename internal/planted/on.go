//go:build plantedbugs

package planted

var bug string

// Plant switches one bug on ("" none) for the whole process. Not safe for concurrent use.
func Plant(name string) { bug = name }

// On says whether a planted bug is on.
func On(name string) bool { return bug == name }
