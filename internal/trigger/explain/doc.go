// Package explain answers what an expression of driplang is worth for an entity whose events are given, when that changes, and
// why: POST /evaluate and `seb drip eval` offline. It keeps nothing and reads no clock.
package explain
