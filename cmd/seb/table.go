package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// aligned returns a writer that aligns cells, which tabs separate, when it is flushed.
func aligned(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// printRow writes cells, of which there is at least one, as a line with tabs.
func printRow(w io.Writer, cells []any) error {
	_, err := fmt.Fprintf(w, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	return err
}

// printTable prints a table with a row for each value. The cells of head have tabs between them.
func printTable[T any](out io.Writer, head string, list []T, row func(*T) []any) error {
	w := aligned(out)
	fmt.Fprintln(w, head)
	for i := range list {
		if err := printRow(w, row(&list[i])); err != nil {
			return err
		}
	}
	return w.Flush()
}

const (
	// limitDefault is the default number of entries of listings that may be very long.
	limitDefault = 100
	// pageMax is the number of entries per request, and of table rows that are aligned together.
	pageMax = 1000
	// cellMax bounds the bytes that a table cell shows.
	cellMax = 60
)

// pageOf returns the page size for a limit: one more than the limit, to detect further entries.
func pageOf(limit int) int {
	if limit <= 0 || limit >= pageMax {
		return pageMax
	}
	return limit + 1
}

// listing prints entries as they arrive: as table rows, or as JSON, one object per line.
type listing[T any] struct {
	all    iter.Seq2[T, error]
	limit  int // 0: all
	json   bool
	head   string // table header, with tabs between the cells
	row    func(*T) []any
	object func(*bufio.Writer, *T) error
	more   func(last *T) string // how to get the entries beyond the limit
}

func (l *listing[T]) print(cmd *cobra.Command) error {
	if l.limit < 0 {
		return usageError{fmt.Errorf("--limit: %d, want 0 or more", l.limit)}
	}
	table := aligned(cmd.OutOrStdout())
	w := bufio.NewWriter(table)
	write := func(w *bufio.Writer, v *T) error { return printRow(w, l.row(v)) }
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
			fmt.Fprintf(cmd.ErrOrStderr(), "more entries exist: %s, or print all with --limit 0\n", l.more(&last))
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

// cell formats bytes for a table: plain text unchanged, other bytes quoted, both cut.
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
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(s) != s || s[0] == '"' || s[0] == '(' {
		s = strconv.Quote(s)
	}
	return s + cut
}

// stamp formats a record's time.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00") }
