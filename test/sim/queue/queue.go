// Package queue is the simulator's queue of what is to happen: by time, and at the same time in the order in which it came.
package queue

import "container/heap"

// Queue is empty at first. It must not be used concurrently.
type Queue struct {
	all events
	seq uint64
}

// Push adds what is to happen at a time.
func (q *Queue) Push(at int64, do func()) {
	q.seq++
	heap.Push(&q.all, event{at, q.seq, do})
}

// Until is whether anything is to happen up to and with a time.
func (q *Queue) Until(end int64) bool { return len(q.all) > 0 && q.all[0].at <= end }

// Pop takes out what comes next, of which there must be something.
func (q *Queue) Pop() (at int64, do func()) {
	e := heap.Pop(&q.all).(event)
	return e.at, e.do
}

type event struct {
	at  int64
	seq uint64
	do  func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}
