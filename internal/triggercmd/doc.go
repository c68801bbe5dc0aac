// Package triggercmd is `seb trigger`: triggers and firings of a broker, and triggers that are kept as files.
package triggercmd
