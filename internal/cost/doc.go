// Package cost counts the requests that a broker's bucket is billed for in a calendar month (UTC),
// and multiplies them by a price list. Commit objects are counted by their slots in the log, so
// neither a restart nor a lost data folder resets their number. Other requests are counted by the
// store and kept in a file. A Budget decides by these numbers when commit objects leave; a Limiter is
// the Budget of a broker. A Meter has no goroutine of its own and makes no request to the store,
// except a few reads when it does not know the position at which the month began.
package cost
