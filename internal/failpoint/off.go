//go:build !failpoints

package failpoint

// Enabled reports whether the program has failpoints. The compiler removes the code that depends on
// it.
const Enabled = false

// Hit does nothing.
func Hit(string) {}

// FrequentSnapshots is false in this build.
func FrequentSnapshots() bool { return false }

// FastGroups is false in this build.
func FastGroups() bool { return false }
