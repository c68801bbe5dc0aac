// Package failpoint names the moments at which tests kill or stop a broker: before and after each
// of its external effects. Only builds with the tag failpoints contain them. SEB_FAILPOINTS then
// sets the actions:
//
//	SEB_FAILPOINTS="put.data.after=kill:3,list.before=stop:1,commit.before-answer=sleep:10:50ms,get.after=slow:4:5ms"
//
// means: die (SIGKILL) after the third PUT of data, stop (SIGSTOP; the caller continues the
// process) before the first LIST, delay one goroutine for 50 ms at the tenth commit, and one for 5
// ms at every fourth GET. All actions except slow happen once. Each first action prints a line on
// stderr: "failpoint put.data.after kill". Names lists the failpoints.
//
// SEB_HURRY=1 makes a broker on a folder write snapshots as often as on S3, and each leader compare
// the bucket with its state each second. SEB_HURRY_GROUPS=1 makes consumer groups start at once.
// SEB_HURRY_ALONE=1 makes brokers of one machine depose each other. SEB_HURRY_JOURNAL=262144 sets
// the bytes of a journal file of a folder, so that a broker changes files often.
package failpoint
