// Package config holds the settings of `seb serve`: plain values, their flags and environment variables, and the check
// that reports every fault at once. It opens nothing and starts nothing.
package config
