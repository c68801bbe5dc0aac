package differential

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// anonymousActor is an unauthenticated connection, new for each step.
const anonymousActor = -1

const (
	// parkTime is how long neither broker answers before a request counts as one that waits for
	// other members.
	parkTime = 150 * time.Millisecond
	// lagTime bounds the delay between the brokers' answers, and until a change is visible.
	lagTime = 20 * time.Second
	// againTime is how long requests that change nothing are repeated before a difference counts.
	againTime = 3 * time.Second
	againWait = 10 * time.Millisecond
)

// run is the comparison of a seed.
type run struct {
	seed     uint64
	kafka    *side
	seb      *side
	gen      *generator
	versions map[kmsg.Key][2]int16 // that both support
	wanted   map[string]int        // counts of wanted differences, by name
	compared int                   // requests
	number   int                   // of the step
	made     [2][]string           // topics that Kafka and Seb have just created
	apart    bool                  // the brokers are known to have different topics
	diverged []string              // topics that differ from here on because of a wanted difference
	// otherLeader means that the run has ended with errOtherLeader.
	otherLeader bool
	alter       func(kmsg.Response) // changes Seb's answers, in tests of the comparison
	history     []string
	due         []judgement
	served      map[[2]int16]int // compared answers, by key and version
	codes       map[string]int   // Kafka's codes by key; nil: not wanted
}

// nonceNow returns six letters of the time.
func nonceNow() string { return fmt.Sprintf("%06x", time.Now().UnixMilli()&0xffffff) }

func newRun(seed uint64, nonce, kafkaAddress, sebAddress string) (*run, error) {
	r := &run{
		seed: seed, kafka: newSide("Kafka", kafkaAddress), seb: newSide("Seb", sebAddress), gen: newGenerator(seed, nonce), wanted: map[string]int{},
		served: map[[2]int16]int{},
	}
	var err error
	r.versions, err = r.agree()
	return r, err
}

func (r *run) sides() []*side { return []*side{r.kafka, r.seb} }

func (r *run) close() {
	r.kafka.close()
	r.seb.close()
}

// agree finds the versions that both brokers and the codec support, of the keys that Seb supports.
func (r *run) agree() (map[kmsg.Key][2]int16, error) {
	var of [2]map[int16][2]int16
	for i, s := range r.sides() {
		c, err := s.client(mainActor)
		if err != nil {
			return nil, err
		}
		o := c.ask(kmsg.NewPtrApiVersionsRequest(), 2)
		resp, ok := o.resp.(*kmsg.ApiVersionsResponse)
		if !ok {
			return nil, fmt.Errorf("%s: no versions: %+v", s.name, o)
		}
		of[i] = map[int16][2]int16{}
		for _, k := range resp.ApiKeys {
			of[i][k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
	}
	both := map[kmsg.Key][2]int16{}
	for key, s := range of[1] {
		k, ok := of[0][key]
		if !ok {
			return nil, fmt.Errorf("%s is supported by Seb but not by Kafka", kmsg.NameForKey(key))
		}
		most := kmsg.RequestForKey(key).MaxVersion()
		both[kmsg.Key(key)] = [2]int16{max(k[0], s[0]), min(k[1], s[1], most)}
	}
	return both, nil
}

// steps runs n steps.
func (r *run) steps(n int) error {
	if err := r.prepare(); err != nil {
		return err
	}
	for r.number = 1; r.number <= n; r.number++ {
		err := r.step(r.gen.next())
		if err == nil {
			err = r.collect()
		}
		switch {
		case errors.Is(err, errOtherLeader):
			r.otherLeader = true
			return nil
		case err != nil:
			return r.failed(err)
		}
	}
	return nil
}

func (r *run) failed(err error) error {
	const shown = 25
	return fmt.Errorf("seed %d, step %d: %w\nprevious steps:\n  %s%s", r.seed, r.number, err, strings.Join(r.history[max(0, len(r.history)-shown):], "\n  "), r.rules())
}

// prepare waits until Kafka coordinates groups and assigns ids to producers, which it starts at the
// first request.
func (r *run) prepare() error { return errors.Join(r.kafka.ready(), r.kafka.coordinates()) }

func (s *side) ready() error {
	for until := time.Now().Add(time.Minute); ; time.Sleep(againWait) {
		c, err := s.client(mainActor)
		if err != nil {
			return err
		}
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = "anybody"
		heart := kmsg.NewPtrHeartbeatRequest()
		heart.Group, heart.MemberID = "anybody", "unknown"
		found, ok := c.ask(find, 2).resp.(*kmsg.FindCoordinatorResponse)
		beat, ok2 := c.ask(heart, 2).resp.(*kmsg.HeartbeatResponse)
		id, ok3 := c.ask(kmsg.NewPtrInitProducerIDRequest(), 0).resp.(*kmsg.InitProducerIDResponse)
		if ok && ok2 && ok3 && found.ErrorCode == 0 && beat.ErrorCode == codeUnknownMember && id.ErrorCode == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s does not coordinate groups: %+v %+v %+v", s.name, found, beat, id)
		}
	}
}

// step sends one request to both brokers and compares the answers.
func (r *run) step(st *step) error {
	version := r.version(st)
	r.history = append(r.history, fmt.Sprintf("%d: %s v%d: %s", r.number, kmsg.NameForKey(int16(st.key)), version, st.what))
	st.version = version
	if st.parks {
		return r.park(st)
	}
	for began := time.Now(); ; time.Sleep(againWait) {
		outcomes := r.both(st)
		err := r.judge(st, outcomes)
		if err != nil && st.reads && time.Since(began) < againTime {
			continue
		}
		if err == nil && st.marker != "" {
			err = r.ruled(st.marker)
		}
		if err != nil || !st.changes && !r.apart {
			return err
		}
		return r.settle()
	}
}

// version returns the step's version, within those that both support.
func (r *run) version(st *step) int16 {
	v, ok := r.versions[st.key]
	if v[0] = max(v[0], st.from); st.until > 0 {
		v[1] = min(v[1], st.until)
	}
	switch {
	case st.raw != nil || !ok:
		return st.version
	case st.version == anyVersion:
		return v[0] + r.gen.IntN16(int(v[1]-v[0])+1)
	}
	return max(v[0], min(st.version, v[1]))
}

// both sends a step to both brokers and waits for the outcomes.
func (r *run) both(st *step) [2]outcome {
	var out [2]outcome
	var wait sync.WaitGroup
	for i, s := range r.sides() {
		wait.Go(func() {
			out[i] = s.settled(st, func() outcome { return s.do(st) })
			s.finish(st, &out[i])
		})
	}
	wait.Wait()
	return out
}

// finish updates the side from an outcome.
func (s *side) finish(st *step, o *outcome) {
	if o.closed || o.err != nil || st.actor == anonymousActor {
		s.drop(st.actor)
	}
	if o.resp != nil {
		s.learn(st, o.resp)
	}
}

// do sends a step to a side and waits for the outcome.
func (s *side) do(st *step) outcome {
	c, req, err := s.begin(st)
	switch {
	case errors.Is(err, errClosed):
		return outcome{closed: true}
	case err != nil:
		return outcome{err: err}
	case !st.silent:
		return c.receive(req, st.version, answerWait)
	}
	// Another answer shows whether the connection is alive.
	o := c.ask(kmsg.NewPtrApiVersionsRequest(), 0)
	if o.resp == nil {
		return o
	}
	return outcome{none: true}
}

// begin sends a step.
func (s *side) begin(st *step) (*client, kmsg.Request, error) {
	c, err := s.clientFor(st.actor)
	if err != nil {
		return nil, nil, err
	}
	if st.raw != nil {
		c.last = 1
		req := kmsg.RequestForKey(int16(st.key))
		if err := c.frame(st.raw(s)); err != nil {
			return nil, nil, errClosed
		}
		return c, req, nil
	}
	req := st.build(s)
	if err := c.send(req, st.version); err != nil {
		return nil, nil, errClosed
	}
	return c, req, nil
}

func (s *side) clientFor(actor int) (*client, error) {
	if actor != anonymousActor {
		return s.client(actor)
	}
	s.drop(actor)
	c, err := connect(s.address)
	if err == nil {
		s.clients[actor] = c
	}
	return c, err
}

// park sends a step that may wait for other members. If neither broker answers soon it stays open.
func (r *run) park(st *step) error {
	for _, s := range r.sides() {
		c, req, err := s.begin(st)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		w := &waiting{step: st, came: make(chan outcome, 1)}
		c.open = w
		go func() { w.came <- c.receive(req, st.version, 10*time.Minute) }()
	}
	if done, err := r.take(st.actor, parkTime); done || err != nil {
		return err
	}
	r.gen.open[st.actor] = true
	r.history[len(r.history)-1] += " (waits)"
	if st.key == kmsg.JoinGroup {
		for a, m := range r.gen.members {
			if a != st.actor && m.group == st.group && (m.phase == synced || m.phase == joined) {
				m.phase = behind
			}
		}
	}
	return nil
}

// take compares the outcomes of an open request if one arrives in time; then the other must arrive
// as well.
func (r *run) take(actor int, wait time.Duration) (done bool, err error) {
	k, s := r.kafka.clients[actor], r.seb.clients[actor]
	var out [2]outcome
	late := time.After(wait)
	select {
	case out[0] = <-k.open.came:
		out[1], err = await(s, "Seb", out[0])
	case out[1] = <-s.open.came:
		out[0], err = await(k, "Kafka", out[1])
	case <-late:
		return false, nil
	}
	st := k.open.step
	if err != nil {
		return true, fmt.Errorf("%s: %w", st.what, err)
	}
	k.open, s.open = nil, nil
	for i, side := range r.sides() {
		side.finish(st, &out[i])
	}
	r.due = append(r.due, judgement{st, out})
	return true, nil
}

// judgement is a step and its outcomes.
type judgement struct {
	step *step
	out  [2]outcome
}

func await(c *client, name string, other outcome) (outcome, error) {
	select {
	case o := <-c.open.came:
		return o, nil
	case <-time.After(lagTime):
		return outcome{}, fmt.Errorf("%s does not answer, the other broker answers %s", name, show(other))
	}
}

// collect compares the outcomes of open requests. Answers that arrive together, like those to all
// members of a new generation, are all learned before one of them is compared, because they refer
// to each other.
func (r *run) collect() error {
	wait := time.Millisecond
	if len(r.due) > 0 {
		wait = parkTime / 5
	}
	for actor := firstMember; actor < firstMember+membersCount; actor++ {
		if !r.gen.open[actor] {
			continue
		}
		done, err := r.take(actor, wait)
		if err != nil {
			return err
		}
		if done {
			r.gen.open[actor] = false
		}
	}
	due := r.due
	r.due = nil
	for _, j := range due {
		if err := r.judge(j.step, j.out); err != nil {
			return err
		}
	}
	return nil
}
