// Package peers installs, starts and stops brokers. Each broker listens on loopback and has its own
// data folder. Nothing is installed system-wide: programs come from the PATH or a cache folder.
package peers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options set the folders, flags and progress output. The zero Options are valid inside Seb's
// repository.
type Options struct {
	// Repository is the folder of Seb's source. "" means the result of the function Repository.
	Repository string
	// Cache is the folder of installed programs. "" means bench/.cache in the repository.
	Cache string
	// Data is the folder of running peers: data, logs and the state file. "" means run in Cache.
	Data string
	// SebFlags are additional flags of Seb's brokers, such as --batch-wait-time=25ms.
	SebFlags []string
	// Installed skips installing and building before a start, because the cache is complete.
	Installed bool
	// Progress receives a line for each step. nil disables it.
	Progress io.Writer

	built bool // this call has built Seb
}

// Target contains the parameters with which a driver connects to a peer.
type Target struct {
	Driver  string            `json:"driver"`
	Address string            `json:"address"`
	Options map[string]string `json:"options,omitempty"`
}

// Peer is a started broker.
type Peer struct {
	Name      string        `json:"name"` // such as redis-fsync
	Dir       string        `json:"dir"`  // its data and logs
	PID       int           `json:"pid"`  // of the broker itself
	Processes []Process     `json:"processes"`
	Targets   []Target      `json:"targets"`
	Start     time.Duration `json:"start_ns"` // from start to the first successful readiness check

	address string       // host:port
	follow  func() error // Seb only: starts a broker that follows this one
	o       *Options
}

// kind is a broker with a durability setting.
type kind struct {
	name, doc string
	// install installs the programs if they are missing.
	install func(ctx context.Context, o *Options) error
	// start starts the processes of p and sets its PID, address and targets. The folder of p
	// exists.
	start func(ctx context.Context, p *Peer) error
	// ready sends the broker one request and returns nil if the broker is ready.
	ready func(ctx context.Context, p *Peer) error
	// timeout is the limit from start until the broker is ready.
	timeout time.Duration
}

// kinds are all kinds in listing order.
var kinds = slices.Concat(redisKinds, natsKinds, rabbitKinds, kafkaKinds, postgresKinds, elasticKinds, sebKinds)

// Kind is a peer that Up can start.
type Kind struct{ Name, Doc string }

// Kinds returns all kinds, with names such as redis-fsync. The part before the dash selects all
// kinds of that broker.
func Kinds() []Kind {
	list := make([]Kind, len(kinds))
	for i, k := range kinds {
		list[i] = Kind{k.name, k.doc}
	}
	return list
}

// ErrUnknown reports a name that matches no kind.
var ErrUnknown = errors.New("no such peer")

func find(names []string) ([]*kind, error) {
	var list []*kind
	for _, name := range names {
		found := false
		for i := range kinds {
			system, _, _ := strings.Cut(kinds[i].name, "-")
			if kinds[i].name != name && system != name {
				continue
			}
			found = true
			if !slices.Contains(list, &kinds[i]) {
				list = append(list, &kinds[i])
			}
		}
		if !found {
			return nil, fmt.Errorf("%w: %q; there are: %s", ErrUnknown, name, strings.Join(allNames(), ", "))
		}
	}
	return list, nil
}

func allNames() (list []string) {
	for _, k := range kinds {
		list = append(list, k.name)
	}
	return list
}

// resolve returns a copy with defaults set and absolute paths. It creates the cache and data
// folders.
func (o Options) resolve() (*Options, error) {
	if o.Repository == "" {
		root, err := Repository()
		if err != nil && o.Cache == "" {
			return nil, err
		}
		o.Repository = root
	}
	o.Cache = cmp.Or(o.Cache, filepath.Join(o.Repository, "bench", ".cache"))
	o.Data = cmp.Or(o.Data, filepath.Join(o.Cache, "run"))
	for _, dir := range []*string{&o.Repository, &o.Cache, &o.Data} {
		if *dir == "" {
			continue
		}
		var err error
		if *dir, err = filepath.Abs(*dir); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{o.Cache, o.Data} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
	}
	return &o, nil
}

// Repository returns the folder of Seb's source: the working folder or its nearest parent that
// contains it.
func Repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		head, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(head), "module github.com/sebbroker/seb\n") {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("peers: no repository of Seb here or above; name a cache folder for the programs, and for Seb its repository")
		}
		dir = above
	}
}

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		_, _ = fmt.Fprintf(o.Progress, format+"\n", args...) // progress is optional, so a write error is ignored
	}
}

// Up installs and starts the named peers that are not running, in sequence, and returns all named
// peers. If a start fails, earlier peers continue to run. Names are those of Kinds.
func Up(ctx context.Context, options Options, names ...string) ([]Peer, error) {
	o, err := options.resolve()
	if err != nil {
		return nil, err
	}
	list, err := find(names)
	if err != nil {
		return nil, err
	}
	var up []Peer
	err = o.locked(func(s *state) error {
		for _, k := range list {
			p, err := s.up(ctx, o, k)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			up = append(up, *p)
		}
		return nil
	})
	return up, err
}

// Install installs the programs of peers without starting them. It continues after a failure:
// faults contains the error of each peer that was not installed.
func Install(ctx context.Context, options Options, names ...string) (faults map[string]error, err error) {
	o, err := options.resolve()
	if err != nil {
		return nil, err
	}
	list, err := find(names)
	if err != nil {
		return nil, err
	}
	faults = map[string]error{}
	for _, k := range list {
		if err := k.install(ctx, o); err != nil {
			faults[k.name] = fmt.Errorf("%s: install: %w", k.name, err)
		}
	}
	return faults, ctx.Err()
}

// Down stops the named peers and removes their data. Without names it stops all peers.
func Down(ctx context.Context, options Options, names ...string) error {
	o, err := options.resolve()
	if err != nil {
		return err
	}
	list, err := find(names)
	if err != nil {
		return err
	}
	return o.locked(func(s *state) error {
		var faults []error
		for _, p := range slices.Clone(s.Peers) {
			if len(names) > 0 && !slices.ContainsFunc(list, func(k *kind) bool { return k.name == p.Name }) {
				continue
			}
			if err := p.Stop(ctx); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", p.Name, err))
				continue
			}
			o.say("%s: stopped", p.Name)
			s.remove(p.Name)
			faults = append(faults, os.RemoveAll(p.Dir), s.save())
		}
		return errors.Join(faults...)
	})
}

// Running returns the running peers.
func Running(options Options) ([]Peer, error) {
	o, err := options.resolve()
	if err != nil {
		return nil, err
	}
	var list []Peer
	err = o.locked(func(s *state) error {
		for _, p := range s.Peers {
			if p.alive() {
				list = append(list, p)
			}
		}
		return nil
	})
	return list, err
}

// launch installs and starts a peer and waits until it is ready. After an error it stops all
// processes of the peer.
func launch(ctx context.Context, o *Options, k *kind, dir string) (*Peer, error) {
	if !o.Installed {
		if err := k.install(ctx, o); err != nil {
			return nil, fmt.Errorf("install: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	p := &Peer{Name: k.name, Dir: dir, o: o}
	began := time.Now()
	err := k.start(ctx, p)
	if err == nil {
		err = p.wait(ctx, k)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
	}
	p.Start = time.Since(began)
	o.say("%s: answers at %s after %.1f s, process %d", p.Name, p.address, p.Start.Seconds(), p.PID)
	return p, nil
}

// wait asks the broker until it is ready. It returns an error if a process exits or k.timeout
// expires.
func (p *Peer) wait(ctx context.Context, k *kind) error {
	if err := p.until(ctx, k.timeout, func(ctx context.Context) error { return k.ready(ctx, p) }); err != nil {
		return err
	}
	return p.settle()
}

// until calls ready until it succeeds. It returns an error if a process exits or timeout expires.
func (p *Peer) until(ctx context.Context, timeout time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, askWait)
			defer cancel()
			return ready(ctx)
		}()
		if err == nil {
			return nil
		}
		for _, one := range p.Processes {
			if !one.alive() {
				return fmt.Errorf("%s ended; it says: %s", one.Name, one.tail())
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v: %w; its log: %s", timeout, err, p.Processes[len(p.Processes)-1].tail())
		case <-time.After(askEvery):
		}
	}
}

const (
	askWait  = 5 * time.Second
	askEvery = 50 * time.Millisecond
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
