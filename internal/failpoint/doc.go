// Package failpoint names the moments at which a broker that dies or stands still is worth a test: before and after each
// thing that it does to the world. In a build without the tag failpoints nothing of it is in the program. With it,
// SEB_FAILPOINTS says what happens where:
//
//	SEB_FAILPOINTS="put.data.after=kill:3,list.before=stop:1,commit.before-answer=sleep:10:50ms,get.after=slow:4:5ms"
//
// is to die (SIGKILL) after the third PUT of data, to stand still (SIGSTOP; whoever runs the broker lets it go on) before the
// first LIST, to hold up one goroutine for 50 ms at the tenth commit, and one for 5 ms at every fourth GET. Each but the last
// happens once. The first time is announced by a line on stderr: "failpoint put.data.after kill". Names lists what there is.
//
// SEB_HURRY=1 has a broker on a folder make snapshots as often as one on S3, SEB_HURRY_GROUPS=1 has consumer groups begin at once.
package failpoint
