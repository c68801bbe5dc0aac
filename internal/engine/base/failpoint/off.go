//go:build !failpoints

package failpoint

// Enabled reports whether the program has failpoints. The compiler removes the code that depends on
// it.
const Enabled = false

// Hit does nothing.
func Hit(string) {}

// FrequentSnapshots is false in this build.
func FrequentSnapshots() bool { return false }

// JournalFileBytes is 0 in this build.
func JournalFileBytes() int64 { return 0 }

// FastGroups is false in this build.
func FastGroups() bool { return false }

// UnknownMachine is false in this build.
func UnknownMachine() bool { return false }
