package model

import "math"

// snapshot writes a snapshot of the committed state, then collects garbage (R7).
func (p *process) snapshot(t *task, l *leadership) {
	n := name{kind: snapshotKind, at: p.pos, run: p.id.run}
	o := &object{snap: p.clone()}
	for t.put(n, o).verdict == none {
	}
	if p.leads != l {
		return
	}
	l.snapshots = append(l.snapshots, n)
	l.snapping = false
	if len(l.snapshots) < 2 {
		return
	}
	a := l.snapshots[len(l.snapshots)-2]
	for _, s := range t.list(snapshotKind).names {
		if s.at.compare(a.at) < 0 {
			t.remove(s)
		}
	}
	for _, s := range t.list(slotKind).names {
		if s.at.compare(a.at) >= 0 || !p.w.garbage && mix(uint64(s.at.slot), uint64(s.at.epoch.nonce))%3 == 0 || s.at.compare(l.collected) < 0 {
			continue // some garbage stays: collection is never complete
		}
		if r := t.get(s); r.verdict == found && !r.obj.seal {
			t.remove(s)
		}
	}
	l.collected = a.at
}

// lognormal returns a factor with median 1.
func lognormal(w *world) float64 { return math.Exp(w.rnd.NormFloat64() / 2) }
