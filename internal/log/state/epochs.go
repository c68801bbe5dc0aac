package state

// EpochsKept is how many of the newest epochs before the running one a state knows in any case. Those who delete ask for
// the epoch of a name: one that the state knows needs no look at the object.
const EpochsKept = 16

// forgetEpochs drops the epochs of which nobody needs the name any more: no range and no pack lies in them, no partition's
// newest record is of them, and they are not among the newest. All that is left of them in the store are their SEALs, which nobody looks for. It goes over every
// range, once an epoch.
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

// usedEpochs lists the epochs in which data lies, and those of the newest records: by them who follows the log knows
// whether it is still the same one.
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
			last, any := uint32(0), false // neighbours mostly lie in one epoch
			for i := range p.Ranges {
				if e := p.Ranges[i].Epoch; e != last || !any {
					used[e], last, any = true, e, true
				}
			}
		}
	}
	return used
}
