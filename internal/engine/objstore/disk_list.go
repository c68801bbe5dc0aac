package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/objstore/journal"
)

// List implements Store.
func (d *Disk) List(ctx context.Context, o ListOptions) ([]Entry, bool, error) {
	if err := Alive(ctx, "list"); err != nil {
		return nil, false, err
	}
	if !PossiblePrefix(o.Prefix) {
		return nil, false, nil
	}
	w := &diskWalk{ctx: ctx, disk: d, options: o, limit: PageSize(o.Max)}
	start := "."
	if i := strings.LastIndexByte(o.Prefix, '/'); i >= 0 {
		start = o.Prefix[:i]
	}
	if err := w.folder(start); err != nil {
		return nil, false, fmt.Errorf("list %s: %w", o.Prefix, err)
	}
	return w.entries, w.more, nil
}

// diskWalk collects names in byte order.
type diskWalk struct {
	ctx     context.Context // of the call of List
	disk    *Disk
	options ListOptions
	limit   int
	entries []Entry
	more    bool
}

// folder collects names from a folder and the folders below it, until more is set.
func (w *diskWalk) folder(dir string) error {
	if err := Alive(w.ctx, "walk"); err != nil {
		return err
	}
	if j := w.disk.journals.find(dir); j != nil {
		return w.journal(j, dir)
	}
	f, err := w.disk.root.Open(dir)
	if missing(err) && !w.disk.hasJournal(dir) {
		return nil
	}
	var found []fs.DirEntry
	if err == nil {
		defer f.Close()
		found, err = f.ReadDir(-1)
	}
	if errors.Is(err, unix.ENOTDIR) || missing(err) && w.disk.hasJournal(dir) {
		j, err := w.disk.claimed(dir)
		if err != nil || j == nil {
			return w.disk.journalVerdict(err)
		}
		return w.journal(j, dir)
	}
	if missing(err) {
		return nil
	}
	if err != nil {
		return writeVerdict(err)
	}
	for _, c := range w.children(dir, found) {
		if w.more {
			return nil
		}
		if folder, isFolder := strings.CutSuffix(c.key, "/"); isFolder {
			err = w.folder(folder)
		} else {
			err = w.object(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// child is a name in a folder: the key of an object, or a prefix of keys that ends in '/'.
type child struct {
	key   string
	entry fs.DirEntry
}

// children returns the names that can lead to requested names, in the order of the keys: "a-b/x"
// comes before "a/x".
func (w *diskWalk) children(dir string, found []fs.DirEntry) []child {
	children := make([]child, 0, len(found))
	claims := claims(found)
	for _, e := range found {
		name, journaled := strings.CutSuffix(e.Name(), journal.Files(""))
		if !journaled {
			name, journaled = strings.CutSuffix(e.Name(), journal.Late(""))
			journaled = journaled && claims[name] == e.Name()
		}
		key := path.Join(dir, name)
		if !ValidKey(key) || !journaled && claims[name] != "" {
			continue
		}
		after := w.options.After
		switch {
		case e.IsDir():
			key += "/"
			if hasPrefixEitherWay(key, w.options.Prefix) && (key > after || strings.HasPrefix(after, key)) {
				children = append(children, child{key, e})
			}
		case e.Type().IsRegular() && key > after && strings.HasPrefix(key, w.options.Prefix):
			children = append(children, child{key, e})
		}
	}
	sorting.Sort(children, func(a, b child) int { return strings.Compare(a.key, b.key) })
	return children
}

// claims returns the claimed folders that have journal files, or objects that were put after the
// journal had ended, with the entry that stands for each. The file of such a name is the claim, which
// may be damaged. A claim with neither, of a process that was killed, has an empty journal.
func claims(found []fs.DirEntry) map[string]string {
	var entries map[string]string
	for _, suffix := range []string{journal.Late(""), journal.Files("")} { // the second one counts
		for _, e := range found {
			if name, ok := strings.CutSuffix(e.Name(), suffix); ok && e.IsDir() {
				if entries == nil {
					entries = map[string]string{}
				}
				entries[name] = e.Name()
			}
		}
	}
	return entries
}

func hasPrefixEitherWay(a, b string) bool {
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

func (w *diskWalk) object(c child) error {
	if len(w.entries) == w.limit {
		w.more = true
		return nil
	}
	info, err := c.entry.Info()
	if missing(err) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return writeVerdict(err)
	}
	if w.disk.isClaim(c.key, info.Size()) {
		return nil
	}
	w.entries = append(w.entries, Entry{Key: c.key, Size: info.Size()})
	return nil
}
