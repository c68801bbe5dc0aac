package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/objstore/watermark"
)

// PositionFile is the name of the file with the position behind the last stored batch of a claimed
// folder (J12). It is not in the folder Files, so that it survives the loss of that folder.
func PositionFile(folder string) string { return folder + "+position" }

// evidence is what the position file of a journal proves. The file exists from the time at which the
// first journal file is durable until the end has a name.
type evidence struct {
	exists bool
	valid  bool // run and at are known; a power failure can leave a file without a record
	run    Run
	at     Position // behind the last batch that is known to be stored
}

const positionBytes = 32 // of a record: the run, the number of the file, the offset

func appendPosition(dst []byte, run Run, at Position) []byte {
	dst = append(dst, run[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, at.File)
	return binary.LittleEndian.AppendUint64(dst, uint64(at.Offset))
}

func decodePosition(content []byte) (run Run, at Position, ok bool) {
	record, ok := watermark.Decode(content)
	if !ok || len(record) != positionBytes {
		return run, at, false
	}
	at = Position{File: binary.LittleEndian.Uint64(record[16:]), Offset: int64(binary.LittleEndian.Uint64(record[24:]))}
	return Run(record[:16]), at, at.File > 0 && at.Offset >= 0
}

// readEvidence reads the position file. A reader calls it before it reads batches, so that every batch
// before the position is there when it looks for it.
func readEvidence(sys System, folder string) (e evidence, err error) {
	content, err := sys.ReadFile(PositionFile(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return e, fmt.Errorf("read %s: %w", PositionFile(folder), err)
	}
	e.exists = true
	e.run, e.at, e.valid = decodePosition(content)
	return e, nil
}

// record advances the position behind a batch that is synced, and after which the owner has looked for
// the mark without finding it. So every end that a process names lies at or behind the position.
func (j *Journal) record(o *owner, at Position) error {
	o.record = appendPosition(o.record[:0], j.run, at)
	if err := o.position.Set(o.record); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrOver, PositionFile(j.folder), err)
	}
	failpoint.Hit("journal.recorded")
	return nil
}

// judge looks for damage behind the last batch of a journal without an end (J12), and goes behind
// it. Before an end has a name no process removes the file in which the batches end.
func (r *reader) judge(e evidence) error {
	ok, err := r.open()
	if err != nil {
		return err
	}
	from := r.pos
	if from.File == 0 {
		from = Position{File: 1}
	}
	passed, err := r.passed(e, from)
	if err != nil {
		return err
	}
	to, why := from, ""
	switch {
	case !passed:
		from, to, why = Position{File: e.at.File}, e.at, "the file is missing"
	case e.valid && e.run == r.j.run && from.Before(e.at):
		to, why = e.at, fmt.Sprintf("the journal was stored to %v", e.at)
	case r.ended:
	case from == Position{File: 1} && !e.exists:
		// Its process was perhaps killed before the first file was complete.
	case !ok:
		to.Offset, why = from.Offset+BlockBytes, "the file is missing"
	default:
		n, err := r.cut()
		if err != nil {
			return err
		}
		to.Offset, why = from.Offset+n, "the file was cut off"
	}
	r.close()
	if from == to || r.reported(from, from) {
		return nil
	}
	r.pos = to
	if r.reported(from, to) {
		return nil
	}
	before := len(r.damage)
	r.damaged(from, to)
	for i := range r.damage[before:] {
		r.damage[before+i].Why = why
	}
	return nil
}

// passed reports whether the owner can have left the file of the position. pos is in a later file without
// a batch; if the earlier one is missing without having been left, the later one was only prepared.
func (r *reader) passed(e evidence, pos Position) (bool, error) {
	if r.ended || !e.valid || e.run != r.j.run || e.at.File >= pos.File || pos.Offset > 0 {
		return true, nil
	}
	name := r.j.fileName(e.at.File)
	exists, err := r.j.sys.Exists(name)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", name, err)
	}
	if exists {
		return true, nil
	}
	again, err := readEvidence(r.j.sys, r.j.folder) // it leaves a file before that is removed
	return again.at != e.at, err
}

// cut returns how many bytes behind pos are missing at the end of the open file, or were before it was
// cut off; 0 if it was not. Behind the last batch there is always space for an end mark, and a batch
// begins only where the whole of it and an end mark fit.
func (r *reader) cut() (int64, error) {
	h, err := r.read(r.pos.Offset, BlockBytes)
	if err != nil {
		return 0, err
	}
	if len(h) < BlockBytes {
		return BlockBytes, nil
	}
	n, err := headLength(h, r.j.run, r.pos)
	if err != nil {
		return 0, nil
	}
	if n > BlockBytes {
		if h, err = r.read(r.pos.Offset, n); err != nil {
			return 0, err
		}
		if int64(len(h)) < n {
			return padded(n), nil
		}
	}
	b, err := decodeHead(h[:n], r.pos)
	if err != nil || b.next() <= r.size {
		return 0, nil
	}
	return padded(b.length), nil
}

// reported says whether known damage has a part in it, or ends where the empty part from, from is.
func (r *reader) reported(from, to Position) bool {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	return slices.ContainsFunc(slices.Concat(r.j.damage, r.damage), func(d Damage) bool {
		end := Position{d.Position.File, d.Offset + d.Bytes}
		if from == to {
			return d.Loses() && end == from
		}
		return d.Loses() && d.Position.File == to.File && !from.Before(d.Position) && !end.Before(to)
	})
}

// unpassed returns the number of the first journal file that may not be removed: the one of the
// position. The position is durable then, so that the removal does not outlive it.
func (j *Journal) unpassed() (uint64, error) {
	if j.Ended() {
		return math.MaxUint64, nil
	}
	e, err := readEvidence(j.sys, j.folder)
	if err != nil || !e.valid {
		return math.MaxUint64, err
	}
	f, err := j.sys.Open(PositionFile(j.folder), false)
	if errors.Is(err, fs.ErrNotExist) { // the journal has ended
		return math.MaxUint64, nil
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return 0, fmt.Errorf("sync %s: %w", PositionFile(j.folder), err)
	}
	return e.at.File, nil
}

// keep makes sure that readers of an ended journal find the damage before its end: a missing file means to
// them that its objects were deleted. So an empty file takes its place.
func (j *Journal) keep(end Position) error {
	if end.Offset == 0 {
		return nil
	}
	name := j.fileName(end.File)
	if err := j.sys.PutFile(name, nil); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("put %s: %w", name, err)
	}
	return nil
}

// release compares the position with the end that was named, and removes its file. A program that does
// not know positions may have ended a damaged journal before its damage: then the file stays.
func (j *Journal) release(r *reader, end Position) error {
	e, err := readEvidence(j.sys, j.folder)
	if err != nil || !e.exists {
		return err
	}
	if r != nil && e.valid && e.run == j.run && end.Before(e.at) {
		if !r.reported(end, e.at) {
			r.damaged(end, e.at)
		}
		return nil
	}
	_ = j.sys.Remove(PositionFile(j.folder)) // if that fails, the next process removes it
	return nil
}
