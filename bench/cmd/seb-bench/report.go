package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
)

func newReport() *cobra.Command {
	var to reportOutput
	cmd := &cobra.Command{
		Use:   "report RESULT.json...",
		Short: "Write tables, pictures and a page of results",
		Long: `Combines the runs of one or more result files. Runs of the same work are shown side by side, and
repeats become a median and a range. Without a flag, the tables are written to the standard output as
Markdown.`,
		Example: `  seb-bench report my.json --html my.html
  seb-bench report monday.json friday.json --svg pictures/ --markdown tables.md`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			files, works, err := readWorks(paths)
			if err != nil {
				return err
			}
			return to.write(cmd.OutOrStdout(), files, works)
		},
	}
	f := cmd.Flags()
	f.StringVar(&to.html, "html", "", "file of a self-contained page with tables and charts")
	f.StringVar(&to.svg, "svg", "", "folder of the pictures, or a prefix of their names")
	f.StringVar(&to.markdown, "markdown", "", "file of the tables; - is the standard output")
	return cmd
}

// reportOutput is the files of a report; "" is none.
type reportOutput struct{ html, svg, markdown string }

var errNoRuns = errors.New("no runs were measured")

// readWorks reads result files and groups their runs.
func readWorks(paths []string) (files []*result.File, works []*report.Work, err error) {
	for _, path := range paths {
		f, err := result.Read(path)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	if works, err = report.Works(files...); err != nil {
		return nil, nil, err
	}
	if len(works) == 0 {
		return nil, nil, fmt.Errorf("%s: %w", strings.Join(paths, ", "), errNoRuns)
	}
	return files, works, nil
}

func (o *reportOutput) write(out io.Writer, files []*result.File, works []*report.Work) error {
	if o.html == "" && o.svg == "" && o.markdown == "" {
		o.markdown = "-"
	}
	if o.markdown == "-" {
		if err := report.Markdown(out, works); err != nil {
			return err
		}
		reportFailures(out, files)
	} else if o.markdown != "" {
		err := writeFile(out, o.markdown, func(w io.Writer) error {
			err := report.Markdown(w, works)
			reportFailures(w, files)
			return err
		})
		if err != nil {
			return err
		}
	}
	if o.html != "" {
		err := writeFile(out, o.html, func(w io.Writer) error { return report.HTML(w, works, files[0].Tool) })
		if err != nil {
			return err
		}
	}
	if o.svg == "" {
		return nil
	}
	return writePictures(out, o.svg, works)
}

// reportFailures lists failed runs.
func reportFailures(w io.Writer, files []*result.File) {
	for _, f := range files {
		for i := range f.Failures {
			x := &f.Failures[i]
			fmt.Fprintf(w, "Not measured: %s, %s: %s\n", x.Label, x.Workload.Name, x.Error)
		}
	}
}

// writePictures writes a file for each chart, into a folder or with a prefix.
func writePictures(out io.Writer, place string, works []*report.Work) error {
	info, err := os.Stat(place)
	switch {
	case strings.HasSuffix(place, "/"):
		err = os.MkdirAll(place, 0o755)
	case err == nil && info.IsDir():
		place += "/"
	default:
		place, err = place+"-", os.MkdirAll(filepath.Dir(place), 0o755)
	}
	if err != nil {
		return err
	}
	for _, p := range report.Pictures(works) {
		if err := writeFile(out, place+p.Name+".svg", p.Chart.SVG); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file after its text is complete, and reports it.
func writeFile(out io.Writer, path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(out, "written to", path)
	return nil
}

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

// shown are the percentiles of a line; 100 is the maximum.
var shown = []float64{50, 90, 99, 99.9, 99.99, 99.999, 99.9999, 100}

// printRun prints a run in a few lines.
func printRun(w io.Writer, r *result.Run) {
	name, curve := r.Curves.Headline()
	var cells []string
	for _, p := range shown[:len(shown)-1] {
		if d, ok := curve.At(p); ok {
			cells = append(cells, fmt.Sprintf("p%v %s", p, result.Time(float64(d))))
		}
	}
	cells = append(cells, "max "+result.Time(float64(curve.MaxNs)))
	fmt.Fprintf(w, "%s, run %d: %s of %d: %s\n", r.Label, r.Repeat, name, curve.Count, strings.Join(cells, "  "))
	if r.Floor != nil {
		_, floor := r.Floor.Curves.Headline()
		if d, ok := floor.At(99); ok {
			fmt.Fprintf(w, "  the generator alone: p99 %s\n", result.Time(float64(d)))
		}
	}
	if !r.Counts.Clean() || r.Counts.Reordered > 0 {
		fmt.Fprintf(w, "  %s\n", wrong(&r.Counts))
	}
	for _, e := range r.Errors {
		fmt.Fprintf(w, "  %d x %s\n", e.Count, e.Text)
	}
	for _, f := range r.Faults {
		if f.Error != "" {
			fmt.Fprintf(w, "  fault %q: %s\n", f.Fault, f.Error)
		}
	}
	for _, reason := range r.Validity.Reasons {
		fmt.Fprintf(w, "  INVALID: %s\n", reason)
	}
}

// wrong lists faults of messages.
func wrong(c *result.Counts) string {
	var list []string
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"failed", c.Failed},
		{"unanswered", c.Unanswered},
		{"unsent", c.Unsent},
		{"answered twice", c.DoneTwice},
		{"LOST", c.Lost},
		{"duplicates", c.Duplicates},
		{"reordered", c.Reordered},
		{"CORRUPT", c.Corrupt},
		{"foreign", c.Foreign},
	} {
		if f.n > 0 {
			list = append(list, fmt.Sprintf("%s: %d", f.name, f.n))
		}
	}
	return strings.Join(list, ", ")
}

// printSummaries writes a table: the median of each percentile, and the range of several runs.
func printSummaries(w io.Writer, works []*report.Work) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\ntarget\twork\tdurable\tcurve\tsent/s")
	for _, p := range shown[:len(shown)-1] {
		fmt.Fprintf(t, "\tp%v", p)
	}
	fmt.Fprint(t, "\tmax\t\n")
	for _, work := range works {
		for _, l := range work.Lines {
			rate := l.Of(func(r *result.Run) float64 { return r.Counts.SentRate })
			for _, curve := range result.Names() {
				most, ok := l.Max(curve)
				if !ok {
					continue
				}
				fmt.Fprintf(t, "%s\t%v/s x %v\t%s\t%s\t%.0f", l.Label, work.Workload.Rate, work.Workload.Size, l.Durability(), curve, rate.Middle)
				for _, p := range shown[:len(shown)-1] {
					s, ok := l.Percentile(curve, p)
					fmt.Fprint(t, "\t"+cell(s, ok))
				}
				fmt.Fprint(t, "\t"+cell(most, true)+"\t"+strings.Join(l.Faults(), ", ")+"\n")
			}
		}
	}
	_ = t.Flush() // to a terminal or a file of the caller
}

// cell formats a median and its range, or a dash if not all runs have enough samples.
func cell(s report.Spread, ok bool) string {
	switch {
	case !ok:
		return "-"
	case s.N == 1:
		return result.Time(s.Middle)
	}
	return fmt.Sprintf("%s (%s..%s)", result.Time(s.Middle), result.Time(s.Least), result.Time(s.Most))
}
