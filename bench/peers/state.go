package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// state is the list of started peers. It is stored in a file, so that a later process can stop
// them.
type state struct {
	Peers []Peer `json:"peers"`

	path string
}

const (
	stateFile = "peers.json"
	lockFile  = "peers.lock"
)

// locked calls f with the state while it holds the lock file. Other processes wait for the lock.
func (o *Options) locked(f func(*state) error) (err error) {
	lock, err := os.OpenFile(filepath.Join(o.Data, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	s := &state{path: filepath.Join(o.Data, stateFile)}
	text, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if err := json.Unmarshal(text, s); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	for i := range s.Peers {
		s.Peers[i].o = o
	}
	return f(s)
}

// save replaces the state file atomically: after a crash it contains the old or the new state.
func (s *state) save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(s.path+".new", s.path)
}

func (s *state) remove(name string) {
	s.Peers = slices.DeleteFunc(s.Peers, func(p Peer) bool { return p.Name == name })
}

// up returns the running peer of a kind or starts a new one. It first stops the remaining processes
// of a peer that has exited.
func (s *state) up(ctx context.Context, o *Options, k *kind) (*Peer, error) {
	if i := slices.IndexFunc(s.Peers, func(p Peer) bool { return p.Name == k.name }); i >= 0 {
		if p := &s.Peers[i]; p.alive() {
			o.say("%s: runs already, process %d", p.Name, p.PID)
			return p, nil
		}
		o.say("%s: the one that was started before has died; what is left of it is removed", k.name)
		if err := s.Peers[i].Stop(ctx); err != nil {
			return nil, err
		}
		s.remove(k.name)
		if err := s.save(); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(o.Data, k.name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	p, err := launch(ctx, o, k, dir)
	if err != nil {
		return nil, err
	}
	s.Peers = append(s.Peers, *p)
	return p, s.save()
}
