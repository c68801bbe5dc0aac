// Package config defines the settings of `seb serve`: plain values, their flags and environment
// variables, and a validation that reports all errors at once. It does no I/O except to find the
// default bucket.
package config
