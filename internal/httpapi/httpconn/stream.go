package httpconn

// OpenStream begins a body that is passed on while it is read. It reserves n bytes instead of the
// size of the body. It reads nothing.
func (in *Body) OpenStream(n int64) error {
	in.step, in.slot = StepBytes, SlotOf(in.R.Context())
	if err := in.Memory.Need(n); err != nil {
		return err
	}
	in.beginRead()
	return nil
}
