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
	// Ready says that everything is connected here, and returns when the first message is due.
	Ready(ctx context.Context) (time.Time, error)
	// Report is told how far this part is: every second, and every tenth of one when it has sent all. It does not wait, and may
	// be called concurrently with the others.
	Report(t Totals)
	// Over is closed when Complete holds for all parts: nothing more is waited for.
	Over() <-chan struct{}
	// Exchange gives away what the subscribers here saw of the others' messages, and returns what theirs saw of those of this part.
	Exchange(ctx context.Context, mine []Sighting) ([]Sighting, error)
}

// Totals is how far a part is.
type Totals struct {
	Phase    string        `json:"phase"`
	Left     time.Duration `json:"left"` // until the last message is due
	Sent     int64         `json:"sent"`
	Acked    int64         `json:"acked"`
	Failed   int64         `json:"failed"`
	Received int64         `json:"received"`
	LagMax   time.Duration `json:"lag_max"` // of the last second
	// What follows is there when all was sent.
	AllSent bool         `json:"all_sent,omitempty"`
	Topics  []int64      `json:"topics,omitempty"` // acknowledged messages of each
	Groups  []GroupTotal `json:"groups,omitempty"`
}

// Group names one or more subscribers that together get every message of a topic: a subscriber by its number among those of
// the topic, or 0 for all of them when they share.
type Group struct {
	Topic  int `json:"topic"`
	Member int `json:"member"`
}

// GroupTotal is how many messages have reached a group, at one process.
type GroupTotal struct {
	Group
	Received int64 `json:"received"`
}

// Sighting is the messages of a publisher that have reached a group, at one process.
type Sighting struct {
	Group
	Publisher int    `json:"publisher"`
	Seen      []byte `json:"seen"` // a packed set of sequence numbers
}

// Deal is one part's share of the connections.
type Deal struct {
	PublisherFirst, Publishers int
	Subscribers                []Group // one for each, Member is its number
}

// ErrParts says that a workload can not be divided among so many.
var ErrParts = errors.New("there is not a publisher for each")

// DealOut divides a workload's connections among parts. Publishers are dealt evenly, in runs of numbers. A subscriber goes to a
// part that publishes to its topic, in turns: only what comes back to where it was sent is measured end to end.
func DealOut(w *workload.Workload, parts int) ([]Deal, error) {
	if parts < 1 || parts > w.Publishers {
		return nil, fmt.Errorf("%d publishers, %d processes: %w", w.Publishers, parts, ErrParts)
	}
	deals := make([]Deal, parts)
	publish := make([][]int, w.Topics) // the parts that publish to each topic
	for i := range deals {
		d := &deals[i]
		d.PublisherFirst = i * w.Publishers / parts
		d.Publishers = (i+1)*w.Publishers/parts - d.PublisherFirst
		for n := range min(d.Publishers, w.Topics) {
			topic := (d.PublisherFirst + n) % w.Topics
			publish[topic] = append(publish[topic], i)
		}
	}
	for topic, list := range publish {
		for n := range w.Subscribers {
			d := &deals[list[(n+topic)%len(list)]]
			d.Subscribers = append(d.Subscribers, Group{topic, n})
		}
	}
	return deals, nil
}

// own are the numbers of a part's subscribers of a topic.
func (d *Deal) own(topic int) []int {
	var list []int
	for _, g := range d.Subscribers {
		if g.Topic == topic {
			list = append(list, g.Member)
		}
	}
	return list
}

// groupsOf are the groups of a topic, of all parts.
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

// Complete says whether every message of all parts was answered, and as many have arrived everywhere as were acknowledged. It
// counts; afterwards each is looked at. inside: the system is in each process (sut.Inside), which has its own messages only.
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

// totals is how far this part is.
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

// reportEvery is how often a part that has sent all says how far it is.
const reportEvery = 100 * time.Millisecond

// drainTogether waits until all parts have what they can wait for, or the time for it is over.
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

// exchange tells the others which of their messages have arrived here, and keeps what they have seen of those of this part.
func (r *run) exchange(ctx context.Context) error {
	if r.o.Others == nil {
		return nil
	}
	r.deafen()
	var mine []Sighting
	for _, g := range r.groups {
		for number := g.Topic; number < r.w.Publishers && !r.apart; number += r.w.Topics {
			if r.publisher(number) == nil {
				mine = append(mine, Sighting{g.Group, number, g.tracker(number).Seen().Pack()})
			}
		}
	}
	others, err := r.o.Others.Exchange(ctx, mine)
	if err != nil {
		return fmt.Errorf("exchange what has arrived: %w", err)
	}
	r.elsewhere = map[sightingOf][]*workload.SequenceSet{}
	for _, s := range others {
		p := r.publisher(s.Publisher)
		if p == nil || p.topic != s.Topic {
			return fmt.Errorf("exchange what has arrived: publisher %d of topic %d is not of this part", s.Publisher, s.Topic)
		}
		set, err := workload.UnpackSequenceSet(s.Seen, r.sequencesMax)
		if err != nil {
			return fmt.Errorf("exchange what has arrived: messages of publisher %d: %w", s.Publisher, err)
		}
		of := sightingOf{s.Group, s.Publisher}
		r.elsewhere[of] = append(r.elsewhere[of], set)
	}
	return nil
}

// sightingOf is what a sighting is of.
type sightingOf struct {
	group     Group
	publisher int
}

// deafen has groups take no more messages: what they have seen is what was exchanged.
func (r *run) deafen() {
	for _, g := range r.groups {
		g.mu.Lock()
		g.deaf = true
		g.mu.Unlock()
	}
}

// publisher is the publisher of a number, nil if another part has it.
func (r *run) publisher(number int) *publisher {
	if n := number - r.deal.PublisherFirst; n >= 0 && n < len(r.publishers) {
		return r.publishers[n]
	}
	return nil
}

// sequencesMax is more messages than any publisher of a workload sends.
func sequencesMax(w *workload.Workload) uint64 {
	n := w.Rate.Float() * w.Length().Seconds() / float64(w.Publishers)
	return uint64(n+20*math.Sqrt(n)) + 100 // Poisson's numbers vary by their root
}
