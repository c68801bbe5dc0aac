// Package journalsim runs the production journal of disk buckets (package journal) on a simulated
// machine: several processes, a page cache, and a disk that a power failure leaves in any state that
// the rules of file systems allow. A seed determines everything.
//
//	processes    goroutines with a journal.System of their own (system.go)
//	   | steps: create, write a part, start of a sync, end of a sync, rename, ...
//	scheduler    lets one step happen at a time; between two steps a process can be stopped,
//	   |         continued or killed, and the power can fail (sched.go)
//	disk         what processes see, and what a power failure may leave (disk.go, power.go)
//
// A run is a bubble of testing/synctest: the scheduler waits until every goroutine is blocked, then
// chooses. It also gives the journal's mutexes to the goroutines that wait for them (mutex.go): a step
// can wake several, and they go on in one order. The checker (check.go) compares every answer with
// what other processes were told.
package journalsim
