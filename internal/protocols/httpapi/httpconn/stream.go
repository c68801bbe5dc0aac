package httpconn

// OpenStream begins a body that is passed on while it is read. It reserves n bytes instead of the
// size of the body. It reads nothing, and the body is not slow before the first Read: the request may
// wait for a broker to which it is passed on.
func (in *Body) OpenStream(n int64) error {
	in.step, in.slot = StepBytes, SlotOf(in.R.Context())
	in.later = true
	return in.Memory.Need(n)
}
