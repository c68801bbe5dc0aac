// Package benchmark measures the rates at which a broker stores and serves records over HTTP. It
// generates load, counts, and reports for people or as JSON.
package benchmark
