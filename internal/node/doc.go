// Package node assembles a broker: the bucket of a spec, the store check, the disk cache, the
// memory budget and the broker. It closes them in order. It does not depend on a network front end.
package node
