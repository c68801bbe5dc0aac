// Package compare says what has changed between two results, and whether it is more than noise.
package compare
