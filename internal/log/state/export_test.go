package state

// Recounted is the state's memory as counted by going over it.
func (s *State) Recounted() Memory {
	c := *s
	c.tally = s.recount()
	return c.Memory()
}
