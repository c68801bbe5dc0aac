package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
)

// endForeign ends a journal that another process owns or has owned.
func (j *Journal) endForeign() error {
	j.scanning.Lock()
	defer j.scanning.Unlock()
	if j.Ended() {
		return nil
	}
	return j.endScanning()
}

// endScanning makes the mark, reads the journal to its last batch, names the end there unless
// another process has named it, and reads to the named end. The mark is durable before the journal is
// read, and the last batch is durable before the end is named behind it.
func (j *Journal) endScanning() error {
	if err := j.mark(); err != nil {
		return err
	}
	r := j.reader()
	defer r.close()
	late, err := j.lateKeys("", "") // comes first: the end had a name when they were put
	if err != nil {
		return err
	}
	e, err := readEvidence(j.sys, j.folder) // its file is removed only after the end has a name
	if err != nil {
		return err
	}
	end, err := j.readEnd()
	if errors.Is(err, fs.ErrNotExist) && len(late) > 0 && !e.exists {
		return j.endUnnamed(r, errors.New("the file is missing"))
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := r.all(); err != nil {
			return err
		}
		return j.endAt(r, r.pos)
	}
	if errors.Is(err, ErrDamaged) {
		return j.endUnnamed(r, err)
	}
	if err != nil {
		return err
	}
	return j.finish(r, end)
}

// nameEnd ends the own journal behind its last synced batch. The caller holds the flush.
func (j *Journal) nameEnd(known Position) error {
	j.scanning.Lock()
	defer j.scanning.Unlock()
	if err := j.mark(); err != nil {
		return err
	}
	return j.endAt(nil, known)
}

// endAt names the end unless it has a name, and takes the one that was named first.
func (j *Journal) endAt(r *reader, at Position) error {
	err := j.sys.PutFile(j.endName(), encodeEnd(j.run, at))
	switch {
	case errors.Is(err, fs.ErrExist):
		if r != nil { // it may have taken for damage what another process has cut off or removed
			r.restart()
		}
	case err != nil:
		return fmt.Errorf("put %s: %w", j.endName(), err)
	case r != nil && slices.ContainsFunc(slices.Concat(j.Damage(), r.damage), Damage.Loses):
		if err := j.keep(at); err != nil {
			return err
		}
	}
	failpoint.Hit("journal.ended")
	end, err := j.readEnd()
	if err != nil {
		return err
	}
	return j.finish(r, end)
}

func (j *Journal) readEnd() (Position, error) {
	content, err := j.sys.ReadFile(j.endName())
	if err != nil {
		return Position{}, fmt.Errorf("read %s: %w", j.endName(), err)
	}
	end, ok := decodeEnd(content, j.run)
	if !ok {
		return Position{}, fmt.Errorf("%w: not the end of run %s", ErrDamaged, j.run)
	}
	return end, nil
}

// finish makes the index what lies before the end, and frees what is behind it.
func (j *Journal) finish(r *reader, end Position) error {
	if r != nil { // the owner knows its batches
		r.found = slices.DeleteFunc(r.found, func(b *batch) bool { return !b.at.Before(end) })
		if err := r.until(end); err != nil {
			return err
		}
		if err := r.findLast(end); err != nil {
			return err
		}
	}
	if err := j.release(r, end); err != nil {
		return err
	}
	if err := j.adopt(r, end); err != nil {
		return err
	}
	j.removeBehind(end)
	j.truncate(end)
	return nil
}

// lastFile is the number of the file in which a journal ends; 0: no batch is in it.
func lastFile(end Position) uint64 {
	if end.Offset == 0 {
		return 0
	}
	return end.File
}

// emptied is the file that is put before the last file is removed.
func (j *Journal) emptied() string { return Late(j.folder) + "/+emptied" }

// leave notes durably that the last file is removed because its objects were deleted.
func (j *Journal) leave(number uint64) error {
	if end, ended := j.ending(); !ended || number != lastFile(end) {
		return nil
	}
	if err := j.sys.PutFile(j.emptied(), nil); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("put %s: %w", j.emptied(), err)
	}
	return nil
}

// findLast looks for the last file. It is lost if no process has noted that it removes it. Programs
// that do not write that note removed only files of epochs that a late name has ended.
func (r *reader) findLast(end Position) error {
	last := lastFile(end)
	if last == 0 {
		return nil
	}
	for _, name := range []string{r.j.fileName(last), r.j.emptied()} { // the note comes before the removal
		exists, err := r.j.sys.Exists(name)
		if err != nil {
			return fmt.Errorf("look for %s: %w", name, err)
		}
		if exists {
			return nil
		}
	}
	late, err := r.j.lateKeys("", "")
	if err != nil || len(late) > 0 {
		return err
	}
	from := Position{File: last}
	to := Position{File: last, Offset: max(end.Offset, BlockBytes)}
	if !r.reported(from, to) {
		r.damage = append(r.damage, Damage{
			Position: from, File: r.j.fileName(last), Bytes: to.Offset, What: "batch", Why: "the file is missing",
		})
	}
	return nil
}

// adopt makes the index what a reader has found up to the end; r is nil for the owner.
func (j *Journal) adopt(r *reader, end Position) error {
	if r != nil {
		if err := j.take(r); err != nil {
			return err
		}
	}
	j.mu.Lock()
	for _, key := range j.objects.names(func(o object) bool { return !Position{o.file.number, o.batch}.Before(end) }) {
		j.dropLocked(key)
	}
	if j.own == nil { // else the batch of the running flush is not in the index yet
		j.leaveLocked()
	}
	j.pos, j.end = end, &end
	j.mu.Unlock()
	return nil
}

// leaveLocked notes that nothing is appended to any file. The index has every object before the end.
func (j *Journal) leaveLocked() {
	for _, f := range j.files {
		f.left = true
	}
}

// removeBehind removes the files behind the end, which were prepared or written too late. Errors are
// ignored: the files only take space.
func (j *Journal) removeBehind(end Position) {
	names, _ := j.sys.ReadFolder(Files(j.folder))
	for _, name := range names {
		if n, ok := fileNumber(name); ok && n > end.File {
			_ = j.sys.Remove(j.fileName(n))
		}
	}
}

// truncate cuts the last file a block behind the end, if it has zeros there. With this block it is whole
// (J12) also if the file of the end is lost, so that the end can be named again. Other bytes are a batch
// that was not finished, or a damaged one, which a person may want to look at. A stopped owner can append
// one batch behind the end afterwards; it finds the mark before it answers (J4).
func (j *Journal) truncate(end Position) {
	name := j.fileName(end.File)
	if size, err := j.sys.Size(name); err != nil || size <= end.Offset+BlockBytes {
		return
	}
	f, err := j.sys.Open(name, false)
	if err != nil {
		return
	}
	defer f.Close()
	var block [BlockBytes]byte
	if _, err := f.ReadAt(block[:], end.Offset); err != nil && !errors.Is(err, io.EOF) || block != [BlockBytes]byte{} {
		return
	}
	_ = j.sys.Truncate(name, end.Offset+BlockBytes)
}

// endUnnamed ends a journal whose end was named and cannot be read, behind its last batch. Nothing
// before the end is lost by that. A batch behind the end holds only names that were never answered,
// and the files that were put after the end replace them.
func (j *Journal) endUnnamed(r *reader, why error) error {
	r.ended = true
	if err := r.all(); err != nil {
		return err
	}
	r.damage = append(r.damage, Damage{File: j.endName(), What: "end", Why: why.Error()})
	return j.adopt(r, r.pos)
}
