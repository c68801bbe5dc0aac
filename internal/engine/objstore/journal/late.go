package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// A name can be in the journal and in the folder Late: a power failure loses the tombstone of a
// deleted object after another one was put as a file. The file is the object then. This file keeps
// the older one hidden (J6):
//
//	put     after the end, and only a name that the journal does not hold
//	read    the file first, then the journal. A name that the journal holds then had no file before,
//	        because no process puts a file while the journal holds the name.
//	delete  the journal first, then the file. The file hides the older object until it is deleted.

// lateName is the name of the file of an object that was put after the end.
func (j *Journal) lateName(key string) string { return Late(j.folder) + "/" + key }

// PutLate puts an object after Put or PutLarge has returned ErrEnded. It calls put, which puts a
// file if absent. ErrExists: the journal holds the name.
func (j *Journal) PutLate(key string, put func(file string) error) error {
	if err := j.End(); err != nil {
		return err
	}
	// In a damaged journal the name may be taken. The log never gets here then: a read of the name
	// has returned ErrDamaged, which stops the log, and only a recovery puts other names.
	switch _, err := j.find(key); {
	case err == nil:
		return ErrExists // before the end, and so durable
	case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrDamaged):
		return err
	}
	return put(j.lateName(key))
}

// Find returns where an object is. It may be deleted before the caller opens the file.
func (j *Journal) Find(key string) (Place, error) {
	for {
		ended := j.Ended()
		if ended {
			exists, err := j.sys.Exists(j.lateName(key))
			if err != nil {
				return Place{}, fmt.Errorf("look for %s: %w", j.lateName(key), err)
			}
			if exists {
				return Place{Name: j.lateName(key), Size: -1}, nil
			}
		}
		o, err := j.find(key)
		switch {
		case !ended && j.Ended(): // find has noticed it
		case err != nil:
			return Place{}, err
		case o.large:
			return Place{Name: Large(j.folder, key), Size: o.size}, nil
		default:
			return Place{Name: j.fileName(o.file.number), Offset: o.offset, Size: o.size}, nil
		}
	}
}

// List returns the first names, at most limit, that begin with prefix and are greater than after, in
// ascending order.
func (j *Journal) List(prefix, after string, limit int) ([]Entry, error) {
	for {
		ended := j.Ended()
		var late []string
		if ended {
			var err error
			if late, err = j.lateKeys(prefix, after); err != nil {
				return nil, err
			}
		}
		entries, err := j.list(prefix, after, limit+len(late))
		switch {
		case err != nil:
			return nil, err
		case ended:
			return j.merge(entries, late, limit)
		case !j.Ended():
			return entries, nil
		}
	}
}

// lateKeys returns the names that were put after the end, in ascending order.
func (j *Journal) lateKeys(prefix, after string) ([]string, error) {
	names, err := j.sys.ReadFolder(Late(j.folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", Late(j.folder), err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "+") || !strings.HasPrefix(name, prefix) || name <= after
	})
	slices.Sort(names)
	return names, nil
}

// merge adds the late names to those of the journal.
func (j *Journal) merge(entries []Entry, late []string, limit int) ([]Entry, error) {
	entries = slices.DeleteFunc(entries, func(e Entry) bool {
		_, hidden := slices.BinarySearch(late, e.Key)
		return hidden
	})
	for _, key := range late {
		size, err := j.sys.Size(j.lateName(key))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", j.lateName(key), err)
		}
		entries = append(entries, Entry{Key: key, Size: size, Late: true})
	}
	sorting.Sort(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries[:min(limit, len(entries))], nil
}

// Delete removes names; a missing name is no error. It makes nothing durable: after a power failure
// a deleted object, or an older one of its name, may exist again, and can be deleted again.
func (j *Journal) Delete(keys []string) error {
	// Only files that exist now: a Put may store the name again once the journal does not hold it.
	late, err := j.late(keys)
	if err != nil {
		return err
	}
	if err := j.deleteFrames(keys); err != nil {
		return err
	}
	for _, name := range late {
		if err := j.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// late returns the files of those names that were put after the end, also if this owner does not
// know the end.
func (j *Journal) late(keys []string) (files []string, err error) {
	marked, err := j.sys.Exists(Late(j.folder))
	if err != nil || !marked {
		return nil, err
	}
	for _, key := range keys {
		exists, err := j.sys.Exists(j.lateName(key))
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", j.lateName(key), err)
		}
		if exists {
			files = append(files, j.lateName(key))
		}
	}
	return files, nil
}
