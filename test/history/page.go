package history

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// pageBefore and pageAfter are the numbers of operations shown around a violation.
	pageBefore, pageAfter = 300, 60
	// pageViolations bounds the violations with a time line.
	pageViolations = 4

	laneHeight, laneLeft, pageWidth = 18, 130, 1500
)

// bar is an operation, or a note, on a time line.
type bar struct {
	lane     string
	from, to int64 // to: never, if it did not end
	colour   string
	text     string
	op       int64
}

// WritePage draws a history around its violations as a self-contained HTML page. It reads in once
// per drawn violation.
func WritePage(path, title string, open func() (io.ReadCloser, error), violations []Violation) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("time line: %w", err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>%s</title><style>%s</style><h1>%[1]s</h1>\n", html.EscapeString(title), pageStyle)
	fmt.Fprintf(w, "<p>%d violations. %s</p><ol>\n", len(violations), legend())
	for _, v := range violations {
		fmt.Fprintf(w, "<li>%s</li>\n", html.EscapeString(v.String()))
	}
	fmt.Fprintln(w, "</ol>")
	for i, v := range violations {
		if i == pageViolations {
			break
		}
		bars, err := collectBars(open, v)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "<h2>%s</h2>\n", html.EscapeString(v.String()))
		draw(w, bars, v)
	}
	return w.Flush()
}

const pageStyle = "body{font:13px sans-serif;margin:1em}svg{background:#fafafa}text{font:11px monospace}rect:hover{stroke:#000}"

var colours = map[string]string{OK: "#4a9", Rejected: "#e90", Unknown: "#c5c", Failed: "#999", "": "#d33", "note": "#36c"}

func legend() string {
	var b strings.Builder
	for _, is := range []string{OK, Rejected, Unknown, Failed, "", "note"} {
		fmt.Fprintf(&b, "<span style='color:%s'>&#9632;</span> %s ", colours[is], cmp.Or(is, "no end"))
	}
	return b.String()
}

// collectBars returns the operations on the violation's partition around it, and the notes among
// them.
func collectBars(open func() (io.ReadCloser, error), v Violation) ([]bar, error) {
	in, err := open()
	if err != nil {
		return nil, fmt.Errorf("time line: %w", err)
	}
	defer in.Close()
	var bars []bar
	running := map[int64]int{} // index in bars, plus dropped
	gone, after := 0, 0
	err = Scan(in, func(e *Event) error {
		switch {
		case e.Note != "":
			bars = append(bars, bar{lane: "! " + e.Lane, from: e.T, to: e.T, colour: colours["note"], text: e.Note})
		case e.Do != "" && e.Part == v.Part:
			running[e.Op] = gone + len(bars)
			bars = append(bars, bar{lane: fmt.Sprintf("client %d", e.Client), from: e.T, to: never, colour: colours[""], text: describe(e), op: e.Op})
		case e.Is != "":
			if i, ok := running[e.Op]; ok && i >= gone {
				b := &bars[i-gone]
				b.to, b.colour = e.T, colours[e.Is]
				b.text += " → " + describe(e)
			}
			delete(running, e.Op)
		}
		if e.T > v.T {
			if after++; after > pageAfter {
				return io.EOF
			}
		} else if len(bars) > 2*pageBefore {
			gone += pageBefore
			bars = slices.Delete(bars, 0, pageBefore)
		}
		return nil
	})
	if err != nil && err != io.EOF {
		return nil, err
	}
	return bars, nil
}

// describe returns an event as short text.
func describe(e *Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s", e.Do, e.Is)
	add := func(set bool, format string, args ...any) {
		if set {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	add(e.Do != "", "op %d", e.Op)
	add(e.Do == Append, "%d.%d+%d", e.Client, e.Seq, e.N)
	add(e.Do == Read, "from %d", e.From)
	add(e.Do == Commit || e.Do == Trim, "to %d", e.To)
	add(e.Want != nil, "if %d", deref(e.Want))
	add(e.Group != "", "group %s", e.Group)
	add(e.Session != "", "session %s", e.Session)
	add(e.Form != "", "(%s)", e.Form)
	add(e.Code != "", "%s", e.Code)
	add(e.Is != "" && e.Epoch > 0, "epoch %d", e.Epoch)
	add(e.At != 0, "at %d", e.At)
	add(e.By != 0, "by op %d", e.By)
	add(e.End != 0, "end %d", e.End)
	add(e.Start != 0, "start %d", e.Start)
	add(len(e.Got) > 0, "got %s", runsText(e.Got))
	add(e.Bad != "", "BAD %s", e.Bad)
	return b.String()
}

func deref(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

func runsText(runs []Run) string {
	var b strings.Builder
	for i, r := range runs {
		if i == 12 {
			fmt.Fprintf(&b, "... (%d runs, to %d)", len(runs), runs[len(runs)-1][0]+runs[len(runs)-1][3]-1)
			break
		}
		fmt.Fprintf(&b, "%d:%d.%d+%d ", r[0], r[1], r[2], r[3])
	}
	return b.String()
}

// draw writes a time line as SVG, with a row for each client and each subject of a note.
func draw(w io.Writer, bars []bar, v Violation) {
	if len(bars) == 0 {
		return
	}
	first, last := bars[0].from, v.T
	lanes := map[string]int{}
	var names []string
	for _, b := range bars {
		first = min(first, b.from)
		if b.to != never {
			last = max(last, b.to)
		}
		if _, known := lanes[b.lane]; !known {
			lanes[b.lane] = 0
			names = append(names, b.lane)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		lanes[name] = i
	}
	x := func(t int64) float64 {
		return laneLeft + float64(min(t, last)-first)/float64(max(last-first, 1))*(pageWidth-laneLeft-20)
	}
	height := (len(names) + 2) * laneHeight
	fmt.Fprintf(w, "<p>%v to %v</p><svg width=%d height=%d>\n", time.Duration(first), time.Duration(last), pageWidth, height)
	for i, name := range names {
		fmt.Fprintf(w, "<text x=2 y=%d>%s</text><line x1=%d x2=%d y1=%d y2=%[4]d stroke='#ddd'/>\n", (i+1)*laneHeight-5, html.EscapeString(name), laneLeft, pageWidth, (i+1)*laneHeight)
	}
	fmt.Fprintf(w, "<line x1=%.1f x2=%.1[1]f y1=0 y2=%d stroke='#d33' stroke-dasharray='4'/>\n", x(v.T), height)
	for _, b := range bars {
		stroke := ""
		if b.op == v.Op && b.op != 0 {
			stroke = " stroke='#000' stroke-width=2"
		}
		fmt.Fprintf(w, "<rect x=%.1f y=%d width=%.1f height=%d fill='%s'%s><title>%v %s</title></rect>\n", x(b.from), lanes[b.lane]*laneHeight+3,
			max(x(b.to)-x(b.from), 2), laneHeight-6, b.colour, stroke, time.Duration(b.from), html.EscapeString(b.text))
	}
	fmt.Fprintln(w, "</svg>")
}
