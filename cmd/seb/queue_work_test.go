package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// peeked returns the messages of a queue by their values.
func (p *workDir) peeked(queue string, args ...string) map[string]api.QueueMessage {
	p.t.Helper()
	all := map[string]api.QueueMessage{}
	for line := range strings.Lines(p.must(append([]string{"queue", "peek", queue, "--json"}, args...)...)) {
		var m api.QueueMessage
		must.NoError(p.t, json.Unmarshal([]byte(line), &m))
		all[*m.Value] = m
	}
	return all
}

// TestQueueWork: a program gets each message, and its exit code says what becomes of it.
func TestQueueWork(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("queue", "create", "mails", "-s", "backoff=1h", "-s", "visibility=1s")
	p.must("queue", "send", "mails", "--key", "ada", "--header", "Content-Type=text/x", "fine")
	p.mustWith("fails\nlater\nkilled\nslow\n", "queue", "send", "mails", "-q")
	script := `
read -r job
case $job in
fails) echo first >&2; echo 'mailbox full' >&2; exit 3 ;;
later) exit 75 ;;
killed) kill -9 $$ ;;
slow) sleep 1000 ;;
esac
echo "$job $SEB_MESSAGE_QUEUE $SEB_MESSAGE_ID $SEB_MESSAGE_DELIVERIES ${SEB_MESSAGE_SENT%%-*} $SEB_MESSAGE_KEY $SEB_MESSAGE_HEADER_CONTENT_TYPE"`
	r := p.run("queue", "work", "mails", "--until-empty", "-j", "8", "--later", "2h", "--", "sh", "-c", script)
	if !strings.HasPrefix(r.out, "fine mails 0-0 1 20") || !strings.HasSuffix(r.out, " ada text/x\n") || strings.Count(r.out, "\n") != 1 || r.code != 0 {
		t.Errorf("worked: %+v", r)
	}
	for _, want := range []string{"mailbox full\n", "message 0-1, delivery 1: exit status 3\n", "message 0-3, delivery 1: signal: killed\n", "message 0-4, delivery 1: killed: the lease"} {
		check.Containsf(t, r.err, want, "stderr")
	}
	reasons := []string{}
	for value, m := range p.peeked("mails", "--state", "retry") {
		reasons = append(reasons, value+": "+m.Tries[0].Reason)
	}
	slices.Sort(reasons)
	check.Equal(t, strings.Join(reasons, "; "), "fails: exit status 3: mailbox full; killed: signal: killed; later: exit status 75; slow: killed: the lease of the message is over")
	check.Equal(t, len(p.peeked("mails")), 4)
}

// TestQueueWorkVariables: what is not allowed in an environment is left out, and those of another message.
func TestQueueWorkVariables(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.env = append(p.env, "SEB_MESSAGE_KEY=of another message")
	p.must("queue", "create", "jobs")
	p.mustWith(`{"key":"a\u0000b","value":"v","headers":[{"key":"long","value":"`+strings.Repeat("x", 40_000)+`"},{"key":"é-1","value":"v=w"}]}`, "produce", "jobs", "--format", "json")
	r := p.run("queue", "work", "jobs", "--until-empty", "sh", "--", "-c", "env | grep ^SEB_MESSAGE_ | grep -v _SENT= | sort")
	check.Equal(t, r.out, "SEB_MESSAGE_DELIVERIES=1\nSEB_MESSAGE_HEADER___1=v=w\nSEB_MESSAGE_ID=0-0\nSEB_MESSAGE_QUEUE=jobs\n")
	check.Equal(t, r.err, "")
}

// TestQueueWorkRefusals: what cannot work ends the command before a message is leased.
func TestQueueWorkRefusals(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("queue", "create", "jobs")
	p.must("queue", "send", "jobs", "v")
	p.refused(2, `program exec: "no-such-program": executable file not found`, "queue", "work", "jobs", "--", "no-such-program")
	p.refused(2, "requires at least 2 arg", "queue", "work", "jobs")
	p.refused(2, "--jobs: 0, want 1 to 1000", "queue", "work", "jobs", "-j", "0", "--", "true")
	p.refused(2, "--visibility: 1ms, want 1s to 12h", "queue", "work", "jobs", "--visibility", "1ms", "--", "true")
	p.refused(1, "unknown topic", "queue", "work", "none", "--", "true")
	gone := filepath.Join(p.dir, "gone")
	must.NoError(t, os.WriteFile(gone, []byte("#!/bin/sh\nrm \"$0\"\n"), 0o700))
	p.must("queue", "send", "jobs", "w")
	p.refused(1, "start program: ", "queue", "work", "jobs", "--until-empty", "--", gone)
	check.Equalf(t, len(p.peeked("jobs")), 1, "messages that are left")
}

// worker is a running `seb queue work`.
type worker struct {
	*testenv.Broker
	dir string
}

// startWorker starts a worker whose program runs until the file end is there, and waits until it runs. The program
// reads a line of its message, and at its end writes the number of the other bytes to the file rest.
func (p *workDir) startWorker(args ...string) *worker {
	p.t.Helper()
	w := &worker{dir: p.t.TempDir()}
	script := `read -r job; echo $$ >"$0/pid.new"; mv "$0/pid.new" "$0/pid"; while [ ! -e "$0/end" ]; do sleep 0.02; done; wc -c >"$0/rest.new"; mv "$0/rest.new" "$0/rest"`
	args = append(append([]string{"queue", "work", "jobs", "--data-dir", filepath.Join(p.dir, "seb-data")}, args...), "--", "sh", "-c", script, w.dir)
	w.Broker = must.Get(testenv.StartProgram(testenv.Program(p.t), nil, func(string) {}, args...))(p.t)
	p.t.Cleanup(func() { w.end(p.t); w.Kill() })
	sebtest.Eventually(p.t, "the program runs", func() bool { return w.program() != "" })
	return w
}

func (w *worker) program() string {
	b, _ := os.ReadFile(filepath.Join(w.dir, "pid"))
	return string(bytes.TrimSpace(b))
}

// end lets the programs end.
func (w *worker) end(t *testing.T) {
	check.NoError(t, os.WriteFile(filepath.Join(w.dir, "end"), nil, 0o600))
}

func (w *worker) exit(t *testing.T, want int) {
	t.Helper()
	<-w.Done()
	if code, by := w.Exit(); code != want {
		t.Errorf("exit code %d, signal %v, want %d\n%s", code, by, want, w.Log())
	}
}

// TestQueueWorkStops: after SIGTERM the program that runs ends, its message is done, and no other is leased.
func TestQueueWorkStops(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("queue", "create", "jobs")
	p.mustWith("a\nb\n", "queue", "send", "jobs", "-q")
	w := p.startWorker()
	w.Signal(syscall.SIGTERM)
	w.end(t)
	w.exit(t, 0)
	left := p.peeked("jobs")
	check.Equal(t, len(left), 1)
	check.Equal(t, left["b"].Deliveries, 0)
}

// TestQueueWorkGetsASignalTwice: timeout(1) sends its signal to the command and then to its process group, and a shell
// or npm passes on the SIGINT that the terminal has sent to all. That is one wish to end.
func TestQueueWorkGetsASignalTwice(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("queue", "create", "jobs")
	p.must("queue", "send", "jobs", "-q", "a")
	w := p.startWorker()
	for range 3 { // those that wait at once are one
		w.Signal(syscall.SIGTERM)
	}
	w.end(t)
	w.exit(t, 0)
	check.Equal(t, len(p.peeked("jobs")), 0)
}

// TestQueueWorkIsKilled: the second signal ends the programs, whose messages come again at once. After SIGKILL they
// come when the lease is over.
func TestQueueWorkIsKilled(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("queue", "create", "jobs", "-s", "visibility=1h")
	p.must("queue", "send", "jobs", "-q", "a")
	w := p.startWorker()
	w.Signal(syscall.SIGINT)
	w.Signal(syscall.SIGTERM)
	w.exit(t, 0)
	a := p.peeked("jobs", "--state", "ready")["a"]
	check.Equal(t, a.Deliveries, 1)
	check.Equal(t, a.Tries[0].Reason, "seb queue work was stopped")

	w = p.startWorker("--visibility", "1s", "--extend")
	w.Signal(syscall.SIGKILL)
	var out string
	sebtest.Eventually(t, "the message comes again", func() bool {
		out = p.must("queue", "work", "jobs", "--until-empty", "--", "sh", "-c", "echo $SEB_MESSAGE_DELIVERIES")
		return out != ""
	})
	check.Equal(t, out, "3\n")
}

// TestQueueWorkIsKilledBeforeItsProgramReads: the program gets the whole message all the same, not the part that a pipe
// contains.
func TestQueueWorkIsKilledBeforeItsProgramReads(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("queue", "create", "jobs")
	p.must("queue", "send", "jobs", "-q", "line\n"+strings.Repeat("x", 100_000))
	w := p.startWorker()
	w.Signal(syscall.SIGKILL) // its output is open until the program ends
	w.end(t)
	var rest []byte
	sebtest.Eventually(t, "the program ends", func() (ended bool) {
		var err error
		rest, err = os.ReadFile(filepath.Join(w.dir, "rest"))
		return err == nil
	})
	check.Equal(t, string(bytes.TrimSpace(rest)), "100000")
}
