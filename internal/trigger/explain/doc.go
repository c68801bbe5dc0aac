// Package explain evaluates an expression of driplang for an entity whose events are given: its
// value, when it changes, and why. POST /evaluate and `seb drip eval` use it. It has no state and
// reads no clock.
package explain
