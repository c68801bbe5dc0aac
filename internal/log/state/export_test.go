package state

// Recounted computes the state's memory by visiting the whole state.
func (s *State) Recounted() Memory {
	c := *s
	c.tally = s.recount()
	return c.Memory()
}
