package failover

import (
	"errors"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
)

// The layout of the picture.
const (
	plotWidth  = 900.0
	plotLeft   = 120.0
	plotRight  = 20.0
	plotTop    = 50.0
	laneHeight = 60.0
	// plotMargin is shown before the fault, and after the takeover.
	plotMargin = 2 * time.Second
)

// Plot draws the first round that has a takeover: a lane for each client with a tick for each
// acknowledgement or record, and its longest gap.
func (r *Result) Plot(w io.Writer) error {
	i := slices.IndexFunc(r.Rounds, func(r Round) bool { return r.Led > 0 })
	if i < 0 {
		return errors.New("plot: no round has a takeover")
	}
	round := &r.Rounds[i]
	from, to := round.From-plotMargin, min(round.To, round.From+round.Led+3*plotMargin)
	x := func(at time.Duration) float64 {
		return plotLeft + float64(at-from)/float64(to-from)*(plotWidth-plotLeft-plotRight)
	}
	height := plotTop + laneHeight*float64(len(r.tracks)) + 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, height, plotWidth, height)
	b.WriteString(`<style>text{fill:#333}.title{font-size:14px;font-weight:bold}.tick{stroke:#0072b2;stroke-width:0.8}</style><rect width="100%" height="100%" fill="#fff"/>` + "\n")
	fmt.Fprintf(&b, `<text class="title" x="%.0f" y="20">Acknowledgements and records, one tick each</text>`+"\n", plotLeft)
	bottom := height - 40
	mark := func(at time.Duration, text, colour, anchor string) {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f" stroke="%s" stroke-width="1.5"/><text x="%.1f" y="%.0f" text-anchor="%s">%s</text>`+"\n",
			x(at), x(at), plotTop-8, bottom, colour, x(at), plotTop-12, anchor, html.EscapeString(text))
	}
	for second := time.Duration(0); from+second <= to; second += max(time.Second, (to-from)/10).Truncate(time.Second) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.0f" text-anchor="middle">%.0f s</text>`+"\n", x(from+second), bottom+18, (second - plotMargin).Seconds())
	}
	for n, t := range r.tracks {
		top := plotTop + laneHeight*float64(n)
		lane(&b, t, top, from, to, x)
	}
	mark(round.From, string(round.Fault)+" ", "#d55e00", "end") // the other label may be close
	mark(round.From+round.Led, "next leader", "#009e73", "start")
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// lane draws the events of one client.
func lane(b *strings.Builder, t *track, top float64, from, to time.Duration, x func(time.Duration) float64) {
	fmt.Fprintf(b, `<text x="%.0f" y="%.1f" text-anchor="end">%s</text>`+"\n", plotLeft-10, top+laneHeight/2, html.EscapeString(t.name))
	var longest, begin, end time.Duration
	var path strings.Builder
	events := t.between(from, to)
	for i, e := range events {
		if i > 0 && e.at-events[i-1].at > longest {
			begin, end = max(events[i-1].at, from), min(e.at, to)
			longest = e.at - events[i-1].at
		}
		if e.at >= from && e.at <= to {
			fmt.Fprintf(&path, "M%.1f %.1fv%.1f", x(e.at), top+8, laneHeight-16)
		}
	}
	fmt.Fprintf(b, `<path class="tick" d="%s"/>`+"\n", path.String())
	if longest > 0 {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#d55e00" fill-opacity="0.12"/><text x="%.1f" y="%.1f" text-anchor="middle">%d ms</text>`+"\n",
			x(begin), top+4, x(end)-x(begin), laneHeight-8, (x(begin)+x(end))/2, top+laneHeight/2+4, longest.Milliseconds())
	}
}
