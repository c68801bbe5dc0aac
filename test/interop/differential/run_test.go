package differential

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// strangerActor is a connection that has not shown who it is, new for each step.
const strangerActor = -1

const (
	// parkTime is how long neither broker answers until a request counts as one that waits for other members.
	parkTime = 150 * time.Millisecond
	// lagTime is how long a broker may take to say what the other one has said, or to show what was changed.
	lagTime = 20 * time.Second
	// againTime is how long requests that change nothing are asked again until a difference counts.
	againTime = 3 * time.Second
	againWait = 10 * time.Millisecond
)

// run is a seed that is being compared.
type run struct {
	seed     uint64
	kafka    *side
	seb      *side
	world    *world
	versions map[kmsg.Key][2]int16 // that both speak
	wanted   map[string]int        // differences that are in the table, by their names, and how often each came
	compared int                   // requests
	number   int                   // of the step
	made     [2][]string           // topics that Kafka and Seb say they have just made
	apart    bool                  // the two are known to have different topics
	diverged []string              // topics that the two see differently from here on, for a wanted difference
	// otherLeader says that the run has ended with errOtherLeader.
	otherLeader bool
	alter       func(kmsg.Response) // changes Seb's answers, in tests of the comparison
	history     []string
	due         []judgement
	served      map[[2]int16]int                                         // answers that were compared, by key and version
	list        func(st *step, bad []string, request, kafka, seb string) // collects unexpected differences, which then are no error
}

// nonceNow is six letters of the time.
func nonceNow() string { return fmt.Sprintf("%06x", time.Now().UnixMilli()&0xffffff) }

func newRun(seed uint64, nonce, kafkaAddress, sebAddress string) (*run, error) {
	r := &run{
		seed: seed, kafka: newSide("Kafka", kafkaAddress), seb: newSide("Seb", sebAddress), world: newWorld(seed, nonce), wanted: map[string]int{},
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

// agree finds the versions that both brokers and the codec speak, of the keys that Seb serves.
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
			return nil, fmt.Errorf("%s is served by Seb, not by Kafka", kmsg.NameForKey(key))
		}
		most := kmsg.RequestForKey(key).MaxVersion()
		both[kmsg.Key(key)] = [2]int16{max(k[0], s[0]), min(k[1], s[1], most)}
	}
	return both, nil
}

// steps takes n steps.
func (r *run) steps(n int) error {
	if err := r.prepare(); err != nil {
		return err
	}
	for r.number = 1; r.number <= n; r.number++ {
		err := r.step(r.world.next())
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
	return fmt.Errorf("seed %d, step %d: %w\nthe steps before:\n  %s", r.seed, r.number, err, strings.Join(r.history[max(0, len(r.history)-shown):], "\n  "))
}

// prepare waits until Kafka coordinates groups and gives ids to producers, which it begins to do when somebody asks.
func (r *run) prepare() error {
	for until := time.Now().Add(time.Minute); ; time.Sleep(againWait) {
		c, err := r.kafka.client(mainActor)
		if err != nil {
			return err
		}
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = "anybody"
		heart := kmsg.NewPtrHeartbeatRequest()
		heart.Group, heart.MemberID = "anybody", "nobody"
		found, ok := c.ask(find, 2).resp.(*kmsg.FindCoordinatorResponse)
		beat, ok2 := c.ask(heart, 2).resp.(*kmsg.HeartbeatResponse)
		id, ok3 := c.ask(kmsg.NewPtrInitProducerIDRequest(), 0).resp.(*kmsg.InitProducerIDResponse)
		if ok && ok2 && ok3 && found.ErrorCode == 0 && beat.ErrorCode == codeUnknownMember && id.ErrorCode == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("the Kafka does not coordinate groups: %+v %+v %+v", found, beat, id)
		}
	}
}

// step sends one request to both and compares.
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
		if err != nil && st.reads && time.Since(began) < r.patience() {
			continue
		}
		if err != nil || !st.changes && !r.apart {
			return err
		}
		return r.settle()
	}
}

// version is the step's, within what both speak.
func (r *run) version(st *step) int16 {
	v, ok := r.versions[st.key]
	switch {
	case st.raw != nil || !ok:
		return st.version
	case st.version == anyVersion:
		return v[0] + r.world.IntN16(int(v[1]-v[0])+1)
	}
	return max(v[0], min(st.version, v[1]))
}

// both sends a step to both brokers and waits for what comes of it.
func (r *run) both(st *step) [2]outcome {
	var out [2]outcome
	var wait sync.WaitGroup
	for i, s := range r.sides() {
		wait.Go(func() {
			out[i] = s.do(st)
			s.finish(st, &out[i])
		})
	}
	wait.Wait()
	return out
}

// finish learns from an outcome.
func (s *side) finish(st *step, o *outcome) {
	if o.closed || o.err != nil || st.actor == strangerActor {
		s.drop(st.actor)
	}
	if o.resp != nil {
		s.learn(st, o.resp)
	}
}

// do sends a step to a side and waits for what comes of it.
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
	// Whether it lives shows in another answer.
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
	if actor != strangerActor {
		return s.client(actor)
	}
	s.drop(actor)
	c, err := connect(s.address)
	if err == nil {
		s.clients[actor] = c
	}
	return c, err
}

// park sends a step that may wait for other members. If neither broker answers soon it is left open.
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
	r.world.open[st.actor] = true
	r.history[len(r.history)-1] += " (waits)"
	if st.key == kmsg.JoinGroup {
		for a, m := range r.world.members {
			if a != st.actor && m.group == st.group && (m.phase == synced || m.phase == joined) {
				m.phase = behind
			}
		}
	}
	return nil
}

// take compares the outcomes of an open request, if one comes in time; then the other one has to come as well.
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

// judgement is a step and what came of it.
type judgement struct {
	step *step
	out  [2]outcome
}

func await(c *client, name string, other outcome) (outcome, error) {
	select {
	case o := <-c.open.came:
		return o, nil
	case <-time.After(lagTime):
		return outcome{}, fmt.Errorf("%s does not answer, the other one says %s", name, show(other))
	}
}

// collect compares what has come of open requests. Answers that come together, as those to all members of a new generation,
// are all learned before one of them is compared: they name one another.
func (r *run) collect() error {
	wait := time.Millisecond
	if len(r.due) > 0 {
		wait = parkTime / 5
	}
	for actor := firstMember; actor < firstMember+membersCount; actor++ {
		if !r.world.open[actor] {
			continue
		}
		done, err := r.take(actor, wait)
		if err != nil {
			return err
		}
		if done {
			r.world.open[actor] = false
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

// patience is againTime, but when all differences are listed.
func (r *run) patience() time.Duration {
	if r.list != nil {
		return againTime / 10
	}
	return againTime
}
