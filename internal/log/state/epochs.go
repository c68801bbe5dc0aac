package state

// EpochsKept is how many epochs before the current one a state always knows. Garbage collection
// looks up the epoch of each name: for a known epoch it need not read the object.
const EpochsKept = 16

// forgetEpochs drops the epochs whose names are no longer needed: no range or pack lies in them, no
// partition's newest record is theirs, and they are not among the newest. Only their SEALs remain
// in the store, and nothing reads those. The function visits every range, once per epoch.
func (s *State) forgetEpochs() {
	old := len(s.Epochs) - EpochsKept
	if old <= 0 {
		return
	}
	used := s.usedEpochs()
	kept := make([]Epoch, 0, EpochsKept+len(used)+1)
	for i, e := range s.Epochs {
		if used[e.Number] || i >= old {
			kept = append(kept, e)
		}
	}
	s.Epochs = kept
}

// usedEpochs returns the epochs that hold data, and those of the newest records. By the latter a
// follower of the log recognizes that it is still the same log.
func (s *State) usedEpochs() map[uint32]bool {
	used := map[uint32]bool{}
	for id := range s.packs {
		used[id.Epoch] = true
	}
	for _, t := range s.topics {
		for _, p := range t.Partitions.Written() {
			if n := len(p.Epochs); n > 0 {
				used[p.Epochs[n-1].Epoch] = true
			}
			last, any := uint32(0), false // neighbors mostly lie in the same epoch
			for i := range p.Ranges {
				if e := p.Ranges[i].Epoch; e != last || !any {
					used[e], last, any = true, e, true
				}
			}
		}
	}
	return used
}
