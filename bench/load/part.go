package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sebbroker/seb/bench/workload"
)

// Others are the processes that do the other parts of a run.
type Others interface {
	// Ready reports that all connections are open here, and returns when the first message is due.
	Ready(ctx context.Context) (time.Time, error)
	// Report receives the progress of this part: every second, and ten times a second once
	// everything was sent. It does not wait, and may be called concurrently with the other methods.
	Report(t Totals)
	// Over is closed when Complete holds for all parts, so that there is nothing more to wait for.
	Over() <-chan struct{}
	// Exchange sends to the other parts which of their messages the subscribers here received, and
	// returns which messages of this part the others received.
	Exchange(ctx context.Context, mine []Receipts) ([]Receipts, error)
}

// Totals is the progress of a part.
type Totals struct {
	Phase    string        `json:"phase"`
	Left     time.Duration `json:"left"` // until the last message is due
	Sent     int64         `json:"sent"`
	Acked    int64         `json:"acked"`
	Failed   int64         `json:"failed"`
	Received int64         `json:"received"`
	LagMax   time.Duration `json:"lag_max"` // of the last second
	// The following fields are set when everything was sent.
	AllSent bool         `json:"all_sent,omitempty"`
	Topics  []int64      `json:"topics,omitempty"` // acknowledged messages per topic
	Groups  []GroupTotal `json:"groups,omitempty"`
}

// Group is one or more subscribers that together receive every message of a topic. Member is the
// number of the subscriber within the topic, or 0 for all subscribers if they share the messages.
type Group struct {
	Topic  int `json:"topic"`
	Member int `json:"member"`
}

// GroupTotal is how many messages reached a group in one process.
type GroupTotal struct {
	Group
	Received int64 `json:"received"`
}

// Receipts are the messages of a publisher that reached a group in one process.
type Receipts struct {
	Group
	Publisher int    `json:"publisher"`
	Seen      []byte `json:"seen"` // a packed set of sequence numbers
}

// Assignment is one part's share of the connections.
type Assignment struct {
	PublisherFirst, Publishers int
	Subscribers                []Group // Member is the number of each subscriber
}

// ErrParts is the error for a workload that cannot be divided among that many processes.
var ErrParts = errors.New("each process needs a publisher")

// Assign divides a workload's connections among parts. Publishers are divided evenly, with
// consecutive numbers for each part. Subscribers are assigned in turns to the parts that publish to
// their topic, because the end-to-end latency is only measured for messages that return to the part
// that sent them.
func Assign(w *workload.Workload, parts int) ([]Assignment, error) {
	if parts < 1 || parts > w.Publishers {
		return nil, fmt.Errorf("%d publishers, %d processes: %w", w.Publishers, parts, ErrParts)
	}
	assignments := make([]Assignment, parts)
	publish := make([][]int, w.Topics) // the parts that publish to each topic
	for i := range assignments {
		d := &assignments[i]
		d.PublisherFirst = i * w.Publishers / parts
		d.Publishers = (i+1)*w.Publishers/parts - d.PublisherFirst
		for n := range min(d.Publishers, w.Topics) {
			topic := (d.PublisherFirst + n) % w.Topics
			publish[topic] = append(publish[topic], i)
		}
	}
	for topic, list := range publish {
		for n := range w.Subscribers {
			d := &assignments[list[(n+topic)%len(list)]]
			d.Subscribers = append(d.Subscribers, Group{topic, n})
		}
	}
	return assignments, nil
}

// own returns the numbers of a part's subscribers of a topic.
func (d *Assignment) own(topic int) []int {
	var list []int
	for _, g := range d.Subscribers {
		if g.Topic == topic {
			list = append(list, g.Member)
		}
	}
	return list
}

// groupsOf returns the groups of a topic in all parts.
func groupsOf(w *workload.Workload, topic int) []Group {
	n := w.Subscribers
	if w.Shared {
		n = min(n, 1)
	}
	list := make([]Group, n)
	for i := range list {
		list[i] = Group{topic, i}
	}
	return list
}

// Complete reports whether every message of all parts has a response, and as many messages arrived
// everywhere as were acknowledged. It compares only numbers; each message is checked later. inside
// means that the system is in each process (sut.Inside), and has only the messages of that process.
func Complete(w *workload.Workload, parts []Totals, inside bool) bool {
	acked := make([]int64, w.Topics)
	received := map[Group]int64{}
	for i := range parts {
		t := &parts[i]
		if !t.AllSent || len(t.Topics) != w.Topics || t.Acked+t.Failed < t.Sent {
			return false
		}
		for topic, n := range t.Topics {
			acked[topic] += n
		}
		for _, g := range t.Groups {
			if inside && (g.Topic < 0 || g.Topic >= w.Topics || g.Received < t.Topics[g.Topic]) {
				return false
			}
			received[g.Group] += g.Received
		}
	}
	for topic := range w.Topics {
		for _, g := range groupsOf(w, topic) {
			if !inside && received[g] < acked[topic] {
				return false
			}
		}
	}
	return true
}

// totals returns the progress of this part.
func (r *run) totals(now int64, allSent bool) Totals {
	t := Totals{
		Phase: r.phase(now), Left: time.Duration(max(0, r.end-now)), Sent: r.sent.Load(), Acked: r.acked.Load(), Failed: r.failed.Load(),
		Received: r.received.Load(),
	}
	if allSent {
		t.AllSent, t.Topics = true, r.ackedByTopic()
		for _, g := range r.groups {
			t.Groups = append(t.Groups, GroupTotal{g.Group, g.received.Load()})
		}
	}
	return t
}

// reportEvery is how often a part that has sent everything reports its progress.
const reportEvery = 100 * time.Millisecond

// drainTogether waits until there is nothing more to wait for in any part, or the time limit is
// reached.
func (r *run) drainTogether(ctx context.Context) {
	r.draining.Store(true)
	report := int64(0)
	for now := r.clock.Now(); now < r.deadline; now = r.clock.Now() {
		if now >= report {
			report = now + int64(reportEvery)
			r.o.Others.Report(r.totals(now, true))
		}
		select {
		case <-r.o.Others.Over():
			return
		default:
		}
		if r.clock.SleepUntil(ctx, min(now+int64(drainStep), r.deadline)) != nil {
			return
		}
	}
}

// exchange tells the other parts which of their messages arrived here, and stores which messages of
// this part they received.
func (r *run) exchange(ctx context.Context) error {
	if r.o.Others == nil {
		return nil
	}
	r.closeGroups()
	var mine []Receipts
	for _, g := range r.groups {
		for number := g.Topic; number < r.w.Publishers && !r.ownSystems; number += r.w.Topics {
			if r.publisher(number) == nil {
				mine = append(mine, Receipts{g.Group, number, g.tracker(number).Seen().Pack()})
			}
		}
	}
	others, err := r.o.Others.Exchange(ctx, mine)
	if err != nil {
		return fmt.Errorf("exchange receipts: %w", err)
	}
	r.receipts = map[receiptsKey][]*workload.SequenceSet{}
	for _, s := range others {
		p := r.publisher(s.Publisher)
		if p == nil || p.topic != s.Topic {
			return fmt.Errorf("exchange receipts: publisher %d of topic %d does not belong to this part", s.Publisher, s.Topic)
		}
		set, err := workload.UnpackSequenceSet(s.Seen, r.sequencesMax)
		if err != nil {
			return fmt.Errorf("exchange receipts: messages of publisher %d: %w", s.Publisher, err)
		}
		of := receiptsKey{s.Group, s.Publisher}
		r.receipts[of] = append(r.receipts[of], set)
	}
	return nil
}

// receiptsKey says which group received messages from which publisher.
type receiptsKey struct {
	group     Group
	publisher int
}

// closeGroups stops counting messages: the counts must match the receipts that were exchanged.
func (r *run) closeGroups() {
	for _, g := range r.groups {
		g.mu.Lock()
		g.closed = true
		g.mu.Unlock()
	}
}

// publisher returns the publisher with a number, nil if it belongs to another part.
func (r *run) publisher(number int) *publisher {
	if n := number - r.assigned.PublisherFirst; n >= 0 && n < len(r.publishers) {
		return r.publishers[n]
	}
	return nil
}

// sequencesMax is more than the number of messages that any publisher of a workload sends.
func sequencesMax(w *workload.Workload) uint64 {
	n := w.Rate.Float() * w.Length().Seconds() / float64(w.Publishers)
	// The number of Poisson arrivals varies by its square root.
	return uint64(n+20*math.Sqrt(n)) + 100
}
