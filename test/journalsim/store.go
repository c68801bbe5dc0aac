package journalsim

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
)

// Verdicts of a store, as in package objstore.
var (
	errExists  = errors.New("object exists")
	errMissing = errors.New("object not found")
	errRefused = errors.New("refused")
)

// store is a disk bucket of one process: journals in claimed folders, files elsewhere.
type store struct {
	p   *Process
	opt journal.Options
	// large is the size from which an object is a file of its own
	large int

	mu       sync.Mutex // guards the fields below
	journals map[string]*journal.Journal
	own      map[string]bool // folders that this process has claimed
}

func newStore(p *Process) *store {
	return &store{p: p, opt: p.w.cfg.Journal, large: p.w.cfg.Large, journals: map[string]*journal.Journal{}, own: map[string]bool{}}
}

// claim claims a folder and owns its journal.
func (s *store) claim(folder string) error {
	if err := s.p.MakeFolder(dirOf(folder)); err != nil {
		return verdict(err)
	}
	j, err := journal.Claim(s.p, folder, s.opt)
	if err != nil {
		return verdict(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journals[folder], s.own[folder] = j, true
	return nil
}

// owns reports whether the process believes that it owns the journal of a folder.
func (s *store) owns(folder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journals[folder]
	return s.own[folder] && j != nil && !j.Ended()
}

// open returns the journal of a folder; journal.ErrNoClaim: it has none.
func (s *store) open(folder string) (*journal.Journal, error) {
	s.mu.Lock()
	j := s.journals[folder]
	s.mu.Unlock()
	if j != nil {
		return j, nil
	}
	j, err := journal.Open(s.p, folder)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.journals[folder]; other != nil {
		return other, nil
	}
	s.journals[folder] = j
	return j, nil
}

// put stores an object unless the name is taken. The result is nil, errExists, or an error that
// leaves open whether the object is stored. appended is true if the journal took it.
func (s *store) put(folder, name string, body []byte) (appended bool, err error) {
	for range 4 {
		j, err := s.open(folder)
		if errors.Is(err, journal.ErrNoClaim) {
			err = s.putFile(folder, name, body)
			if err == nil || errors.Is(err, errExists) {
				return false, err
			}
			continue // claimed meanwhile, or an error
		}
		if err != nil {
			return false, verdict(err)
		}
		write := func(file string) error { return s.write(file, body) }
		if len(body) < s.large {
			half := len(body) / 3
			err = j.Put(name, journal.Body{Parts: [][]byte{body[:half], body[half:]}, Size: int64(len(body))})
		} else {
			err = j.PutLarge(name, int64(len(body)), write)
		}
		appended = err == nil
		if errors.Is(err, journal.ErrEnded) {
			err = j.PutLate(name, write)
		}
		return appended, verdict(err)
	}
	return false, errRefused
}

// verdict returns nil, errExists or errRefused for the error of a put.
func verdict(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errExists), errors.Is(err, journal.ErrExists):
		return errExists
	}
	return fmt.Errorf("%w: %w", errRefused, err)
}

// putFile puts an object as a file of a folder without a claim.
func (s *store) putFile(folder, name string, body []byte) error {
	if err := s.p.MakeFolder(folder); err != nil {
		return verdict(err)
	}
	return verdict(s.write(folder+"/"+name, body))
}

func (s *store) write(file string, body []byte) error {
	err := s.p.PutFile(file, body)
	if isExist(err) {
		return errExists
	}
	return err
}

// get returns an object or errMissing. Other errors say nothing. file: it was a file of its own.
func (s *store) get(folder, name string) (b []byte, file bool, err error) {
	j, err := s.open(folder)
	if errors.Is(err, journal.ErrNoClaim) {
		b, err = s.read(journal.Place{Name: folder + "/" + name, Size: -1})
		return b, true, err
	}
	if err != nil {
		return nil, false, err
	}
	place, err := j.Find(name)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, false, errMissing
	}
	if err != nil {
		return nil, false, err
	}
	b, err = s.read(place)
	return b, place.Size < 0, err
}

func (s *store) read(at journal.Place) ([]byte, error) {
	if at.Size < 0 {
		b, err := s.p.ReadFile(at.Name)
		if isNotExist(err) {
			return nil, errMissing
		}
		return b, err
	}
	f, err := s.p.Open(at.Name, false)
	if isNotExist(err) {
		return nil, errMissing
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, at.Size)
	n, err := f.ReadAt(b, at.Offset)
	if errors.Is(err, io.EOF) {
		err = nil // the checker compares the bytes
	}
	return b[:n], err
}

// list returns the names in a folder, and those of them that are files of their own.
func (s *store) list(folder string) (names, files []string, err error) {
	j, err := s.open(folder)
	if errors.Is(err, journal.ErrNoClaim) {
		names, err := s.p.ReadFolder(folder)
		if isNotExist(err) {
			return nil, nil, nil
		}
		return names, names, err
	}
	if err != nil {
		return nil, nil, err
	}
	entries, err := j.List("", "", math.MaxInt32)
	for _, e := range entries {
		names = append(names, e.Key)
		if e.Late {
			files = append(files, e.Key)
		}
	}
	return names, files, err
}

// named returns the damage that the process has named in a folder.
func (s *store) named(folder string) []journal.Damage {
	s.mu.Lock()
	j := s.journals[folder]
	s.mu.Unlock()
	if j == nil {
		return nil
	}
	return j.Damage()
}

// damaged reports whether the journal of a folder names damage.
func (s *store) damaged(folder string) bool {
	j, err := s.open(folder)
	return err == nil && slices.ContainsFunc(j.Damage(), journal.Damage.Loses)
}

// delete removes a name.
func (s *store) delete(folder string, names ...string) error {
	j, err := s.open(folder)
	if errors.Is(err, journal.ErrNoClaim) {
		for _, name := range names {
			if e := s.p.Remove(folder + "/" + name); e != nil && !isNotExist(e) {
				return e
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	return j.Delete(names)
}

// close closes the journal of a folder, or all if folder is "".
func (s *store) close(folder string) error {
	s.mu.Lock()
	var closing []*journal.Journal
	for name, j := range s.journals {
		if folder == "" || name == folder {
			closing = append(closing, j)
			delete(s.journals, name)
		}
	}
	s.mu.Unlock()
	var err error
	for _, j := range closing {
		err = cmp.Or(err, j.Close())
	}
	return err
}

// abandon ends the goroutines of a killed process.
func (s *store) abandon() {
	s.p.w.begin(func() { _ = s.close("") })
}
