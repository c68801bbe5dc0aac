package objstore_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var takeoversFlag = flag.Int("takeovers", 0, "takeovers of a journal between two processes (0: a few), on the disk of the temporary folder")

// ownerFolder names the bucket in the environment of the process that owns the journals.
const ownerFolder = "SEB_TEST_JOURNAL_BUCKET"

// ownerWriters is the number of objects that an owner puts at once.
const ownerWriters = 4

// TestJournalOwnerProcess is the other process of TestJournalTakeovers. For each folder that it
// reads from its input it owns the folder and puts the names 0, 1, 2 … until it has lost some. It
// prints each verdict.
func TestJournalOwnerProcess(t *testing.T) {
	dir := os.Getenv(ownerFolder)
	if dir == "" {
		t.Skip("runs as a process of TestJournalTakeovers")
	}
	d := openDisk(t, dir, objstore.DiskOptions{})
	var mu sync.Mutex // guards the output
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	folders := bufio.NewScanner(os.Stdin)
	for folders.Scan() {
		folder := folders.Text()
		if err := d.Own(t.Context(), folder); err != nil {
			say("failed %v", err)
			return
		}
		say("owned")
		var next atomic.Int64
		var group sync.WaitGroup
		for range ownerWriters {
			group.Go(func() {
				for lost := 0; lost < 2; {
					n := int(next.Add(1)) - 1
					err := d.Put(t.Context(), raced(folder, n), racedBody("owner", n))
					switch {
					case err == nil:
						say("stored %d", n)
					case errors.Is(err, objstore.ErrExists):
						lost++
						say("taken %d", n)
					default:
						say("failed %v", err)
						return
					}
				}
			})
		}
		group.Wait()
		say("lost")
	}
}

func raced(folder string, n int) string { return fmt.Sprintf("%s/%06d", folder, n) }

// racedBody is an object that names its writer. Its size varies, so that batches have one to many
// blocks.
func racedBody(writer string, n int) objstore.Body {
	text := fmt.Sprintf("%s %d ", writer, n)
	return objstore.NewBody([]byte(text), []byte(strings.Repeat("x", n*997%9000)))
}

// ownerProcess is the process that owns the journals.
type ownerProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string // closed when the process has ended
}

func startOwner(t *testing.T, dir string) *ownerProcess {
	t.Helper()
	p := &ownerProcess{t: t, cmd: exec.Command(os.Args[0], "-test.run", "^TestJournalOwnerProcess$"), lines: make(chan string, 1<<16)}
	p.cmd.Env = append(os.Environ(), ownerFolder+"="+dir)
	p.cmd.Stderr = os.Stderr
	in := must.Get(p.cmd.StdinPipe())(t)
	p.in = in
	out := must.Get(p.cmd.StdoutPipe())(t)
	must.NoError(t, p.cmd.Start())
	go func() { // ends with the process
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// line returns the next line of the process.
func (p *ownerProcess) line() string {
	p.t.Helper()
	line, ok := <-p.lines
	if !ok || strings.HasPrefix(line, "failed") {
		p.t.Fatalf("the owner has ended: %s", line)
	}
	return line
}

func (p *ownerProcess) signal(s os.Signal) {
	p.t.Helper()
	must.NoError(p.t, p.cmd.Process.Signal(s))
}

// stop stops the process, and returns when all its threads have stopped.
func (p *ownerProcess) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		p.t.Fatalf("the owner has not stopped: %v, %v", status, err)
	}
}

// takeover is a round: the owner is busy, and this process takes its journal over.
type takeover struct {
	t      *testing.T
	dir    string
	folder string
	owner  *ownerProcess
	stop   time.Duration // how long the owner is stopped; 0: not
	winner map[int]string
	took   time.Duration // until the seal was stored
	tries  int           // names until then
}

// verdict records a line of the owner.
func (r *takeover) verdict(line string) {
	r.t.Helper()
	var n int
	if _, err := fmt.Sscanf(line, "stored %d", &n); err == nil {
		r.won(n, "owner")
	}
}

func (r *takeover) won(n int, writer string) {
	r.t.Helper()
	if before := r.winner[n]; before != "" {
		r.t.Fatalf("%s: stored by %s and by %s", raced(r.folder, n), before, writer)
	}
	r.winner[n] = writer
}

// run lets the owner store some objects, takes over, and puts names in a race with the owner, which
// may be stopped from before the takeover until then.
func (r *takeover) run(busy int) {
	r.t.Helper()
	_, _ = fmt.Fprintln(r.owner.in, r.folder)
	for line := r.owner.line(); line != "owned"; line = r.owner.line() {
		r.t.Fatal(line)
	}
	for range busy {
		r.verdict(r.owner.line())
	}
	if r.stop > 0 {
		r.owner.stop()
	}
	d := openDisk(r.t, r.dir, objstore.DiskOptions{})
	begin := time.Now()
	entries := r.list(d)
	next := 0 // after the last name
	if n := len(entries); n > 0 {
		must.Get(fmt.Sscanf(entries[n-1].Key, r.folder+"/%d", &next))(r.t)
		next++
	}
	for sealed := false; !sealed; next++ {
		sealed = r.put(d, next)
		r.tries++
	}
	r.took = time.Since(begin)
	for deadline := begin.Add(r.stop); time.Now().Before(deadline); next++ {
		r.put(d, next)
	}
	if r.stop > 0 {
		r.owner.signal(syscall.SIGCONT)
	}
	// The deposed owner waits before each name, so this process gets ahead of it.
	for lost := false; !lost; next++ {
		r.put(d, next)
		for n := len(r.owner.lines); n > 0 && !lost; n-- {
			line := r.owner.line()
			r.verdict(line)
			lost = line == "lost"
		}
	}
	r.check(openDisk(r.t, r.dir, objstore.DiskOptions{Existing: true}))
}

func (r *takeover) put(d *objstore.Disk, n int) (stored bool) {
	r.t.Helper()
	err := d.Put(context.Background(), raced(r.folder, n), racedBody("successor", n))
	if err == nil {
		r.won(n, "successor")
	} else if !errors.Is(err, objstore.ErrExists) {
		r.t.Fatal(err)
	}
	return err == nil
}

// list returns all objects of the folder.
func (r *takeover) list(d *objstore.Disk) (all []objstore.Entry) {
	r.t.Helper()
	o := objstore.ListOptions{Prefix: r.folder + "/"}
	for more := true; more; {
		var page []objstore.Entry
		var err error
		if page, more, err = d.List(r.t.Context(), o); err != nil {
			r.t.Fatal(err)
		}
		if all = append(all, page...); more {
			o.After = page[len(page)-1].Key
		}
	}
	return all
}

// check compares the folder with the verdicts: every stored object is there as its winner wrote it,
// and no other.
func (r *takeover) check(d *objstore.Disk) {
	r.t.Helper()
	if n := len(r.list(d)); n != len(r.winner) {
		r.t.Fatalf("%s lists %d objects, %d were stored", r.folder, n, len(r.winner))
	}
	for n, winner := range r.winner {
		o, err := d.Get(r.t.Context(), raced(r.folder, n), objstore.Whole)
		if err != nil {
			r.t.Fatalf("%s, stored by %s: %v", raced(r.folder, n), winner, err)
		}
		got, err := io.ReadAll(o.Body)
		_ = o.Body.Close()
		want := slices.Concat(racedBody(winner, n).Parts...)
		if err != nil || string(got) != string(want) {
			r.t.Fatalf("%s is %.20q (%d bytes), %v; %s stored %.20q (%d bytes)", raced(r.folder, n), got, len(got), err, winner, want, len(want))
		}
	}
}

// TestJournalTakeovers takes journals over from another process that is busy, or stopped on the way
// until its successor has stored objects. Each name has one winner, and what both were told is
// there. A stopped owner delays nothing: its successor stores the first name that it tries.
func TestJournalTakeovers(t *testing.T) {
	t.Parallel()
	rounds, stop, dir := sebtest.Runs(10, 1), time.Millisecond, memory(t)
	if *takeoversFlag > 0 {
		rounds, stop, dir = *takeoversFlag, 1500*time.Millisecond, t.TempDir()
	}
	own(t, openDisk(t, filepath.Join(dir, "try"), objstore.DiskOptions{}), "wal/1-a") // or skips
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	owner := startOwner(t, dir)
	var took []time.Duration
	names, stopped, triesMax := 0, 0, 0
	for i := range rounds {
		r := &takeover{t: t, dir: dir, folder: fmt.Sprintf("wal/%d-a", i), owner: owner, winner: map[int]string{}}
		if i%10 == 9 || i%10 == 4 && *takeoversFlag == 0 {
			r.stop = stop
			stopped++
		}
		r.run(rng.IntN(100))
		if r.stop > 0 && r.tries > 1 {
			t.Errorf("%s: the successor of a stopped owner stored the %d. name that it tried", r.folder, r.tries)
		}
		took = append(took, r.took)
		names += len(r.winner)
		triesMax = max(triesMax, r.tries)
	}
	slices.Sort(took)
	t.Logf("%d takeovers, %d from a stopped owner; %d objects; takeover %v at the median, %v at most, after at most %d names",
		rounds, stopped, names, took[len(took)/2], took[len(took)-1], triesMax)
}

// memory is a temporary folder in memory, if available.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "seb-journal-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
