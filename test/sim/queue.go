package sim

import "container/heap"

// queue holds scheduled functions, ordered by time and then by insertion.
type queue struct {
	all queueItems
	seq uint64
}

// push schedules a function.
func (q *queue) push(at int64, do func()) {
	q.seq++
	heap.Push(&q.all, queueItem{at, q.seq, do})
}

// until reports whether a function is scheduled up to and including end.
func (q *queue) until(end int64) bool { return len(q.all) > 0 && q.all[0].at <= end }

// pop removes and returns the next function. The queue must not be empty.
func (q *queue) pop() (at int64, do func()) {
	e := heap.Pop(&q.all).(queueItem)
	return e.at, e.do
}

type queueItem struct {
	at  int64
	seq uint64
	do  func()
}

type queueItems []queueItem

func (q queueItems) Len() int { return len(q) }
func (q queueItems) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queueItems) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queueItems) Push(x any)   { *q = append(*q, x.(queueItem)) }
func (q *queueItems) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = queueItem{}
	*q = old[:len(old)-1]
	return e
}
