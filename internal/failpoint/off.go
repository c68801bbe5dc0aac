//go:build !failpoints

package failpoint

// Enabled says whether failpoints are in the program. What is done for them alone stands behind it, and the compiler drops
// it.
const Enabled = false

// Hit does nothing.
func Hit(string) {}

// Hurried is false.
func Hurried() bool { return false }

// HurriedGroups is false in this build.
func HurriedGroups() bool { return false }
