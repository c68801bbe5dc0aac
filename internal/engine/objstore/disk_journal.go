package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/objstore/journal"
)

const (
	// inlineMax is Disk.inline. A larger object is a file, so that small objects need not wait for it.
	inlineMax = 1 << 20

	// revokedPause is how long an owner waits before it puts a file after another process has ended
	// its journal. Without the pause both would try name after name.
	revokedPause = 50 * time.Millisecond
)

// journalSizes returns Disk.sizes and Disk.inline. Campaigns use small files, so that processes are
// killed while they change files.
func journalSizes() (sizes journal.Options, inline int64) {
	n := failpoint.JournalFileBytes()
	if n == 0 {
		return journal.Options{}, inlineMax
	}
	return journal.Options{FirstBytes: n, FileBytes: n, GroupBytes: n / 4}, n / 4
}

// journals are the journals that a Disk knows, by folder. A folder that is claimed stays claimed.
type journals struct {
	mu    sync.RWMutex // guards the fields below
	known map[string]*journal.Journal
	own   []*journal.Journal
}

func (s *journals) find(folder string) *journal.Journal {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[folder]
}

func (s *journals) add(folder string, j *journal.Journal, own bool) *journal.Journal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.known[folder]; old != nil && !own {
		return old
	}
	if s.known == nil {
		s.known = map[string]*journal.Journal{}
	}
	s.known[folder] = j
	if own {
		s.own = append(s.own, j)
	}
	return j
}

// lost reports whether another process has ended a journal of this one.
func (s *journals) lost(j *journal.Journal) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Contains(s.own, j)
}

// closeOwn ends the journals of this process.
func (s *journals) closeOwn() error {
	s.mu.Lock()
	own := slices.Clone(s.own)
	s.own = nil
	s.mu.Unlock()
	var errs []error
	for _, j := range own {
		errs = append(errs, j.Close())
	}
	return errors.Join(errs...)
}

// Own implements Journaler. It ends an earlier journal of this store.
func (d *Disk) Own(ctx context.Context, folder string) error {
	if err := Begin(ctx, "own", folder); err != nil {
		return err
	}
	if d.options.NoJournal || !journalsWork(int(d.base.Fd())) {
		return fmt.Errorf("own %s: %w", folder, ErrUnsuitable)
	}
	d.writing.RLock()
	defer d.writing.RUnlock()
	if err := d.refusing(); err != nil {
		return fmt.Errorf("own %s: %w", folder, err)
	}
	if err := d.journals.closeOwn(); err != nil {
		return fmt.Errorf("own %s: end the journal before: %w", folder, d.journalVerdict(err))
	}
	j, err := journal.Claim(diskFiles{d}, folder, d.sizes)
	if errors.Is(err, journal.ErrEnded) {
		err = fmt.Errorf("%w: %w", ErrExists, err)
	}
	if err != nil {
		return fmt.Errorf("own %s: %w", folder, d.journalVerdict(err))
	}
	d.journals.add(folder, j, true)
	return nil
}

// claimed returns the journal of a folder, or nil if the folder has none. Call it when a file
// operation has failed because the folder is not one.
func (d *Disk) claimed(folder string) (*journal.Journal, error) {
	if j := d.journals.find(folder); j != nil {
		return j, nil
	}
	j, err := journal.Open(diskFiles{d}, folder)
	if errors.Is(err, journal.ErrNoClaim) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.journals.add(folder, j, false), nil
}

// putJournal is Put of a name in a claimed folder.
func (d *Disk) putJournal(ctx context.Context, j *journal.Journal, key string, body Body) error {
	name := path.Base(key)
	write := func(file string) error { return d.putFile(ctx, file, body) }
	var err error
	if body.Size <= d.inline {
		err = j.Put(name, journal.Body{Parts: body.Parts, Size: body.Size, CRC32C: body.CRC32C, HasCRC: body.HasCRC})
	} else {
		err = j.PutLarge(name, body.Size, write)
	}
	if !errors.Is(err, journal.ErrEnded) {
		return d.journalVerdict(err)
	}
	if d.journals.lost(j) {
		if pause.Wait(ctx, revokedPause) != nil {
			return Alive(ctx, "put")
		}
	}
	return d.journalVerdict(j.PutLate(name, write))
}

// journalVerdict turns an error of a journal into a verdict.
func (d *Disk) journalVerdict(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrOver):
		return d.syncFailed(err)
	case errors.Is(err, journal.ErrExists):
		return ErrExists
	case errors.Is(err, journal.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, journal.ErrDamaged):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case errors.Is(err, ErrRefused), errors.Is(err, ErrNoVerdict), errors.Is(err, ErrExists):
		return err
	}
	return writeVerdict(err)
}

// getJournal is Get of a name in a claimed folder.
func (d *Disk) getJournal(j *journal.Journal, key string, r Range) (Object, error) {
	place, err := j.Find(path.Base(key))
	if err != nil {
		return Object{}, d.journalVerdict(err)
	}
	switch {
	case place.Size < 0:
		return d.getFile(place.Name, r)
	case place.Offset == 0: // a journal file begins with a head
		return d.getLarge(place, r)
	}
	offset, length, err := r.Clip(place.Size)
	if err != nil {
		return Object{}, err
	}
	f, err := d.handles.open(place.Name)
	if err != nil {
		return Object{}, readVerdict(err)
	}
	info, err := f.Stat()
	if err != nil {
		return Object{}, errors.Join(readVerdict(err), f.Close())
	}
	s := &Section{File: f, Off: place.Offset + offset, Len: length, release: func() error { return d.handles.put(place.Name, f) }}
	if end := place.Offset + place.Size; info.Size() < end {
		err := fmt.Errorf("%w: %s has %d bytes, and the object ends at byte %d", ErrDamaged, place.Name, info.Size(), end)
		return Object{}, errors.Join(err, s.Close())
	}
	return Object{Size: place.Size, Body: s}, nil
}

// getLarge opens a range of the file of a large object. A damaged file has the size that it has, so
// that the bytes that are left can be read, as those of an object in a file of its own.
func (d *Disk) getLarge(place journal.Place, r Range) (Object, error) {
	o, err := d.getFile(place.Name, r)
	if errors.Is(err, ErrOutOfRange) && r.Offset < place.Size {
		err = fmt.Errorf("%w: %s should have %d bytes: %w", ErrDamaged, place.Name, place.Size, err)
	}
	return o, err
}

// deleteJournal is Delete of names in a claimed folder.
func (d *Disk) deleteJournal(folder string, keys []string) error {
	j := d.journals.find(folder)
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = path.Base(key)
	}
	return d.journalVerdict(j.Delete(names))
}

// journal lists the names of a claimed folder.
func (w *diskWalk) journal(j *journal.Journal, folder string) error {
	inside := folder + "/"
	prefix, ok := strings.CutPrefix(w.options.Prefix, inside)
	if !ok {
		prefix = ""
	}
	after, ok := strings.CutPrefix(w.options.After, inside)
	if !ok {
		after = "" // the walk visits no folder that is wholly before After
	}
	found, err := j.List(prefix, after, w.limit+1) // one more shows that more follow
	if err != nil {
		return w.disk.journalVerdict(err)
	}
	if !w.disk.options.Existing && after == "" {
		if err := j.Sweep(); err != nil {
			return w.disk.journalVerdict(err)
		}
	}
	for _, e := range found {
		if len(w.entries) == w.limit {
			w.more = true
			return nil
		}
		w.entries = append(w.entries, Entry{Key: inside + e.Key, Size: e.Size})
	}
	return nil
}

// hasJournal reports whether a folder has journal files, or had them and they were lost. It has them
// without a claim if the claim was lost.
func (d *Disk) hasJournal(folder string) bool {
	return d.exists(journal.Files(folder)) || d.exists(journal.PositionFile(folder))
}

func (d *Disk) exists(name string) bool {
	exists, err := diskFiles{d}.Exists(name)
	return exists && err == nil
}

// isClaim reports whether a regular file of size bytes is the claim of a folder and not an object. A
// damaged claim is one if the folder has journal files.
func (d *Disk) isClaim(name string, size int64) bool {
	if size != journal.ClaimBytes {
		return false
	}
	content, err := diskFiles{d}.ReadFile(name)
	if err != nil {
		return false
	}
	if _, ok := journal.DecodeClaim(content); ok || d.hasJournal(name) {
		return true
	}
	return d.exists(journal.Late(name))
}

// Damage implements DamageFinder.
func (d *Disk) Damage(ctx context.Context, prefix string) ([]Damage, error) {
	var all []Damage
	err := fs.WalkDir(d.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case missing(err):
			return fs.SkipDir // removed meanwhile
		case err != nil:
			return writeVerdict(err)
		case ctx.Err() != nil:
			return Alive(ctx, "walk")
		}
		folder, is := strings.CutSuffix(name, journal.Files(""))
		if !is || !e.IsDir() { // a position or an end without the folder shows that the folder was lost
			folder = strings.TrimSuffix(strings.TrimSuffix(name, journal.PositionFile("")), journal.Late(""))
			is = folder != name && e.IsDir() == d.exists(journal.EndFile(folder)) && !d.exists(journal.Files(folder))
		}
		if is && strings.HasPrefix(folder+"/", prefix) {
			found, err := d.damageOf(folder)
			all = append(all, found...)
			if err != nil {
				return err
			}
		}
		if !e.IsDir() || name == "." {
			return nil
		}
		if strings.Contains(path.Base(name), "+") || !hasPrefixEitherWay(name+"/", prefix) {
			return fs.SkipDir
		}
		return nil
	})
	return all, err
}

func (d *Disk) damageOf(folder string) ([]Damage, error) {
	j, err := d.claimed(folder)
	if err != nil || j == nil { // nil: removed meanwhile
		return nil, d.journalVerdict(err)
	}
	found, err := j.Check()
	damages := make([]Damage, 0, len(found))
	for _, f := range found {
		damages = append(damages, Damage{Folder: folder, Lost: f.Loses(), Bytes: f.Bytes, Err: f})
	}
	return damages, d.journalVerdict(err)
}
