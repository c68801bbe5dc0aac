package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/record"
)

// A bucket in a folder keeps several objects in a journal file. These files have no keys.

// isJournal reports whether a path is a file of a journal: the claim of a folder, its end or position, a
// file with batches, or one with tombstones.
func isJournal(name string) bool {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return false
	}
	if strings.HasSuffix(filepath.Dir(name), journal.Files("")) || strings.HasSuffix(name, journal.EndFile("")) || strings.HasSuffix(name, journal.PositionFile("")) {
		return true
	}
	if info, err := os.Stat(journal.Files(name)); err == nil && info.IsDir() {
		return true // a claim, whatever it holds
	}
	b, err := os.ReadFile(name)
	_, ok := journal.DecodeClaim(b[:min(int64(len(b)), journal.ClaimBytes)])
	return err == nil && ok
}

// journal prints a file of a journal.
func (d *dump) journal(name string) error {
	if strings.HasSuffix(filepath.Dir(name), journal.Files("")) {
		if file, ok := strings.CutSuffix(name, ".gone"); ok {
			return d.tombstones(file)
		}
		return d.journalFile(name)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if filepath.Base(name) == "+end" {
		run, end, ok := journal.DecodeEnd(b)
		if !ok {
			return fmt.Errorf("%w: not the end of a journal", record.ErrCorrupt)
		}
		d.line("end of the journal of run %s: batches from offset %d of file %08d on do not exist", run, end.Offset, end.File)
		return nil
	}
	if strings.HasSuffix(name, journal.PositionFile("")) {
		if run, at, ok := journal.DecodePosition(b); ok {
			d.line("position of run %s: batches up to offset %d of file %08d were stored", run, at.Offset, at.File)
		} else {
			d.line("position of a journal: none is recorded")
		}
		return nil
	}
	run, ok := journal.DecodeClaim(b)
	if !ok {
		return fmt.Errorf("%w: not the claim of a journal", record.ErrCorrupt)
	}
	d.line("claim of run %s: the objects of this folder are in %s and %s", run, filepath.Base(journal.Files(name)), filepath.Base(journal.Late(name)))
	return nil
}

type deletedObject struct {
	batch int64
	name  string
}

// deletedIn returns the objects of a journal file that were deleted.
func deletedIn(file string) (map[deletedObject]bool, error) {
	b, err := os.ReadFile(file + ".gone")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	deleted := map[deletedObject]bool{}
	journal.DecodeGone(b, func(batch int64, name string) { deleted[deletedObject{batch, name}] = true })
	return deleted, nil
}

func (d *dump) tombstones(file string) error {
	b, err := os.ReadFile(file + ".gone")
	if err != nil {
		return err
	}
	d.line("tombstones of %s, %d bytes", filepath.Base(file), len(b))
	journal.DecodeGone(b, func(batch int64, name string) { d.line("object %s of the batch at %d", name, batch) })
	return nil
}

// journalFile prints the batches of a journal file. Damage is an error after everything was printed.
func (d *dump) journalFile(name string) error {
	number, err := strconv.ParseUint(filepath.Base(name), 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not the number of a journal file", filepath.Base(name))
	}
	deleted, err := deletedIn(name)
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d.line("journal file %08d, %d bytes", number, info.Size())
	j := &journalDump{dump: d, file: f, number: number, deleted: deleted}
	folder := strings.TrimSuffix(filepath.Dir(name), journal.Files(""))
	if b, err := os.ReadFile(journal.Late(folder) + "/+end"); err == nil {
		if _, end, ok := journal.DecodeEnd(b); ok {
			j.end = &end
		}
	}
	if err := journal.Scan(f, info.Size(), number, j.part); err != nil {
		return err
	}
	return errors.Join(j.damages...)
}

// journalDump prints one journal file.
type journalDump struct {
	*dump
	file    io.ReaderAt
	number  uint64
	deleted map[deletedObject]bool
	end     *journal.Position // of the journal; nil if it has none
	damages []error
}

func (j *journalDump) damaged(offset, bytes int64, what string) {
	j.line("damaged: %d bytes at %d: %s", bytes, offset, what)
	j.damages = append(j.damages, fmt.Errorf("%w: %d bytes at offset %d: %s", record.ErrCorrupt, bytes, offset, what))
}

func (j *journalDump) part(p *journal.Part) error {
	at := journal.Position{File: j.number, Offset: p.Offset}
	switch p.Kind {
	case journal.PartDamaged:
		j.damaged(p.Offset, p.Bytes, "no valid batch")
		return nil
	case journal.PartUnused, journal.PartRest:
		switch {
		case j.end != nil && at.Before(*j.end):
			bytes := p.Bytes
			if j.end.File == j.number {
				bytes = j.end.Offset - p.Offset
			}
			j.damaged(p.Offset, bytes, "no valid batch before the end of the journal")
		case p.Kind == journal.PartUnused:
			j.line("unused from %d on", p.Offset)
		case j.end != nil:
			j.line("not valid from %d on, behind the end of the journal", p.Offset)
		default:
			j.line("no complete batch from %d on: the last write was torn, or is damaged", p.Offset)
		}
		return nil
	case journal.PartEndOfFile:
		j.line("end of this file at %d", p.Offset)
		return nil
	}
	late := ""
	if j.end != nil && !at.Before(*j.end) {
		late = ", behind the end of the journal: its objects do not exist"
	}
	j.line("batch at %d, %d bytes, run %s%s", p.Offset, p.Bytes, p.Run, late)
	for i := range p.Objects {
		if err := j.object(p.Offset, &p.Objects[i]); err != nil {
			return err
		}
	}
	return nil
}

func (j *journalDump) object(batch int64, o *journal.Object) error {
	gone := j.deleted[deletedObject{batch, o.Name}]
	state := ""
	if gone {
		state = ", deleted"
	}
	if o.Large {
		j.line("object %s: %d bytes in +large/%s%s", o.Name, o.Size, o.Name, state)
		return nil
	}
	j.line("object %s: %d bytes at %d%s", o.Name, o.Size, o.Offset, state)
	if o.Damaged {
		j.damaged(o.Offset, o.Size, "the checksum of object "+o.Name+" does not match")
		return nil
	}
	if !j.records || gone {
		return nil
	}
	b := make([]byte, o.Size)
	if _, err := j.file.ReadAt(b, o.Offset); err != nil {
		return err
	}
	if err := j.dump.object(o.Name, b); err != nil {
		return fmt.Errorf("object %s at offset %d: %w", o.Name, o.Offset, err)
	}
	return nil
}
