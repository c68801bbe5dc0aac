package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// sent is a line of the mailbox.
type sent struct {
	ID      string    `json:"id"`
	SentAt  time.Time `json:"sent_at"`
	Trigger string    `json:"trigger"`
	State   string    `json:"state"`
	Entity  string    `json:"entity"`
	At      time.Time `json:"at"`
}

func (s *sent) mail() mail {
	return mail{trigger: s.Trigger, entity: s.Entity, at: s.At.UnixMilli(), retracted: s.State == "retracted"}
}

func readMailbox(path string) (list []sent, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		var s sent
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, s)
	}
}

// row is the result of one trigger or of all.
type row struct {
	trigger        string
	expected       int // mails by the definitions
	sent           int // lines of the mailbox
	again          int // repeated messages that the receiver ignored
	retractedEarly int // retracted before they were sent
	unretracted    int // sent and not retracted: the broker was killed before it recorded the delivery
	missing        int
	extra          int // unexpected or repeated
	early          int // sent before their instant
	delays         []time.Duration
}

// report is the result of a run.
type report struct {
	rows  []*row // by trigger, then all
	quiet []time.Duration
	notes []string // the first errors
}

const notesMax = 20

func (r *report) note(format string, args ...any) {
	if len(r.notes) < notesMax {
		r.notes = append(r.notes, fmt.Sprintf(format, args...))
	}
}

// ok reports whether each expected mail was sent once, no other mail was sent, and none early.
func (r *report) ok() bool {
	total := r.rows[len(r.rows)-1]
	return total.missing+total.extra+total.early == 0 && total.sent > 0
}

// compared compares the sent mails got with the expected ones. undelivered are the firings that were
// retracted before the broker recorded a delivery.
func compared(rules []rule, want map[mail]*mail, got []sent, undelivered map[mail]bool, w *processes) *report {
	rep := &report{}
	rows := map[string]*row{}
	for i := range rules {
		rows[rules[i].id] = &row{trigger: rules[i].id}
		rep.rows = append(rep.rows, rows[rules[i].id])
	}
	there, trigger := map[mail]int{}, map[string]string{}
	for i := range got {
		s := &got[i]
		x := rows[s.Trigger]
		if x == nil || trigger[s.ID] != "" {
			rep.note("unexpected mail: %s %+v", s.ID, s.mail())
			x = cmp.Or(x, rep.rows[0])
			x.extra++
			continue
		}
		trigger[s.ID] = s.Trigger
		there[s.mail()]++
		x.sent++
		delay := s.SentAt.Sub(s.At)
		if x.delays = append(x.delays, delay); delay < 0 {
			x.early++
			rep.note("mail early by %v: %+v", -delay, s.mail())
		}
		if w.undisturbed(s.At) {
			rep.quiet = append(rep.quiet, delay)
		}
	}
	for m, back := range want {
		rep.count(rows[m.trigger], m, back, there, undelivered)
	}
	for m := range there {
		rep.note("unexpected mail: %+v", m)
		rows[m.trigger].extra += there[m]
	}
	for id, n := range w.again {
		if x := rows[trigger[id]]; x != nil {
			x.again += n
		}
	}
	rep.rows = append(rep.rows, rep.total())
	return rep
}

// count removes an expected mail and its retraction back, if any, from the mails in there.
func (r *report) count(x *row, m mail, back *mail, there map[mail]int, undelivered map[mail]bool) {
	both := []mail{m}
	if back != nil {
		switch {
		case undelivered[m] && there[m] == 0 && there[*back] == 0:
			x.retractedEarly++
			return
		case undelivered[m] && there[m] == 1 && there[*back] == 0:
			x.unretracted++
		default:
			both = append(both, *back)
		}
	}
	for _, m := range both {
		x.expected++
		switch n := there[m]; {
		case n == 0:
			x.missing++
			r.note("missing mail: %+v", m)
		case n > 1:
			x.extra += n - 1
			r.note("mail sent %d times: %+v", n, m)
		}
		delete(there, m)
	}
}

func (r *report) total() *row {
	all := &row{trigger: "all"}
	for _, x := range r.rows {
		all.expected += x.expected
		all.sent += x.sent
		all.again += x.again
		all.retractedEarly += x.retractedEarly
		all.unretracted += x.unretracted
		all.missing += x.missing
		all.extra += x.extra
		all.early += x.early
		all.delays = append(all.delays, x.delays...)
	}
	return all
}

// settled is the time after an outage in which firings do not count as undisturbed, because the backlog is
// delivered.
const settled = 5 * time.Second

// undisturbed reports whether no outage was near at.
func (w *processes) undisturbed(at time.Time) bool {
	return !slices.ContainsFunc(w.outages, func(o outage) bool { return at.After(o.from.Add(-time.Second)) && at.Before(o.to.Add(settled)) })
}

func (r *report) print(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "TRIGGER\tEXPECTED\tSENT\tCAME AGAIN\tMISSING\tEXTRA\tEARLY\tLATE P50\tP99\tMAX\t")
	for _, x := range r.rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n", x.trigger, x.expected, x.sent, x.again, x.missing, x.extra, x.early, late(x.delays))
	}
	fmt.Fprintf(t, "all, undisturbed\t\t%d\t\t\t\t\t%s\t\n", len(r.quiet), late(r.quiet))
	_ = t.Flush()
	total := r.rows[len(r.rows)-1]
	if total.retractedEarly > 0 {
		fmt.Fprintf(out, "%d more were retracted before they were sent.\n", total.retractedEarly)
	}
	if total.unretracted > 0 {
		fmt.Fprintf(out, "%d were sent by a broker that was killed before it recorded the delivery, and were not retracted.\n", total.unretracted)
	}
	for _, text := range r.notes {
		fmt.Fprintln(out, text)
	}
}

// late formats the median, the 99th percentile and the maximum.
func late(delays []time.Duration) string {
	if len(delays) == 0 {
		return "-\t-\t-"
	}
	slices.Sort(delays)
	at := func(part float64) time.Duration {
		return delays[int(part*float64(len(delays)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("%v\t%v\t%v", at(0.5), at(0.99), at(1))
}
