// Package killloop kills a real broker again and again and looks whether it lost anything. It holds tests only: a child
// process runs the built program on a bucket (a folder, or a real S3 server), producers write over HTTP and note what was
// acknowledged in a file of their own, SIGKILL comes at random moments, and at the end everything is read back by a
// broker that has nothing but the bucket.
//
//	make killloop KILLS=100
//
// SEB_KILLS is the number of kills for each kind of bucket, SEB_KILL_SEED repeats the random choices of a run (not the
// timing of the machine, which decides as well).
package killloop
