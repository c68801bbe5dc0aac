package main

import (
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/bench/result"
)

// writeHDR writes a run's histograms as text: its seconds into a .hlog, and each curve into a .hgrm.
// base is the path of the files without extensions.
func writeHDR(base string, r *result.Run) error {
	if err := writeFile(io.Discard, base+".hlog", func(w io.Writer) error { return writeSeconds(w, r) }); err != nil {
		return err
	}
	for _, name := range result.Names() {
		curve := r.Curves.Named(name)
		if curve == nil {
			continue
		}
		h, err := curve.Histogram()
		if err != nil {
			return err
		}
		if err := writeFile(io.Discard, fmt.Sprintf("%s-%s.hgrm", base, name), h.WritePercentiles); err != nil {
			return err
		}
	}
	return nil
}

func writeSeconds(w io.Writer, r *result.Run) error {
	log, err := result.NewHistogramLog(w, r.Started)
	if err != nil {
		return err
	}
	from := r.Started
	for i := range r.Seconds {
		row := &r.Seconds[i]
		to := r.Started.Add(time.Duration(row.At * float64(time.Second)))
		for _, c := range []struct {
			tag   string
			curve *result.Curve
		}{{"ack", &row.Ack}, {"e2e", row.E2E}} {
			if c.curve == nil {
				continue
			}
			h, err := c.curve.Histogram()
			if err == nil {
				err = log.Add(c.tag, from, to, h)
			}
			if err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}
