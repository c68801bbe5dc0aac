// Package node puts a broker together: the bucket that a spec names, the store check, the disk cache, the memory budget
// and the broker; and it takes them apart again in order. It knows no network front end.
package node
