// Package pressure holds tests of a built broker that is short of memory: more clients than it can hold, a store that
// answers late, connections that come and go. It has no code of its own beside them.
package pressure
