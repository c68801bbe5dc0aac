package journalsim

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/internal/engine/objstore/watermark"
	"github.com/sebbroker/seb/test/must"
)

// scenario runs a script without faults, in which processes act one after the other. The checker
// compares their answers.
func scenario(t *testing.T, script func(w *World)) {
	t.Helper()
	var err error
	synctest.Test(t, func(*testing.T) {
		w := newWorld(Config{
			Large: 1 << 20, BodyMax: 1, Medium: true,
			Journal: journal.Options{FirstBytes: 4 * journal.BlockBytes, FileBytes: 4 * journal.BlockBytes, GroupBytes: journal.BlockBytes},
		}, nil)
		w.calm, w.epochs = true, 1
		w.start().task("act", func() { script(w) })
		w.spin(func() bool { return false })
		for _, p := range append([]*Process(nil), w.living()...) {
			w.kill(p)
		}
		err = w.err
	})
	must.NoError(t, err)
}

// fill claims epoch 1 and puts slots of two blocks each; a file of four blocks has one of them.
func fill(t *testing.T, w *World, slots int) *Process {
	p := w.start()
	must.NoError(t, p.store.claim(epoch(1)))
	for n := range slots {
		must.NoError(t, p.put(epoch(1), slot(n+1), strings.Repeat("x", journal.BlockBytes), 0))
		must.NoError(t, p.put(epoch(1), slot(n+1)+"-small", "slot", 0))
	}
	return p
}

// A process that has not noticed the removal of a file deletes a name of it, and so writes a new
// file of tombstones. The other names of the file stay deleted.
func TestTombstoneAfterTheRemovalOfItsFile(t *testing.T) {
	scenario(t, func(w *World) {
		one, two := fill(t, w, 3), w.start()
		_, _ = two.list(epoch(1))
		files := func() string {
			n := must.Get(w.disk.lookup(journal.Files(epoch(1))))(t)
			return strings.Join(n.list(), " ")
		}
		before := files()
		one.delete(epoch(1), slot(1), slot(1)+"-small", slot(2))
		if after := files(); strings.Contains(after, "00000001") || !strings.Contains(before, "00000001") {
			t.Errorf("files %s, then %s: want the first one removed", before, after)
		}
		two.delete(epoch(1), slot(1))
		if names, err := two.list(epoch(1)); err != nil || len(names) != 3 {
			t.Errorf("LIST after the deletes: %v, %v", names, err)
		}
		if after := files(); strings.Contains(after, "00000001") {
			t.Errorf("tombstones without a file: %s", after)
		}
	})
}

// An object is deleted and put again. A process that knows only the first one deletes the name, so the
// second one is deleted.
func TestDeleteOfANameThatWasPutAgain(t *testing.T) {
	scenario(t, func(w *World) {
		one, two := fill(t, w, 1), w.start()
		two.get(epoch(1), slot(1))
		one.delete(epoch(1), slot(1))
		must.NoError(t, one.put(epoch(1), slot(1), "again", 0))
		two.delete(epoch(1), slot(1))
		for _, p := range []*Process{one, two} {
			p.get(epoch(1), slot(1)) // the checker compares it
		}
	})
}

// A power failure loses the tombstone of an object, after another one of its name was put as a file.
// Until the file is deleted, every process reads it and not the older object: also between any two
// steps of the delete or of the reader, and if the deleting process is killed there.
func TestOlderObjectStaysHidden(t *testing.T) {
	scenario(t, func(w *World) {
		folder, name := epoch(1), slot(1)
		one := fill(t, w, 2)
		one.delete(folder, name)
		must.NoError(t, one.store.close(folder))
		must.NoError(t, w.start().put(folder, name, "newer", 0))
		must.NoError(t, w.disk.unlink(journal.Files(folder)+"/00000001.gone"))
		read := func(p *Process) { p.get(folder, name) }
		remove := func(p *Process) { p.delete(folder, name) }
		for what, c := range map[string]struct {
			do, between func(*Process)
			killed      bool
		}{
			"read during a delete": {remove, read, true}, "delete during a read": {read, remove, false},
		} {
			for at, more := 1, true; more; at++ {
				v := w.still(w.disk.fail(&kept{}))
				p, other, steps := v.start(), v.start(), 0
				read(other) // it knows the journal
				v.before = func(by *Process, _ string) {
					if by != p {
						return
					}
					if steps++; steps == at {
						c.between(other)
						p.dead = c.killed
						read(v.start())
					}
				}
				c.do(p)
				c.do(other)
				if more = steps >= at; v.err != nil {
					t.Fatalf("%s, step %d: %v", what, at, v.err)
				}
			}
		}
	})
}

// A process lists the folder of the journal while its files are created, so the listing may have any of
// them. Afterwards the process knows every object.
func TestListingWhileFilesAreCreated(t *testing.T) {
	scenario(t, func(w *World) {
		fill(t, w, 4)
		for range 40 {
			v := w.still(w.disk.fail(&kept{}))
			files := must.Get(v.disk.lookup(journal.Files(epoch(1))))(t)
			created := files.names
			files.names = nil
			v.before = func(_ *Process, step string) {
				if strings.HasSuffix(step, "+journal ends") {
					files.names = created
				}
			}
			p := v.start()
			must.Get2(p.store.list(epoch(1)))(t)
			if p.verify(epoch(1), false); v.err != nil {
				t.Fatal(v.err)
			}
		}
	})
}

// Between the look of a reader at the position and its listing, the owner leaves its file, and another
// process removes the file, because its objects were deleted. That is no damage.
func TestFileIsRemovedWhileAReaderStarts(t *testing.T) {
	scenario(t, func(w *World) {
		fill(t, w, 1)
		v := w.still(w.disk.fail(&kept{}))
		files := journal.Files(epoch(1))
		position := must.Get(v.disk.lookup(journal.PositionFile(epoch(1))))(t)
		content := make([]byte, watermark.FileBytes)
		position.read(content, 0)
		record, _ := watermark.Decode(content)
		v.before = func(_ *Process, step string) {
			if step != "readdir "+files {
				return
			}
			v.before = nil
			next := must.Get(v.disk.lookup(files + "/00000002"))(t) // is being prepared
			next.size.add(4 * journal.BlockBytes)
			must.NoError(t, v.disk.unlink(files+"/00000001"))
			position.write(watermark.Encode(1000, slices.Concat(record[:16], []byte{2, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 8))))
		}
		p := v.start()
		must.Get2(p.store.list(epoch(1)))(t)
		if named := p.store.named(epoch(1)); v.before != nil || len(named) > 0 {
			t.Errorf("the reader names %v", named)
		}
	})
}
