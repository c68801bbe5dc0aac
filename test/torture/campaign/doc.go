// Package campaign lets real brokers live through what kills them, and looks whether anything of it showed. It holds tests
// only.
//
//	go run ./test/cmd/torture -time 10m           fresh seeds for so long
//	go run ./test/cmd/torture -kills 10000        until so many brokers were killed; with -time 1h for so long at most
//	go run ./test/cmd/torture -seed 17            the run of one seed
//
// A run draws its plan from its seed and prints it: a folder or the real S3 server; one to three brokers that take over
// from one another; what the network between them, their store and their clients does; how they are killed, stopped and
// told to go, at random moments and at named ones (package failpoint); and who writes and reads. Each kind of fault is off
// in half of the runs. Then comes a calm: all that is under way must end, readers reach the end, everything is read by a
// broker, by a follower that has nothing but the bucket, and by seb fsck. The history of every operation is judged while it
// is written (package history), that of short runs also by a search for an order of its operations. A history with a fault
// is kept, with a page that draws it, and both paths are printed.
//
// A seed repeats the plan and the schedule, not the timing of the machine, which decides as well.
package campaign
