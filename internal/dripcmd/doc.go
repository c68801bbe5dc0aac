// Package dripcmd is the commands about events and the expressions over them: `seb event`, which speaks to a broker, and
// `seb drip`, which needs none.
package dripcmd
