package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/driplang"
	"github.com/spf13/cobra"
)

// consumeFilter selects records, and shows how far the broker has looked for them.
type consumeFilter struct {
	where, contains string
	notice          io.Writer                // of the progress bar
	bar             *progressbar.ProgressBar // of the present partition; nil: none
}

func (f *consumeFilter) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.where, "where", "w", "", `only records whose value satisfies a filter of driplang (e.g. 'amount > 100 AND event = "purchase"')`)
	cmd.Flags().StringVar(&f.contains, "contains", "", "only records whose key or value contains this text")
}

// given reports whether there is a filter.
func (f *consumeFilter) given() bool { return f.where != "" || f.contains != "" }

// check reports what is wrong with the flags.
func (f *consumeFilter) check(cmd *cobra.Command, group string) error {
	for _, name := range []string{"where", "contains"} {
		switch text, _ := cmd.Flags().GetString(name); {
		case !cmd.Flags().Changed(name):
		case text == "":
			return fmt.Errorf("--%s: empty", name)
		case group != "":
			return fmt.Errorf("--%s: not together with --group, which commits all records", name)
		}
	}
	if f.where == "" {
		return nil
	}
	_, err := driplang.ParseFilter(f.where)
	if fault, ok := errors.AsType[*driplang.Error](err); ok {
		return fmt.Errorf("--where: %w", fault)
	}
	return err
}

// options adds the filter to the read of a partition. Records that were found are on the screen
// before the progress bar.
func (f *consumeFilter) options(o *client.ReadOptions, flush func() error) {
	if !f.given() {
		return
	}
	o.Where, o.Contains = f.where, []byte(f.contains)
	if o.Follow || !isTerminal(f.notice) {
		return
	}
	f.clear()
	f.bar = nil
	o.Progress = func(p client.ScanProgress) {
		_ = flush() // an error appears at the end
		if f.bar == nil {
			f.bar = newBar(f.notice, *p.NextOffset-*p.Offset+p.Records, fmt.Sprintf("partition %d", o.Partition), false)
		}
		_ = f.bar.Set64(p.Records)
	}
}

// clear removes the progress bar.
func (f *consumeFilter) clear() {
	if f.bar != nil {
		_ = f.bar.Clear()
	}
}

// over returns a writer of records that removes the progress bar first.
func (f *consumeFilter) over(w io.Writer) io.Writer { return &clearing{w, f} }

type clearing struct {
	io.Writer
	f *consumeFilter
}

func (c *clearing) Write(b []byte) (int, error) {
	c.f.clear()
	return c.Writer.Write(b)
}
