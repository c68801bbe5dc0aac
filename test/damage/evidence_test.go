package damage_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/record"
)

// parts are the parts of a journal file.
func (img *image) parts(name string) (all []*journal.Part) {
	b := img.files[name].bytes()
	number := uint64(0)
	for _, c := range filepath.Base(name) {
		number = number*10 + uint64(c-'0')
	}
	_ = journal.Scan(bytes.NewReader(b), int64(len(b)), number, func(p *journal.Part) error {
		all = append(all, p)
		return nil
	})
	return all
}

// headOf decodes the head of a commit object.
func headOf(b []byte) (h record.Head, at state.Position, ok bool) {
	if len(b) < record.HeadSize {
		return h, at, false
	}
	h, err := record.DecodeHead(b[:record.HeadSize])
	return h, state.Position{Epoch: h.Epoch, Slot: h.Slot}, err == nil
}

// chainFrom is the end of the log of a damaged bucket in which the records before a position are served:
// it is behind the SEALs from there on, and not before the newest snapshot that can be read.
func (img *image) chainFrom(end state.Position) state.Position {
	next := map[state.Position]state.Position{}
	for name, c := range img.files {
		if pos, _, ok := state.ParseSnapKey(0, name); ok && end.Less(pos) {
			if _, err := state.DecodeSnapshot(c.bytes()); err == nil {
				end = pos
			}
		}
		if h, at, ok := headOf(c.used); ok && h.Kind == record.KindSeal {
			next[at] = state.Position{Epoch: h.NextEpoch}
		}
	}
	for to, ok := next[end]; ok; to, ok = next[end] {
		end = to
	}
	return end
}

// evidence says why a damaged bucket itself shows that its log is longer than a position. "": it does
// not. It implements the protocol page independently of the program.
func (b *bucket) evidence(img *image, end state.Position) string {
	for name, c := range img.files {
		switch kind(name) {
		case "snapshot":
			if pos, _, ok := state.ParseSnapKey(0, name); ok && end.Less(pos) {
				return "a snapshot"
			}
		case "pack":
			if epoch, _, _, ok := state.ParsePackKey(0, name); ok && epoch > end.Epoch {
				return "a pack"
			}
		case "slot", "late object":
			if _, at, ok := headOf(c.used); ok && !at.Less(end) {
				return "an object"
			}
		case "position":
			if whole := b.files[name]; epochIn(name) >= end.Epoch && c.size == whole.size && bytes.Equal(c.used, whole.used) {
				return "the position of the journal"
			}
		case "end":
			if why := b.endShows(img, name, end); why != "" {
				return why
			}
		case "journal":
			if why := b.journalShows(img, name, end); why != "" {
				return why
			}
		}
	}
	return ""
}

// epochIn is the epoch of a file of a journal.
func epochIn(name string) (epoch uint32) {
	_, _ = fmt.Sscanf(name, "s0000/wal/%d-", &epoch)
	return epoch
}

// endShows is evidence in the end of a journal: the file that it names is missing or shorter.
func (b *bucket) endShows(img *image, name string, end state.Position) string {
	_, at, ok := journal.DecodeEnd(img.files[name].bytes())
	if !ok || epochIn(name) < end.Epoch {
		return ""
	}
	folder := strings.TrimSuffix(filepath.Dir(name), "+late") + "+journal"
	if at.Offset > 0 && img.files[fmt.Sprintf("%s/%08d", folder, at.File)].size < at.Offset {
		return "the end of the journal"
	}
	return ""
}

// journalShows is evidence in a journal file.
func (b *bucket) journalShows(img *image, name string, end state.Position) string {
	if epochIn(name) < end.Epoch {
		return ""
	}
	c, ended := img.files[name], img.ended(name)
	if !ended && !b.ended && c.size > 0 && c.size < b.files[name].size {
		return "a journal file that was cut"
	}
	content := c.bytes()
	for _, p := range img.parts(name) {
		switch p.Kind {
		case journal.PartEndOfFile:
			if img.files[journalNext(name)].size == 0 {
				return "the end of a journal file, and no next one"
			}
		case journal.PartObjects:
			for _, o := range p.Objects {
				if o.Large || o.Damaged {
					continue
				}
				if _, at, ok := headOf(content[o.Offset : o.Offset+o.Size]); ok && !at.Less(end) {
					return "an object in a journal"
				}
			}
		case journal.PartRest:
			if b.strange(name, content[p.Offset:], p.Offset) {
				return "a batch of another place in a journal"
			}
		}
	}
	return ""
}

// ended reports whether the journal of a file has an end that can be read.
func (img *image) ended(name string) bool {
	_, _, ok := journal.DecodeEnd(img.files[strings.TrimSuffix(filepath.Dir(name), "+journal")+"+late/+end"].bytes())
	return ok
}

// strange reports whether bytes of a journal file hold the head of a batch of another file or offset.
func (b *bucket) strange(name string, rest []byte, offset int64) bool {
	for at := 0; at+40 <= len(rest); at += journal.BlockBytes {
		if !bytes.HasPrefix(rest[at:], []byte("SEBJRNL")) {
			continue
		}
		number := binary.LittleEndian.Uint64(rest[at+24:])
		if place := binary.LittleEndian.Uint64(rest[at+32:]); place != uint64(offset+int64(at)) || fmt.Sprintf("%08d", number) != filepath.Base(name) {
			return true
		}
	}
	return false
}

// journalNext is the name of the journal file after another one. No bucket has more than nine.
func journalNext(name string) string { return name[:len(name)-1] + string(name[len(name)-1]+1) }
