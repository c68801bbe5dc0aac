// Package torture tests real brokers that are killed, stopped and disconnected, and their requests
// to a real S3 server. It contains only tests. make test runs short forms; the long ones are:
//
//	go run ./test/cmd/torture -time 10m           fresh seeds for that time
//	go run ./test/cmd/torture -kills 10000        until that many brokers were killed; with -time 1h at most that time
//	go run ./test/cmd/torture -kills 3000 -only journal   on folders with journals
//	go run ./test/cmd/torture -seed 17            the run of one seed
//	go run ./test/cmd/backup                      backups that are killed, and restored copies
//	go run ./test/cmd/revocation                  tokens that are revoked while their clients are busy
//	go run ./test/cmd/soak                        an hour of mixed load, compressed into minutes
//	go run ./test/cmd/costs                       requests to the store
//
// A run of TestTorture draws its plan from its seed and prints it: a folder or the real S3 server;
// one to three brokers that replace one another; the faults of the network between them, their
// store and their clients; how they are killed, stopped and terminated, at random moments and at
// failpoints (package failpoint); and the clients that write and read. Each kind of fault is off in
// half of the runs.
//
//	chaos --> calm: no faults --> all operations end --> readers reach the end --> everything is read:
//	          by a broker, by a follower that has only the bucket, and by seb fsck
//
// TestRiemannKills kills brokers at each failpoint between a message of a Riemann client and its
// acknowledgement, and compares the topic with the acknowledgements, and the index with the topic.
//
// The history of every operation is checked while it is written (package history). Short histories
// are also checked by a search for an order of their operations. A history with a violation is
// kept, with an excerpt of the operations around it, and both paths are printed.
//
// A seed repeats the plan and the schedule. It does not repeat the timing of the machine, which
// also affects the result.
package torture
