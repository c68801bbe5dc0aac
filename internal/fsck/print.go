package fsck

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// orphansShown is the number of orphans and notes of each kind that are printed without --all.
const orphansShown = 5

// Printer prints each finding and then the summary, as text or JSON.
type Printer struct {
	W     io.Writer
	JSON  bool           // a line of JSON for each finding, and a last line with the summary
	All   bool           // every orphan and note; otherwise the first few of each kind
	kinds map[string]int // findings other than damage, by kind
}

// Found prints a finding.
func (p *Printer) Found(f Finding) {
	if p.JSON {
		_ = json.NewEncoder(p.W).Encode(f)
		return
	}
	if f.Severity != Damage && f.Severity != Exposed {
		if p.kinds == nil {
			p.kinds = map[string]int{}
		}
		p.kinds[f.Kind]++
		if n := p.kinds[f.Kind]; n > orphansShown && !p.All {
			return
		}
	}
	line := fmt.Sprintf("%s: %s", f.Severity, f.Kind)
	if f.Key != "" {
		line += " " + f.Key
	}
	if f.Text != "" {
		line += ": " + f.Text
	}
	const lostShown = 10
	for i, r := range f.Lost {
		if i == lostShown {
			line += fmt.Sprintf(", and %d more", len(f.Lost)-i)
			break
		}
		if i == 0 {
			line += "; lost: "
		} else {
			line += ", "
		}
		line += r.String()
	}
	fmt.Fprintln(p.W, line)
}

// Summary prints the report of a run. store names the bucket.
func (p *Printer) Summary(store string, r *Report, took time.Duration) {
	if p.JSON {
		_ = json.NewEncoder(p.W).Encode(map[string]any{"summary": r})
		return
	}
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		n := p.kinds[kind]
		if n > orphansShown && !p.All {
			fmt.Fprintf(p.W, "and %d more of the kind %q: --all shows them\n", n-orphansShown, kind)
		}
	}
	fmt.Fprintf(p.W, "%s\n", store)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(p.W, "  %-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("cluster", "%s, ends at epoch %d slot %d%s", r.Cluster, r.Epoch, r.Slot, map[bool]string{true: ", and a broker is writing to it"}[r.Grew])
	line("holds", "%s", counted(r.Listed))
	line("verified", "%s, %d seals, %d snapshots (%d of them compared with the log)", counted(r.Verified), r.Seals, r.Snapshots, r.Compared)
	if r.Views > 0 {
		line("views", "%d copies that machines without the file begin from", r.Views)
	}
	line("records", "%d in %d topics, %d partitions, %d ranges", r.Records, r.Topics, r.Partitions, r.Ranges)
	line("superseded", "%s that a broker will collect", counted(r.Superseded))
	line("orphans", "%s", counted(r.Orphans))
	if r.Deleted.Objects > 0 {
		line("removed", "%s", counted(r.Deleted))
	}
	line("damages", "%d", r.Damages)
	line("took", "%v", took.Round(time.Millisecond))
}

func counted(c Count) string { return fmt.Sprintf("%d objects, %d bytes", c.Objects, c.Bytes) }
