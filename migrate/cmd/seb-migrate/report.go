package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/sebbroker/seb/migrate/compare"
)

// report writes a result for people: a line for each topic, each partition that differs and each group.
func report(w io.Writer, r *compare.Result) error {
	var b strings.Builder
	for _, t := range r.Topics {
		reportTopic(&b, t)
	}
	for _, g := range r.Groups {
		left := fmt.Sprint(g.ToLeft, " at --to")
		if g.ToLeft < 0 {
			left = "none at --to"
		}
		verdict := "equal"
		if g.Difference != "" {
			verdict = "DIFFERENT: " + g.Difference
		}
		fmt.Fprintf(&b, "group %s, %s partition %d: %d left at --from, %s: %s\n", g.Name, g.Topic, g.Partition, g.FromLeft, left, verdict)
	}
	if r.Equal {
		b.WriteString("The clusters are equal.\n")
	} else {
		b.WriteString("The clusters differ.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func reportTopic(b *strings.Builder, t compare.Topic) {
	name := "topic " + t.Name
	if t.Target != t.Name {
		name += " (" + t.Target + " at --to)"
	}
	if t.Difference != "" {
		fmt.Fprintf(b, "%s: DIFFERENT: %s\n", name, t.Difference)
		return
	}
	var from, to compare.Side
	var lines strings.Builder
	for _, p := range t.Partitions {
		from.Records, from.Keys = from.Records+p.From.Records, from.Keys+p.From.Keys
		to.Records, to.Keys = to.Records+p.To.Records, to.Keys+p.To.Keys
		if p.First != nil {
			fmt.Fprintf(&lines, "  partition %d: %d missing, %d doubled, %d extra, %d changed; first: %v\n",
				p.Number, p.Missing, p.Doubled, p.Extra, p.Changed, p.First)
			for _, r := range p.Repetitions {
				fmt.Fprintf(&lines, "  partition %d: %v\n", p.Number, &r)
			}
		}
	}
	counts := fmt.Sprintf("%d records at --from, %d at --to", from.Records, to.Records)
	if t.Compacted {
		counts = fmt.Sprintf("compacted, %d keys at --from, %d at --to", from.Keys, to.Keys)
	}
	verdict := "equal"
	if lines.Len() > 0 {
		verdict = "DIFFERENT"
	}
	fmt.Fprintf(b, "%s: %s: %s\n%s", name, counts, verdict, lines.String())
}
