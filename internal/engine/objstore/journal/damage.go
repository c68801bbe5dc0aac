package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Damage is a part of a journal that cannot be read. As an error it names the part.
type Damage struct {
	Position        // of damaged batches
	File     string // relative to the root of the bucket
	Bytes    int64  // of damaged batches, with the zeros between them
	What     string // "batch", "claim" or "end"
	Why      string // of a claim or an end, and of batches if it is more than their content
}

// Loses reports whether objects may be in the part. A claim and an end hold none.
func (d Damage) Loses() bool { return d.What == "batch" }

func (d Damage) Error() string {
	if !d.Loses() {
		return fmt.Sprintf("%s: %s is damaged: %s", d.File, d.What, d.Why)
	}
	text := fmt.Sprintf("%s: %d bytes at offset %d are damaged", d.File, d.Bytes, d.Offset)
	if d.Why != "" {
		text += ": " + d.Why
	}
	return text
}

// lostError is ErrDamaged with the part that the object may be in.
type lostError struct{ Damage }

func (e lostError) Error() string        { return e.Damage.Error() + ", and the object may be there" }
func (e lostError) Is(target error) bool { return target == ErrDamaged }

// Damage returns the parts of the journal that cannot be read, as far as the index reaches.
func (j *Journal) Damage() []Damage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.damage)
}

// Check reads what was appended, and returns the parts that cannot be read. The owner, which answers
// from memory, reads its journal like another process.
func (j *Journal) Check() ([]Damage, error) {
	if !j.foreign() {
		other, err := Open(j.sys, j.folder)
		if err != nil {
			return nil, err
		}
		return other.Check()
	}
	if err := j.refresh(); err != nil {
		return nil, err
	}
	return j.Damage(), nil
}

// resync looks for batches behind the place where tail found none. If there is one, what lies
// between is damaged: an owner writes a batch only when the one before is durable.
func (r *reader) resync() error {
	for {
		at := r.pos
		found, err := r.search(nil)
		behind := r.pos
		r.close()
		r.pos = at
		if err != nil || !found {
			return err
		}
		// A running owner may have written both batches after the last look.
		if err := r.tail(); err != nil {
			return err
		}
		if at.Before(r.pos) {
			continue
		}
		r.damaged(at, behind)
		r.close()
		r.pos = behind
		if err := r.tail(); err != nil {
			return err
		}
	}
}

// damaged records that no batch between two positions can be read.
func (r *reader) damaged(from, to Position) {
	d := Damage{Position: from, File: r.j.fileName(from.File), Bytes: to.Offset - from.Offset, What: "batch"}
	if to.File == from.File {
		r.damage = append(r.damage, d)
		return
	}
	if size, err := r.j.sys.Size(d.File); err == nil { // else the file was removed meanwhile
		d.Bytes = max(size-from.Offset, BlockBytes) // at least its end mark was there
		r.damage = append(r.damage, d)
	}
	if to.Offset > 0 {
		r.damaged(Position{File: to.File}, to)
	}
}

// claimError says why the claim of a folder with journal files cannot be read.
type claimError string

func (e claimError) Error() string { return string(e) }

const claimMissing claimError = "the file is missing"

// openUnclaimed opens a journal whose claim cannot be read. Only one run ever writes into the files
// of a folder, so any batch that is valid at its place names the run.
func openUnclaimed(sys System, folder string, why error) (*Journal, error) {
	j := newJournal(sys, folder, Run{})
	j.damage = []Damage{{File: folder, What: "claim", Why: why.Error()}}
	e, err := readEvidence(sys, folder)
	if err != nil {
		return nil, err
	}
	found, err := j.findRun()
	if err != nil {
		return nil, err
	}
	r := j.reader()
	if err := r.list(); err != nil {
		return nil, err
	}
	switch {
	case found:
	case e.valid: // it says how far batches were stored
		j.run = e.run
	case len(r.numbers) > 0:
		r.damaged(Position{File: r.numbers[0]}, Position{File: r.numbers[0] + 1})
		j.damage = append(j.damage, r.damage...)
	case why == claimMissing && !e.exists:
		return j, j.neverClaimed()
	}
	return j, nil
}

// neverClaimed notes that the claim is missing without damage: another process has read it before it
// was durable, and made the mark, and a power failure has left the mark alone. An end, if there is
// one, then names no run.
func (j *Journal) neverClaimed() error {
	_, err := j.readEnd()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		j.damage = nil
		return nil
	}
	if errors.Is(err, ErrDamaged) { // the end of a run
		return nil
	}
	return err
}

// findRun takes the run from the first valid batch.
func (j *Journal) findRun() (bool, error) {
	r := j.reader()
	defer r.close()
	for {
		ok, err := r.open()
		if !ok || err != nil {
			return false, err
		}
		for at := int64(0); at < r.size; at += searchBytes {
			bytes, err := r.read(at, searchBytes)
			if err != nil {
				return false, err
			}
			if found, err := r.findRunIn(slices.Clone(bytes), at); found || err != nil {
				return found, err
			}
		}
		j.run = Run{}
		r.leave()
	}
}

// findRunIn looks at the blocks of the open file that begin at an offset.
func (r *reader) findRunIn(bytes []byte, at int64) (bool, error) {
	for i := 0; i+headBytes <= len(bytes); i += BlockBytes {
		r.j.run = Run(bytes[i+8 : i+24])
		if _, err := headLength(bytes[i:], r.j.run, Position{r.pos.File, at + int64(i)}); err != nil {
			continue
		}
		if b, err := r.head(at + int64(i)); b != nil || err != nil {
			return b != nil, err
		}
	}
	return false, nil
}
