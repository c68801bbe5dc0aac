package damage_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore/journal"
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

// position of a commit object in its head.
func headOf(b []byte) (at state.Position, ok bool) {
	if len(b) < record.HeadSize {
		return at, false
	}
	h, err := record.DecodeHead(b[:record.HeadSize])
	return state.Position{Epoch: h.Epoch, Slot: h.Slot}, err == nil
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
			if at, ok := headOf(c.used); ok && (at == end || end.Less(at)) {
				return "an object"
			}
		case "journal":
			if why := b.journalShows(img, name, end); why != "" {
				return why
			}
		}
	}
	return ""
}

// journalShows is evidence in a journal file.
func (b *bucket) journalShows(img *image, name string, end state.Position) string {
	c, whole := img.files[name], b.files[name]
	ended := img.files[journal.Late(strings.TrimSuffix(filepath.Dir(name), "+journal"))+"/+end"].size > 0
	newest := strings.HasPrefix(b.kindOf(name), "newest")
	if newest && !ended && !b.ended && c.size < whole.size && c.size > 0 {
		return "a journal file that was cut"
	}
	gap := false
	for _, p := range img.parts(name) {
		switch p.Kind {
		case journal.PartDamaged:
			gap = true
		case journal.PartEndOfFile:
			next := img.files[journalNext(name)]
			if next.size == 0 {
				return "the end of a journal file, and no next one"
			}
		case journal.PartObjects:
			for _, o := range p.Objects {
				if o.Large || o.Damaged && o.Offset+record.HeadSize > c.size {
					continue
				}
				if at, ok := headOf(slices.Clone(img.files[name].bytes()[o.Offset:min(c.size, o.Offset+o.Size)])); ok && (at == end || end.Less(at)) && !o.Damaged {
					return "an object in a journal"
				}
			}
		}
	}
	if ended && newest && (gap || c.size != whole.size) {
		return "the end of the journal"
	}
	return ""
}

// journalNext is the name of the journal file after another one. No bucket has more than nine.
func journalNext(name string) string { return name[:len(name)-1] + string(name[len(name)-1]+1) }
