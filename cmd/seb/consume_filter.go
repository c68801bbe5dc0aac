package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/progress"
	"github.com/spf13/cobra"
)

// consumeFilter selects records, and shows how far the broker has looked for them.
type consumeFilter struct {
	where, contains string
	notice          io.Writer     // of the progress bar
	bar             *progress.Bar // of the present partition; nil: none
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
	if o.Follow {
		return
	}
	f.bar.Clear()
	f.bar = nil
	o.Progress = func(p client.ScanProgress) {
		_ = flush() // an error appears at the end
		if f.bar == nil {
			f.bar = progress.New(f.notice, fmt.Sprintf("partition %d", o.Partition), *p.NextOffset-*p.Offset+p.Records, nil)
		}
		f.bar.Set(p.Records)
	}
}

// over returns a writer of records that removes the progress bar first.
func (f *consumeFilter) over(w io.Writer) io.Writer { return &clearing{w, f} }

type clearing struct {
	io.Writer
	f *consumeFilter
}

func (c *clearing) Write(b []byte) (int, error) {
	c.f.bar.Clear()
	return c.Writer.Write(b)
}
