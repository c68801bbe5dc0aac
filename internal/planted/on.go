//go:build plantedbugs

package planted

import "os"

// bug is the one that is on. A process begins with the one that the environment names.
var bug = os.Getenv("SEB_PLANTED_BUG")

// Plant switches one bug on ("" none) for the whole process. Not safe for concurrent use.
func Plant(name string) { bug = name }

// On says whether a planted bug is on.
func On(name string) bool { return bug == name }
