package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/result"
)

// hdrLog writes a run's histograms as text.
type hdrLog struct {
	base string // path of the files without extensions
	file *os.File
	log  *result.HistogramLog
}

func newHDRLog(folder, name string) (*hdrLog, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	base := filepath.Join(folder, name)
	file, err := os.Create(base + ".hlog")
	if err != nil {
		return nil, err
	}
	return &hdrLog{base: base, file: file}, nil
}

// second adds a second to the .hlog.
func (l *hdrLog) second(from, to time.Time, h load.Hists) error {
	if l.log == nil {
		log, err := result.NewHistogramLog(l.file, from)
		if err != nil {
			return fmt.Errorf("write %s: %w", l.file.Name(), err)
		}
		l.log = log
	}
	err := l.log.Add("ack", from, to, h.Ack)
	if h.E2E != nil {
		err = errors.Join(err, l.log.Add("e2e", from, to, h.E2E))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", l.file.Name(), err)
	}
	return nil
}

// finish writes a .hgrm for each curve.
func (l *hdrLog) finish(r *result.Run) error {
	for _, name := range result.Names() {
		curve := r.Curves.Named(name)
		if curve == nil {
			continue
		}
		h, err := curve.Histogram()
		if err != nil {
			return err
		}
		f, err := os.Create(fmt.Sprintf("%s-%s.hgrm", l.base, name))
		if err != nil {
			return err
		}
		if err := errors.Join(h.WritePercentiles(f), f.Close()); err != nil {
			return err
		}
	}
	return l.close()
}

// close closes the .hlog. It may be called again.
func (l *hdrLog) close() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}
