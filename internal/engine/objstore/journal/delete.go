package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
)

// lockedNames is how many names deleteFrames handles before it unlocks Journal.mu. A flush that needs the
// lock then gets it while it still spins. A goroutine that sleeps for a lock runs again only after
// all goroutines that are ready.
const lockedNames = 64

// deleteFrames removes names of the journal; a missing name is no error. A journal file is removed
// when its run has left it and every object in it was deleted.
func (j *Journal) deleteFrames(keys []string) error {
	if j.foreign() { // it may have more names, and names that were put again
		if err := j.refresh(); err != nil {
			return err
		}
	}
	j.deleting.Lock()
	defer j.deleting.Unlock()
	found, stones := j.tombstones(keys)
	for _, number := range slices.Sorted(maps.Keys(stones)) {
		if err := j.appendGone(number, stones[number]); err != nil {
			return err
		}
	}
	existing := slices.Sorted(maps.Keys(found))
	for _, key := range existing {
		if found[key].large {
			if err := j.remove(j.large(key)); err != nil {
				return err
			}
		}
	}
	for part := range slices.Chunk(existing, lockedNames) {
		j.mu.Lock()
		for _, key := range part {
			if o, _ := j.objects.get(key); o == found[key] { // else it was put meanwhile, and has no tombstone
				j.dropLocked(key)
			}
		}
		j.mu.Unlock()
	}
	return j.sweepDeleting()
}

// appendGone appends tombstones of a journal file. If another process has removed the file and its
// tombstones, nothing would ever remove the new ones, so they are removed.
func (j *Journal) appendGone(number uint64, stones []byte) error {
	name := j.goneName(number)
	if err := j.sys.Append(name, stones); err != nil {
		return fmt.Errorf("append to %s: %w", name, err)
	}
	failpoint.Hit("journal.gone")
	exists, err := j.sys.Exists(j.fileName(number))
	if err == nil && !exists {
		err = j.remove(name)
	}
	return err
}

// Sweep removes journal files that a killed process has not removed after it had deleted their
// objects.
func (j *Journal) Sweep() error {
	j.deleting.Lock()
	defer j.deleting.Unlock()
	return j.sweepDeleting()
}

// tombstones returns the objects of names that exist, and their tombstones for each journal file.
func (j *Journal) tombstones(keys []string) (found map[string]object, stones map[uint64][]byte) {
	found, stones = map[string]object{}, map[uint64][]byte{}
	for part := range slices.Chunk(keys, lockedNames) {
		j.mu.Lock()
		for _, key := range part {
			if o, ok := j.objects.get(key); ok {
				found[key] = o
				stones[o.file.number] = appendGone(stones[o.file.number], o.batch, key)
			}
		}
		j.mu.Unlock()
	}
	return found, stones
}

// sweepDeleting removes the journal files that nothing needs. The caller holds deleting.
func (j *Journal) sweepDeleting() error {
	if j.foreign() {
		if err := j.readAllGone(); err != nil {
			return err
		}
	}
	unneeded := func(f *file) bool { return f.left && f.live == 0 && !j.damagedLocked(f) }
	j.mu.Lock()
	some := slices.ContainsFunc(j.files, unneeded)
	j.mu.Unlock()
	if !some {
		return nil
	}
	keep, err := j.unpassed()
	if err != nil {
		return err
	}
	j.mu.Lock()
	var empty []uint64
	for _, f := range j.files {
		if f.number < keep && unneeded(f) {
			empty = append(empty, f.number)
		}
	}
	j.mu.Unlock()
	for _, number := range empty {
		if err := j.leave(number); err != nil {
			return err
		}
		// The file goes first: a file without its tombstones would have all its objects again.
		if err := j.remove(j.fileName(number)); err != nil {
			return err
		}
		failpoint.Hit("journal.removed")
		if err := j.remove(j.goneName(number)); err != nil {
			return err
		}
		j.mu.Lock() // after an error the next sweep finds it again
		j.files = slices.DeleteFunc(j.files, func(f *file) bool { return f.number == number })
		j.mu.Unlock()
	}
	return nil
}

func (j *Journal) remove(name string) error {
	if err := j.sys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// readAllGone reads the new tombstones of all files. The caller holds deleting.
func (j *Journal) readAllGone() error {
	j.mu.Lock()
	files := slices.Clone(j.files)
	j.mu.Unlock()
	for _, f := range files {
		if err := j.readGone(f); err != nil {
			return err
		}
	}
	return nil
}

// readGone applies the tombstones of a file that were appended since the last look. The caller
// holds deleting.
func (j *Journal) readGone(f *file) error {
	// This comes first: after the removal of a file and its tombstones, a process that does not know
	// of it may have appended new tombstones.
	if err := j.readRemoved(f); err != nil {
		return err
	}
	name := j.goneName(f.number)
	size, err := j.sys.Size(name)
	if errors.Is(err, fs.ErrNotExist) {
		return j.readRemoved(f)
	}
	if err != nil || size <= f.gone {
		return err
	}
	g, err := j.sys.Open(name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return j.readRemoved(f)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer g.Close()
	b := make([]byte, size-f.gone)
	n, err := g.ReadAt(b, f.gone)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	f.gone += int64(decodeGone(b[:n], func(batch int64, key string) { j.deletedLocked(f, batch, key) }))
	return nil
}

func (j *Journal) deletedLocked(f *file, batch int64, key string) {
	if o, ok := j.objects.get(key); ok && o.file == f && o.batch == batch {
		j.dropLocked(key)
		return
	}
	if !(Position{f.number, batch}).Before(j.pos) {
		if f.early == nil {
			f.early = map[tombstone]bool{}
		}
		f.early[tombstone{batch, key}] = true
	}
}

// readRemoved drops the objects of a file that was removed because all of them were deleted.
func (j *Journal) readRemoved(f *file) error {
	exists, err := j.sys.Exists(j.fileName(f.number))
	if err != nil || exists {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range j.objects.names(func(o object) bool { return o.file == f }) {
		j.dropLocked(key)
	}
	return nil
}

// damagedLocked reports whether a part of a file cannot be read. Objects that are not deleted may be
// there, so the file stays.
func (j *Journal) damagedLocked(f *file) bool {
	return slices.ContainsFunc(j.damage, func(d Damage) bool { return d.Loses() && d.Position.File == f.number })
}
