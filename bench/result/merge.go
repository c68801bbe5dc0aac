package result

import (
	"errors"
	"fmt"
)

// Merge combines the parts of a run by several machines with separate messages into one run. Its
// histograms hold exactly the samples of all parts. The descriptions of the system and the machine
// are those of the first part.
func Merge(parts []Run) (Run, error) {
	if len(parts) == 0 {
		return Run{}, errors.New("merge results: there are none")
	}
	all := parts[0]
	all.Errors, all.Seconds, all.Faults = nil, nil, nil
	all.Counts = Counts{}
	problems := map[string]int{}
	for i := range parts {
		p := &parts[i]
		if p.ID != all.ID {
			return Run{}, fmt.Errorf("merge results: part %d is of run %s, the first of %s", i+1, p.ID, all.ID)
		}
		all.Counts.add(&p.Counts)
		for _, e := range p.Errors {
			at, known := problems[e.Text]
			if !known {
				at = len(all.Errors)
				problems[e.Text] = at
				all.Errors = append(all.Errors, Problem{Text: e.Text})
			}
			all.Errors[at].Count += e.Count
		}
		all.Faults = append(all.Faults, p.Faults...)
		all.Colocated = all.Colocated || p.Colocated
	}
	if err := all.mergeCurves(parts); err != nil {
		return Run{}, err
	}
	if err := all.mergeFloor(parts); err != nil {
		return Run{}, err
	}
	all.mergeValidity(parts)
	return all, all.mergeSeconds(parts)
}

func (c *Counts) add(o *Counts) {
	for _, f := range []struct {
		to   *int64
		from int64
	}{
		{&c.Sent, o.Sent},
		{&c.Acked, o.Acked},
		{&c.Failed, o.Failed},
		{&c.Unanswered, o.Unanswered},
		{&c.Unsent, o.Unsent},
		{&c.Measured, o.Measured},
		{&c.Waited, o.Waited},
		{&c.DoneTwice, o.DoneTwice},
		{&c.Expected, o.Expected},
		{&c.Received, o.Received},
		{&c.Lost, o.Lost},
		{&c.Unexpected, o.Unexpected},
		{&c.Duplicates, o.Duplicates},
		{&c.Reordered, o.Reordered},
		{&c.Corrupt, o.Corrupt},
		{&c.Foreign, o.Foreign},
		{&c.Others, o.Others},
	} {
		*f.to += f.from
	}
	c.SentRate += o.SentRate
	c.ReceivedRate += o.ReceivedRate
}

// mergeCurves merges every histogram of a run except those of its seconds and floor.
func (r *Run) mergeCurves(parts []Run) error {
	var e2eIntended, e2eSent []*Curve
	lists := make([][]*Curve, 6)
	g := &r.Generator
	g.CPUSeconds, g.GC = 0, GC{}
	for i := range parts {
		p := &parts[i]
		for k, c := range []*Curve{
			&p.Curves.AckIntended, &p.Curves.AckSent, &p.Generator.Lag, &p.Generator.OwnLag, &p.Generator.Inside, &p.Generator.Jitter,
		} {
			lists[k] = append(lists[k], c)
		}
		if p.Curves.E2EIntended != nil && p.Curves.E2ESent != nil {
			e2eIntended, e2eSent = append(e2eIntended, p.Curves.E2EIntended), append(e2eSent, p.Curves.E2ESent)
		}
		g.CPUSeconds += p.Generator.CPUSeconds
		g.GC.add(&p.Generator.GC)
	}
	for k, into := range []*Curve{&r.Curves.AckIntended, &r.Curves.AckSent, &g.Lag, &g.OwnLag, &g.Inside, &g.Jitter} {
		c, err := mergeAll(lists[k])
		if err != nil {
			return err
		}
		*into = *c
	}
	if len(e2eIntended) == 0 {
		return nil
	}
	var err error
	if r.Curves.E2EIntended, err = mergeAll(e2eIntended); err != nil {
		return err
	}
	r.Curves.E2ESent, err = mergeAll(e2eSent)
	return err
}

// mergeFloor merges the floors, if all parts have one.
func (r *Run) mergeFloor(parts []Run) error {
	lists := make([][]*Curve, 5)
	var rate float64
	for i := range parts {
		f := parts[i].Floor
		if f == nil {
			r.Floor = nil
			return nil
		}
		rate += f.SentRate
		for k, c := range []*Curve{&f.Curves.AckIntended, &f.Curves.AckSent, &f.OwnLag, f.Curves.E2EIntended, f.Curves.E2ESent} {
			if c != nil {
				lists[k] = append(lists[k], c)
			}
		}
	}
	merged := make([]*Curve, len(lists))
	for k, list := range lists {
		if len(list) == 0 { // no subscribers
			continue
		}
		var err error
		if merged[k], err = mergeAll(list); err != nil {
			return err
		}
	}
	r.Floor = &Floor{
		Duration: parts[0].Floor.Duration, SentRate: rate, OwnLag: *merged[2],
		Curves: Curves{AckIntended: *merged[0], AckSent: *merged[1], E2EIntended: merged[3], E2ESent: merged[4]},
	}
	return nil
}

func (g *GC) add(o *GC) {
	g.Count += o.Count
	g.PauseNs += o.PauseNs
	g.PauseMaxNs = max(g.PauseMaxNs, o.PauseMaxNs)
	g.AllocBytes += o.AllocBytes
	g.Allocs += o.Allocs
	g.HeapBytes += o.HeapBytes
}

// mergeAll returns one curve with the samples of all curves.
func mergeAll(list []*Curve) (*Curve, error) {
	sum := NewHistogram()
	for _, c := range list {
		h, err := c.Histogram()
		if err != nil {
			return nil, fmt.Errorf("merge results: %w", err)
		}
		sum.Merge(h)
	}
	c, err := sum.Curve()
	return &c, err
}

// mergeValidity makes the run valid if all parts are.
func (r *Run) mergeValidity(parts []Run) {
	v := &r.Validity
	*v = Validity{Valid: true, Limit: v.Limit}
	v.Curve, _ = r.Curves.Headline()
	seen := map[string]bool{}
	for i := range parts {
		p := &parts[i].Validity
		v.Valid = v.Valid && p.Valid
		v.LagNs = max(v.LagNs, p.LagNs)
		v.P99Ns = max(v.P99Ns, p.P99Ns)
		for _, reason := range p.Reasons {
			v.Reasons = append(v.Reasons, fmt.Sprintf("part %d: %s", i+1, reason))
		}
		for _, note := range p.Notes {
			if !seen[note] {
				seen[note] = true
				v.Notes = append(v.Notes, note)
			}
		}
	}
}

// mergeSeconds adds up the n-th seconds of all parts, because their schedules started together.
func (r *Run) mergeSeconds(parts []Run) error {
	for n := 0; ; n++ {
		var row *Second
		var ack, e2e []*Curve
		for i := range parts {
			if n >= len(parts[i].Seconds) {
				continue
			}
			s := parts[i].Seconds[n]
			ack = append(ack, &s.Ack)
			if s.E2E != nil {
				e2e = append(e2e, s.E2E)
			}
			if row == nil {
				first := s
				row = &first
				continue
			}
			row.add(&s)
		}
		if row == nil {
			return nil
		}
		c, err := mergeAll(ack)
		if err != nil {
			return err
		}
		row.Ack = *c
		if len(e2e) > 0 {
			if row.E2E, err = mergeAll(e2e); err != nil {
				return err
			}
		}
		r.Seconds = append(r.Seconds, *row)
	}
}

// add adds everything except the curves.
func (s *Second) add(o *Second) {
	s.Sent += o.Sent
	s.Acked += o.Acked
	s.Failed += o.Failed
	s.Received += o.Received
	s.InFlight += o.InFlight
	s.LagMaxNs = max(s.LagMaxNs, o.LagMaxNs)
	s.BrokerCPU += o.BrokerCPU
	s.BrokerRSS += o.BrokerRSS
	s.GeneratorCPU += o.GeneratorCPU
	s.GeneratorRSS += o.GeneratorRSS
}
