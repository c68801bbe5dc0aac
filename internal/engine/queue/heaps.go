package queue

// offsets is a heap of ready messages, the oldest first.
type offsets []*message

func (h offsets) Len() int           { return len(h) }
func (h offsets) Less(i, j int) bool { return h[i].Offset < h[j].Offset }
func (h offsets) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *offsets) Push(x any)        { *h = append(*h, x.(*message)) }
func (h *offsets) Pop() any {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return m
}

// timer is a time of a message, or of a key. It counts only if the message has its number.
type timer struct {
	at     int64
	number int64
	m      *message
	k      *key
}

type timers []timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timers) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timers) Push(x any)        { *h = append(*h, x.(timer)) }
func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = timer{}
	*h = old[:len(old)-1]
	return t
}

// alarms is a heap of the queues that must be served at a time.
type alarms []*live

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].next < h[j].next }
func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].alarm, h[j].alarm = i, j
}

func (h *alarms) Push(x any) {
	l := x.(*live)
	l.alarm = len(*h)
	*h = append(*h, l)
}

func (h *alarms) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.alarm = -1
	return l
}
