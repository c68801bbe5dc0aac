// Package peers installs brokers, starts them on loopback with data folders of their own, and stops them again. Nothing
// is installed system-wide: programs are taken from the PATH, or put into a cache folder.
package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say where things are. The zero Options are usable inside Seb's repository.
type Options struct {
	// Repository is the folder of Seb's source; "": the nearest one above the working folder.
	Repository string
	// Cache is the folder of installed programs; "": bench/.cache in the repository.
	Cache string
	// Data is the folder of what runs: data, logs, and the state file; "": run in Cache.
	Data string
	// SebFlags are more flags of Seb's brokers, as in --batch-wait-time=25ms.
	SebFlags []string
	// Installed says that what is needed is in the cache already: nothing is installed or built before a start.
	Installed bool
	// Progress gets a line for each step; nil: none.
	Progress io.Writer

	built bool // Seb was, by this very call
}

// Target is how a driver reaches a peer.
type Target struct {
	Driver  string            `json:"driver"`
	Address string            `json:"address"`
	Options map[string]string `json:"options,omitempty"`
}

// Peer is a broker that runs.
type Peer struct {
	Name      string        `json:"name"` // as in redis-fsync
	Dir       string        `json:"dir"`  // its data and logs
	PID       int           `json:"pid"`  // of the broker itself
	Processes []Process     `json:"processes"`
	Targets   []Target      `json:"targets"`
	Start     time.Duration `json:"start_ns"` // how long it took until it answered

	address string       // host:port
	follow  func() error // starts a broker that follows this one, which is Seb
	o       *Options
}

// kind is a broker at a grade of durability.
type kind struct {
	name, doc string
	// install makes sure that the programs are there.
	install func(ctx context.Context, o *Options) error
	// start starts the processes of p, whose folder is there, and sets its PID, address and targets.
	start func(ctx context.Context, p *Peer) error
	// ready asks the broker something once.
	ready func(ctx context.Context, p *Peer) error
	// patience is how long it may take until the broker answers.
	patience time.Duration
}

// kinds are all there are, in the order in which they are listed.
var kinds = slices.Concat(redisKinds, natsKinds, rabbitKinds, kafkaKinds, sebKinds)

// Kind names what Up can start.
type Kind struct{ Name, Doc string }

// Kinds lists what Up can start: names such as redis-fsync. What is before the dash stands for all of its grades.
func Kinds() []Kind {
	list := make([]Kind, len(kinds))
	for i, k := range kinds {
		list[i] = Kind{k.name, k.doc}
	}
	return list
}

// ErrUnknown says that there is no peer of a name.
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

func allNames() []string {
	var list []string
	for _, k := range kinds {
		list = append(list, k.name)
	}
	return list
}

// resolve fills in the defaults; folders are absolute then.
func (o Options) resolve() (*Options, error) {
	if o.Repository == "" {
		root, err := Repository()
		if err != nil && o.Cache == "" {
			return nil, err
		}
		o.Repository = root
	}
	if o.Cache == "" {
		o.Cache = filepath.Join(o.Repository, "bench", ".cache")
	}
	if o.Data == "" {
		o.Data = filepath.Join(o.Cache, "run")
	}
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

// Repository is the nearest folder above the working one, or that itself, that holds Seb's source.
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
		_, _ = fmt.Fprintf(o.Progress, format+"\n", args...) // an error means only that the progress is not read
	}
}

// Up installs and starts peers that do not run yet, one after the other, and returns all that were named. When one does not
// come up, those before it stay. Names are those of Kinds.
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

// Install installs what peers need, and starts nothing. It continues after a failure; faults has the peers that were not installed.
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

// Down stops peers and removes their data: all that run, without names.
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
			if err := p.stop(ctx); err != nil {
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

// Running returns the peers that run.
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

// Start installs and starts one peer with its data in dir, noted nowhere: for who stops it with Stop or Kill. Only its
// program is in the cache.
func Start(ctx context.Context, options Options, name, dir string) (*Peer, error) {
	o, err := options.resolve()
	if err != nil {
		return nil, err
	}
	list, err := find([]string{name})
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%w: %q is several: %s", ErrUnknown, name, strings.Join(allNames(), ", "))
	}
	return launch(ctx, o, list[0], dir)
}

// launch installs and starts a peer and waits until it answers. If it does not nothing of it is left running.
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

// wait asks until the broker answers, ends, or has taken too long.
func (p *Peer) wait(ctx context.Context, k *kind) error {
	ctx, cancel := context.WithTimeout(ctx, k.patience)
	defer cancel()
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, askWait)
			defer cancel()
			return k.ready(ctx, p)
		}()
		if err == nil {
			return p.settle()
		}
		for _, one := range p.Processes {
			if !one.alive() {
				return fmt.Errorf("%s ended; it says: %s", one.Name, one.tail())
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v: %w; its log: %s", k.patience, err, p.Processes[len(p.Processes)-1].tail())
		case <-time.After(askEvery):
		}
	}
}

const (
	askWait  = 5 * time.Second
	askEvery = 50 * time.Millisecond
)
