package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

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
