package result

import (
	"errors"
	"fmt"
	"reflect"
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
		add(&all.Counts, &p.Counts)
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

// add adds the numbers of a struct to those of another. Both have no other fields.
func add[T any](to, from *T) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range a.NumField() {
		switch f := a.Field(i); {
		case f.CanInt():
			f.SetInt(f.Int() + b.Field(i).Int())
		case f.CanUint():
			f.SetUint(f.Uint() + b.Field(i).Uint())
		default:
			f.SetFloat(f.Float() + b.Field(i).Float())
		}
	}
}

// mergeCurves merges every histogram of a run except those of its seconds and floor.
func (r *Run) mergeCurves(parts []Run) (err error) {
	g := &r.Generator
	g.CPUSeconds, g.GC = 0, GC{}
	longest := int64(0)
	for i := range parts {
		p := &parts[i].Generator
		g.CPUSeconds += p.CPUSeconds
		add(&g.GC, &p.GC)
		longest = max(longest, p.GC.PauseMaxNs)
	}
	g.GC.PauseMaxNs = longest
	for _, of := range []func(*Run) *Curve{
		func(p *Run) *Curve { return &p.Generator.Lag },
		func(p *Run) *Curve { return &p.Generator.OwnLag },
		func(p *Run) *Curve { return &p.Generator.Inside },
		func(p *Run) *Curve { return &p.Generator.Jitter },
	} {
		c, err := mergeCurve(parts, of)
		if err != nil {
			return err
		}
		*of(r) = *c
	}
	r.Curves, err = mergeAll(parts, func(p *Run) *Curves { return &p.Curves })
	return err
}

// mergeFloor merges the floors, if all parts have one.
func (r *Run) mergeFloor(parts []Run) error {
	floor := &Floor{}
	for i := range parts {
		if parts[i].Floor == nil {
			r.Floor = nil
			return nil
		}
		floor.SentRate += parts[i].Floor.SentRate
	}
	own, err := mergeCurve(parts, func(p *Run) *Curve { return &p.Floor.OwnLag })
	if err != nil {
		return err
	}
	floor.Duration, floor.OwnLag = parts[0].Floor.Duration, *own
	floor.Curves, err = mergeAll(parts, func(p *Run) *Curves { return &p.Floor.Curves })
	r.Floor = floor
	return err
}

// mergeAll merges the four curves of parts.
func mergeAll(parts []Run, of func(*Run) *Curves) (all Curves, err error) {
	merged := map[string]*Curve{}
	for _, name := range Names() {
		if merged[name], err = mergeCurve(parts, func(p *Run) *Curve { return of(p).Named(name) }); err != nil {
			return all, err
		}
	}
	return Curves{
		AckIntended: *merged[AckIntended], AckSent: *merged[AckSent], E2EIntended: merged[E2EIntended], E2ESent: merged[E2ESent],
	}, nil
}

// mergeCurve returns one curve with the samples of a curve of each part; nil if no part has it.
func mergeCurve[T any](parts []T, of func(*T) *Curve) (*Curve, error) {
	var sum *Histogram
	for i := range parts {
		c := of(&parts[i])
		if c == nil {
			continue
		}
		h, err := c.Histogram()
		if err != nil {
			return nil, fmt.Errorf("merge results: %w", err)
		}
		if sum == nil {
			sum = NewHistogram()
		}
		sum.Merge(h)
	}
	if sum == nil {
		return nil, nil
	}
	return new(sum.Curve()), nil
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
		var rows []Second
		for i := range parts {
			if n < len(parts[i].Seconds) {
				rows = append(rows, parts[i].Seconds[n])
			}
		}
		if len(rows) == 0 {
			return nil
		}
		ack, err := mergeCurve(rows, func(s *Second) *Curve { return &s.Ack })
		if err != nil {
			return err
		}
		e2e, err := mergeCurve(rows, func(s *Second) *Curve { return s.E2E })
		if err != nil {
			return err
		}
		row := rows[0]
		for i := range rows[1:] {
			row.add(&rows[i+1])
		}
		row.Ack, row.E2E = *ack, e2e
		r.Seconds = append(r.Seconds, row)
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
