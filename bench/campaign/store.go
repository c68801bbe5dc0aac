package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
)

// store is the folder of a campaign's results, a file for each step.
type store struct{ dir string }

func (s store) path(step *Step) string { return filepath.Join(s.dir, step.name()+".json") }

// read returns the result of a step; nil if there is none for its workload.
func (s store) read(step *Step) (*result.File, error) {
	f, err := result.Read(s.path(step))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, result.ErrSchema) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range f.Runs {
		if report.Key(&f.Runs[i].Workload) != report.Key(&step.Workload) {
			return nil, nil
		}
	}
	return f, nil
}

// done reports whether a step was measured.
func (s store) done(step *Step) (bool, error) {
	f, err := s.read(step)
	return f != nil && len(f.Runs) > 0, err
}

func (s store) write(step *Step, f *result.File) error {
	path := s.path(step)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return f.Write(path)
}

// all merges the existing results of a part's steps.
func (s store) all(steps []Step, part string) (*result.File, error) {
	sum := &result.File{}
	for i := range steps {
		if steps[i].Part != part {
			continue
		}
		f, err := s.read(&steps[i])
		if err != nil {
			return nil, err
		}
		if f == nil {
			continue
		}
		sum.Tool = f.Tool
		sum.Runs = append(sum.Runs, f.Runs...)
		sum.Failures = append(sum.Failures, f.Failures...)
	}
	return sum, nil
}

// errBusy means that another process uses the folder.
var errBusy = errors.New("another campaign is running")

// lock keeps other campaigns from starting and stopping brokers. The caller closes the result.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), errBusy), f.Close())
	}
	return f, nil
}
