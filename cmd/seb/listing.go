package main

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

const (
	// limitDefault is how many entries a listing prints that may be very long.
	limitDefault = 100
	// pageMax is how many are asked for at once, and how many rows of a table are laid out together.
	pageMax = 1000
	// cellMax bounds what is shown of bytes in a table.
	cellMax = 60
)

// pageOf is how many entries to ask for at once where a limit is given: one more tells that there are more.
func pageOf(limit int) int {
	if limit <= 0 || limit >= pageMax {
		return pageMax
	}
	return limit + 1
}

// listing prints entries as they come: rows of a table for people, or JSON, an object a line.
type listing[T any] struct {
	all    iter.Seq2[T, error]
	limit  int // 0: all
	json   bool
	head   string                        // of the table
	row    func(*bufio.Writer, *T) error // its cells end in tabs, it in a newline
	object func(*bufio.Writer, *T) error
	more   func(last *T) string // what to do if there are more than the limit
}

func (l *listing[T]) print(cmd *cobra.Command) error {
	if l.limit < 0 {
		return usageError{fmt.Errorf("--limit: %d, want 0 or more", l.limit)}
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	w, write := bufio.NewWriter(table), l.row
	flush := func() error { return errors.Join(w.Flush(), table.Flush()) }
	if l.json {
		w, write = bufio.NewWriter(cmd.OutOrStdout()), l.object
		flush = w.Flush
	} else {
		fmt.Fprintln(w, l.head)
	}
	n := 0
	var last T
	for v, err := range l.all {
		if err != nil {
			return errors.Join(err, flush())
		}
		if l.limit > 0 && n == l.limit {
			err := flush()
			fmt.Fprintf(cmd.ErrOrStderr(), "there are more: %s, or take all with --limit 0\n", l.more(&last))
			return err
		}
		last = v
		if err := write(w, &v); err != nil {
			return err
		}
		if n++; n%pageMax == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// cell shows bytes in a table: as they are if that is plain text, else quoted, and cut.
func cell(b []byte) string {
	s, cut := string(b[:min(len(b), cellMax)]), ""
	if len(b) > cellMax {
		for !utf8.ValidString(s) && len(s) > cellMax-utf8.UTFMax {
			s = s[:len(s)-1]
		}
		if !utf8.ValidString(s) {
			s = string(b[:cellMax])
		}
		cut = fmt.Sprintf("... (%d bytes)", len(b))
	}
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(s) != s || s[0] == '"' {
		s = strconv.Quote(s)
	}
	return s + cut
}

// stamp shows a record's time.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00") }
