package objstore

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var allImages = flag.Bool("images", false, "try many more images of a folder after a power failure")

// A power failure leaves everything that was synced, and any part of the rest. The following
// records what a store does to a folder, and creates every possible remainder:
//
//   - The content of a file is durable once it was synced. What was written since is there, or
//     missing, or there in part, or other bytes are there.
//   - A name (of a file or folder, created, moved or removed) is durable once its folder was
//     synced. Before that each change may or may not have happened, independently, including both
//     ends of a move.

// node is a file or folder while it exists; inode numbers are reused.
type node struct {
	id     int
	folder bool
	texts  []text // of a file
}

// text is a content of a file.
type text struct {
	content string
	at      int // the step from which it was there
	sure    int // the step from which it was durable; 0: not yet, or replaced before
}

// last is the newest content.
func (n *node) last() string {
	if len(n.texts) == 0 {
		return ""
	}
	return n.texts[len(n.texts)-1].content
}

// after returns the content that was durable after a step, and the newest one.
func (n *node) after(step int) (durable, newest string) {
	for _, t := range n.texts {
		if t.at > step {
			break
		}
		newest = t.content
		if t.sure > 0 && t.sure <= step {
			durable = newest
		}
	}
	return durable, newest
}

// nameStep is a name that was added or removed.
type nameStep struct {
	in   int // id of the folder
	name string
	node *node
	come bool
	at   int // step
	sure int // the step from which it is durable; 0: not yet
}

// promise is a store's answer about a key: its object exists, or was deleted and may be gone.
type promise struct {
	key, value string
	deleted    bool
	at         int
}

// tape is the recorded history.
type tape struct {
	t      *testing.T
	dir    string
	fail   func(step int) error
	staged bool // objects are staged and published
	// journals: folders are claimed
	journals bool

	mu       sync.Mutex // guards the fields below: a journal prepares its next file in the background
	step     int
	ids      int
	live     map[uint64]*node // by inode
	names    map[string]uint64
	steps    []nameStep
	promises []promise
	values   map[string][]string // all values that a put tried, by key
}

func newTape(t *testing.T, dir string) *tape {
	p := &tape{t: t, dir: dir, live: map[uint64]*node{}, names: map[string]uint64{}, values: map[string][]string{}}
	p.look()
	for i := range p.steps { // the initial content is durable
		p.steps[i].sure = 1
	}
	return p
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// look compares the folder with its last known state, and returns the new step. The step counts even if
// nothing changed.
func (p *tape) look() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step++
	now := map[string]uint64{}
	infos := map[uint64]fs.FileInfo{}
	err := filepath.WalkDir(p.dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(p.dir, path)
		now[name], infos[inode(info)] = inode(info), info
		return err
	})
	must.NoError(p.t, err)
	went := slices.DeleteFunc(slices.Sorted(maps.Keys(p.names)), func(name string) bool { return now[name] == p.names[name] })
	for _, name := range went {
		p.steps = append(p.steps, nameStep{in: p.idOf(filepath.Dir(name), p.names), name: filepath.Base(name), node: p.live[p.names[name]], at: p.step})
	}
	before := p.names
	p.names = now
	for _, ino := range slices.Sorted(maps.Keys(p.live)) {
		if infos[ino] == nil {
			delete(p.live, ino)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		p.came(name, before, infos[now[name]])
	}
	return p.step
}

// came records a name that exists, if it is new, and the content of its file.
func (p *tape) came(name string, before map[string]uint64, info fs.FileInfo) {
	ino := p.names[name]
	n := p.live[ino]
	if n == nil {
		p.ids++
		n = &node{id: p.ids, folder: info.IsDir()}
		p.live[ino] = n
	}
	if !n.folder {
		if b, err := os.ReadFile(filepath.Join(p.dir, name)); err == nil && string(b) != n.last() {
			n.texts = append(n.texts, text{content: string(b), at: p.step})
		}
	}
	if before[name] != ino && name != "." {
		p.steps = append(p.steps, nameStep{in: p.idOf(filepath.Dir(name), p.names), name: filepath.Base(name), node: n, come: true, at: p.step})
	}
}

func (p *tape) idOf(folder string, names map[string]uint64) int {
	if n := p.live[names[folder]]; n != nil {
		return n.id
	}
	return -1 // the folder was removed too, with its content
}

// watch intercepts a store's system calls.
func (p *tape) watch(d *Disk) {
	honest := d.calls
	call := func(f func() error) error {
		step := p.look()
		if p.fail != nil {
			if err := p.fail(step); err != nil {
				return err
			}
		}
		err := f()
		p.look()
		return err
	}
	d.calls.writev = func(fd int, v [][]byte) (n int, err error) {
		// one part at a time
		err = call(func() error { n, err = honest.writev(fd, v[:1]); return err })
		return n, err
	}
	d.calls.pwritev = func(fd int, v [][]byte, at int64) (n int, err error) {
		err = call(func() error { n, err = honest.pwritev(fd, v, at); return err })
		return n, err
	}
	d.calls.dataSync = func(fd int) error {
		return call(func() error {
			n, texts := p.opened(fd)
			if err := honest.dataSync(fd); err != nil || n == nil {
				return err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if texts > 0 && n.texts[texts-1].sure == 0 {
				n.texts[texts-1].sure = p.step
			}
			return nil
		})
	}
	d.calls.folderSync = func(f *os.File) error {
		return call(func() error {
			n, _ := p.opened(int(f.Fd()))
			if err := honest.folderSync(f); err != nil || n == nil {
				return err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			for i := range p.steps {
				if s := &p.steps[i]; s.in == n.id && s.sure == 0 {
					s.sure = p.step
				}
			}
			return nil
		})
	}
	d.calls.move = func(from *os.File, fromName string, to *os.File, toName string) error {
		return call(func() error { return honest.move(from, fromName, to, toName) })
	}
}

// opened returns what an open file or folder is, and the number of its contents so far.
func (p *tape) opened(fd int) (n *node, texts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var st unix.Stat_t
	check.NoError(p.t, unix.Fstat(fd, &st))
	if n = p.live[st.Ino]; n == nil {
		return nil, 0 // removed
	}
	return n, len(n.texts)
}

// put stores a value and records the promise.
func (p *tape) put(d *Disk, key, value string) error {
	p.values[key] = append(p.values[key], value)
	half := len(value) / 2
	var err error
	if p.staged {
		err = p.stage(d, key, value[:half], value[half:])
	} else {
		err = d.Put(p.t.Context(), key, NewBody([]byte(value[:half]), []byte(value[half:])))
	}
	step := p.look()
	switch {
	case err == nil:
		p.promises = append(p.promises, promise{key: key, value: value, at: step})
	case errors.Is(err, ErrExists): // another put's value exists, and must stay
		p.promises = append(p.promises, promise{key: key, value: p.values[key][0], at: step})
	}
	return err
}

// stage stores a value through a staged file.
func (p *tape) stage(d *Disk, key string, parts ...string) (err error) {
	file, err := d.Stage(p.t.Context(), int64(len(strings.Join(parts, ""))))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	p.look()
	for _, part := range parts {
		if _, err := file.File.WriteString(part); err != nil {
			return err
		}
		p.look()
	}
	return file.Publish(p.t.Context(), key)
}

func (p *tape) delete(d *Disk, keys ...string) error {
	p.mu.Lock()
	for _, key := range keys {
		p.promises = append(p.promises, promise{key: key, deleted: true, at: p.step})
	}
	p.mu.Unlock()
	err := d.Delete(p.t.Context(), keys...)
	p.look()
	return err
}

// at returns the promises after a step: values that must exist, and keys that may exist.
func (p *tape) at(step int) (must map[string]string) {
	must = map[string]string{}
	for _, x := range p.promises {
		switch {
		case x.deleted: // from the request on
			if x.at <= step {
				delete(must, x.key)
			}
		case x.at <= step:
			must[x.key] = x.value
		}
	}
	return must
}

// open returns the choices after a step: the names that are not durable.
func (p *tape) open(step int) (choices []int) {
	for i := range p.steps {
		if s := &p.steps[i]; s.at <= step && (s.sure == 0 || s.sure > step) {
			choices = append(choices, i)
		}
	}
	return choices
}

// remains creates the folder after a power failure at a step. happened selects the names that are
// not durable yet but did happen; fate returns the content of files whose newest one is not durable.
func (p *tape) remains(to string, step int, happened map[int]bool, fate diskFate) error {
	inside := map[int]map[string]*node{}
	for i := range p.steps {
		s := &p.steps[i]
		if s.at > step || (s.sure == 0 || s.sure > step) && !happened[i] {
			continue
		}
		if inside[s.in] == nil {
			inside[s.in] = map[string]*node{}
		}
		if s.come {
			inside[s.in][s.name] = s.node
		} else {
			delete(inside[s.in], s.name)
		}
	}
	var make func(dir string, id int) error
	make = func(dir string, id int) error {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		for name, n := range inside[id] {
			path := filepath.Join(dir, name)
			if n.folder {
				if err := make(path, n.id); err != nil {
					return err
				}
				continue
			}
			durable, newest := n.after(step)
			if newest != durable {
				newest = fate(durable, newest)
			}
			if err := os.WriteFile(path, []byte(newest), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	return make(to, 1)
}

// memoryDir is a temporary folder in memory, if available: syncing there is as good as on a disk
// for this test.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "crash-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { check.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// diskFate returns what is left of a file after its newest content was not synced.
type diskFate func(durable, newest string) string

var diskFates = []diskFate{
	func(_, newest string) string { return newest },
	func(durable, _ string) string { return durable },
	func(durable, newest string) string {
		same := 0
		for same < min(len(durable), len(newest)) && durable[same] == newest[same] {
			same++
		}
		return prefix(durable, newest, (same+len(newest))/2)
	},
	func(durable, newest string) string {
		left := []byte(newest)
		for i := range left {
			if i >= len(durable) || left[i] != durable[i] {
				left[i] = 0
			}
		}
		return string(left)
	},
}

// prefix is the newest content up to n, and the durable one from there on.
func prefix(durable, newest string, n int) string { return newest[:n] + durable[min(n, len(durable)):] }

// check opens the remainder and compares it with the promises.
func (p *tape) check(dir string, step int, what string) {
	d, err := OpenDisk(dir, DiskOptions{NoSync: true})
	must.NoErrorf(p.t, err, "after step %d%s", step, what)
	defer d.Close()
	must := p.at(step)
	for key, values := range p.values {
		got, err := readString(p.t, d, key)
		want, sure := must[key]
		switch {
		case err == nil && (sure && got != want || !slices.Contains(values, got)):
			p.t.Fatalf("after step %d%s: %s is %.40q, want %.40q", step, what, key, got, want)
		case err != nil && (sure || !errors.Is(err, ErrNotFound)):
			p.t.Fatalf("after step %d%s: %s: %v", step, what, key, err)
		}
	}
	entries, _, err := d.List(p.t.Context(), ListOptions{})
	if err != nil {
		p.t.Fatalf("after step %d%s: %v", step, what, err)
	}
	for _, e := range entries {
		if p.values[e.Key] == nil {
			p.t.Fatalf("after step %d%s: %s is listed", step, what, e.Key)
		}
	}
	if p.journals {
		p.successor(dir, d, fmt.Sprintf("after step %d%s", step, what))
	}
	if err := putString(p.t, d, "after", "x"); err != nil {
		p.t.Fatalf("after step %d%s: %v", step, what, err)
	}
	if left := tempFiles(p.t, dir); len(left) != 0 {
		p.t.Fatalf("after step %d%s: temporary files %q remain", step, what, left)
	}
}

// crashes checks the remainders after each step, at most some images of each.
func (p *tape) crashes(most int) (tried int) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir := filepath.Join(memoryDir(p.t), "left")
	try := func(step int, happened map[int]bool, fate int) {
		must.NoError(p.t, errors.Join(os.RemoveAll(dir), p.remains(dir, step, happened, diskFates[fate])))
		p.check(dir, step, fmt.Sprintf(" (%d of %d names, fate %d)", len(happened), len(p.open(step)), fate))
		tried++
	}
	for step := 1; step <= p.step; step += sebtest.Runs(1, 4) {
		choices := p.open(step)
		all := len(diskFates) << min(len(choices), 20)
		for i := range min(all, most) {
			if all > most {
				i = rng.IntN(all)
			}
			happened := map[int]bool{}
			for b, c := range choices {
				if i/len(diskFates)>>b&1 != 0 {
					happened[c] = true
				}
			}
			try(step, happened, i%len(diskFates))
		}
		try(step, nil, 1)
	}
	return tried
}

// script uses two stores on one folder: new folders, concurrent moves, a folder that the other
// created, deletes that remove folders, a taken name. Errors end only their call.
func (p *tape) script(calls func(*diskCalls)) {
	one, two := tempDisk(p.t, p.dir), tempDisk(p.t, p.dir)
	for _, d := range []*Disk{one, two} {
		calls(&d.calls)
		p.watch(d)
	}
	p.look()
	_ = p.put(one, "a/b/1", "first value")
	_ = p.put(one, "a/b/2", strings.Repeat("second", 50))
	_ = p.put(two, "top", "t")
	_ = p.put(two, "a/b/1", "another first value")
	// The second store puts the same name, and another one into the same new folder, during the put
	// of the first.
	for _, within := range []string{"n/m/x", "n/m/y", "n/n/x"} {
		sync, once := one.calls.folderSync, false
		one.calls.folderSync = func(f *os.File) error {
			if !once {
				once = true
				_ = p.put(two, within, "value of two")
				_ = p.put(two, within+"2", "other value of two")
			}
			return sync(f)
		}
		// The value of the first put is the object's.
		p.values[within] = nil
		if err := p.put(one, within, "value of one"); err == nil || errors.Is(err, ErrExists) {
			p.settle(one, within)
		}
		one.calls.folderSync = sync
	}
	_ = p.delete(one, "a/b/1", "a/b/2", "n/m/x")
	_ = p.put(two, "a/b/3", "the folder is a new one")
	_ = p.put(one, "a/b/4", "and so for the other")
	_ = p.put(one, "a/b/5", "known by now")
}

// settle fixes the promise for a key that two puts named: the value that exists.
func (p *tape) settle(d *Disk, key string) {
	got := must.Get(readString(p.t, d, key))(p.t)
	for i := range p.promises {
		if x := &p.promises[i]; x.key == key && !x.deleted {
			x.value = got
		}
	}
}

// TestPowerFailures stops the machine at every step of the calls. An object that was acknowledged,
// or reported as existing, is complete. Any other object is complete or absent. Nothing else is
// listed.
func TestPowerFailures(t *testing.T) {
	t.Parallel()
	most := sebtest.Runs(6, 1)
	if *allImages {
		most = 1000
	}
	for name, calls := range map[string]func(*diskCalls){
		"rename": func(*diskCalls) {}, "link": func(c *diskCalls) { c.move = linkNoReplace }, "staged": func(*diskCalls) {},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTape(t, memoryDir(t))
			p.staged = name == "staged"
			p.script(calls)
			if n := len(p.at(p.step)); n < 8 {
				t.Fatalf("%d objects at the end", n)
			}
			t.Logf("%d steps, %d images", p.step, p.crashes(most))
		})
	}
}

// TestPowerFailuresAfterErrors fails every call in turn. Then the machine stops at the end, with
// all or nothing of the unsynced changes.
func TestPowerFailuresAfterErrors(t *testing.T) {
	sebtest.Long(t, "TestPowerFailures and TestJournalPowerFailures remain")
	t.Parallel()
	t.Run("put", func(t *testing.T) { failEach(t, false) })
	t.Run("staged", func(t *testing.T) { failEach(t, true) })
}

func failEach(t *testing.T, staged bool) {
	steps := func() int {
		p := newTape(t, memoryDir(t))
		p.staged = staged
		p.script(func(*diskCalls) {})
		return p.step
	}()
	stride := sebtest.Runs(5, 61)
	if *allImages {
		stride = 1
	}
	for at := 1; at <= steps; at += stride {
		fault := []error{unix.EIO, unix.ENOSPC, unix.EMFILE}[at/3%3]
		p := newTape(t, memoryDir(t))
		p.staged = staged
		p.fail = func(step int) error {
			if step == at {
				return fault
			}
			return nil
		}
		p.script(func(*diskCalls) {})
		for i, happened := range []map[int]bool{nil, {}} {
			if i == 1 {
				for _, c := range p.open(p.step) {
					happened[c] = true
				}
			}
			dir := filepath.Join(memoryDir(t), "left")
			must.NoError(t, p.remains(dir, p.step, happened, diskFates[1+at%3]))
			p.check(dir, p.step, fmt.Sprintf(" (%v at step %d)", fault, at))
		}
	}
	t.Logf("%d steps", steps)
}
