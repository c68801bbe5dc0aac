// Package benchmark measures a broker over real HTTP: how fast records are stored, and how fast they are read. It generates
// load, counts, and reports for people or as JSON.
package benchmark
