package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// positionValue is a position as a header value.
type positionValue struct {
	pos   state.Position
	value []string
}

// positions tells clients which position an answer includes.
type positions struct {
	b    *broker.Broker
	last atomic.Pointer[positionValue]
}

// set sets the header. Call it after the state was read.
func (p *positions) set(h http.Header) {
	pos, _, known := p.b.LogPosition()
	if !known {
		return
	}
	v := p.last.Load()
	if v == nil || v.pos != pos {
		v = &positionValue{pos: pos, value: []string{textOf(pos)}}
		p.last.Store(v)
	}
	h[api.HeaderPosition] = v.value
}

// textOf returns a position as in headers. All topics are in shard 0.
func textOf(pos state.Position) string { return fmt.Sprintf("0:%d:%d", pos.Epoch, pos.Slot) }

// positionOf reads a position of a header.
func positionOf(text string) (pos state.Position, ok bool) {
	shard, rest, _ := strings.Cut(text, ":")
	epoch, slot, _ := strings.Cut(rest, ":")
	e, err := strconv.ParseUint(epoch, 10, 32)
	s, fault := strconv.ParseUint(slot, 10, 64)
	return state.Position{Epoch: uint32(e), Slot: s}, err == nil && fault == nil && shard == "0"
}

// nudgeAfter is the time after which a read that waits for a position asks the store.
const nudgeAfter = 100 * time.Millisecond

// reached waits until this broker has applied what a read must include: the position that the request
// names, and what this broker has relayed from the leader. It returns false if that takes too long.
func (a *API) reached(r *http.Request) (bool, error) {
	wanted := a.floor(r)
	if text := r.Header.Get(api.HeaderAfter); text != "" {
		pos, ok := positionOf(text)
		if !ok {
			return false, problem.BadField(api.HeaderAfter, "want shard:epoch:slot, such as 0:3:17, given %s", problem.Quote(text))
		}
		if wanted.Less(pos) {
			wanted = pos
		}
	}
	if wanted == (state.Position{}) {
		return true, nil
	}
	return a.applies(r, wanted)
}

// caughtUp waits until this broker has applied what it has relayed without a name, such as new tokens.
// It returns false if that is nothing, or takes too long.
func (a *API) caughtUp(r *http.Request) bool {
	wanted := a.floors.unnamed()
	if wanted == (state.Position{}) {
		return false
	}
	done, err := a.applies(r, wanted)
	return done && err == nil
}

// applies waits until this broker has applied a position. It returns false if that takes too long.
func (a *API) applies(r *http.Request, wanted state.Position) (bool, error) {
	if a.b.Applied(wanted) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.LeaderWait)
	defer cancel()
	soon, done := context.WithTimeout(ctx, nudgeAfter)
	err := a.b.WaitApplied(soon, wanted)
	done()
	if err != nil && ctx.Err() == nil {
		// No link tells what other brokers have committed, or this is a leader that does not know its
		// successor.
		if err = a.b.Confirm(ctx); err == nil && a.leadsBelow(wanted) {
			return true, nil
		}
		if err == nil {
			err = a.b.WaitApplied(ctx, wanted)
		}
	}
	if err != nil && r.Context().Err() != nil {
		return false, context.Cause(r.Context())
	}
	return err == nil, nil
}

// leadsBelow reports whether this broker leads in the epoch of a position that is beyond its end. Such
// a position is of another log, because this broker has confirmed that it leads.
func (a *API) leadsBelow(wanted state.Position) bool {
	now, _, known := a.b.LogPosition()
	return known && a.b.Leads() && now.Epoch == wanted.Epoch
}

// floor returns the position below which this broker does not answer a read.
func (a *API) floor(r *http.Request) state.Position {
	if !a.floors.some.Load() {
		return state.Position{}
	}
	applied, _, _ := a.b.LogPosition()
	return a.floors.of(a.namesOf(r), applied)
}

// notYet refuses a read that must include a position that this broker does not have.
func notYet() error {
	return problem.New(api.NotYet, "this broker has not applied the position of the request, and knows no leader that has; try again")
}

// namesOf returns the topic and the group of a request, as keys of floors.
func (a *API) namesOf(r *http.Request) (names []string) {
	q := httpconn.ParseParams(r.URL.RawQuery)
	topic, given := q.Text(httpconn.ParamTopic)
	if !given && r.URL.Path == "/event" {
		topic, given = a.o.EventsTopic, true
	}
	if given {
		names = append(names, "topic "+topic)
	}
	if group, given := q.Text(httpconn.ParamGroup); given {
		names = append(names, "group "+group)
	}
	return names
}

// relayed notes the position of an answer of the leader.
func (a *API) relayed(r *http.Request, resp *http.Response) {
	if pos, ok := positionOf(resp.Header.Get(api.HeaderPosition)); ok && resp.StatusCode < 400 {
		a.floors.note(a.namesOf(r), pos)
	}
}

// floorsMax bounds the names of floors.
const floorsMax = 1024

// floors are positions of answers that this broker has relayed from the leader and not yet applied.
// Its own answers about the same topics and groups include them, so that a client of one broker reads
// its writes.
type floors struct {
	some atomic.Bool // there is a floor

	mu     sync.Mutex // guards the fields below
	all    state.Position
	others state.Position // of requests without a name, and of names beyond floorsMax
	names  map[string]state.Position
}

func (f *floors) note(names []string, pos state.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = later(f.all, pos)
	if len(names) == 0 || len(f.names)+len(names) > floorsMax {
		f.others = later(f.others, pos)
	} else {
		if f.names == nil {
			f.names = map[string]state.Position{}
		}
		for _, name := range names {
			f.names[name] = later(f.names[name], pos)
		}
	}
	f.some.Store(true)
}

// of returns the floor of a read: that of its names, or the highest for a read without a name. It
// forgets all that is applied.
func (f *floors) of(names []string, applied state.Position) state.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !applied.Less(f.all) {
		f.all, f.others, f.names = state.Position{}, state.Position{}, nil
		f.some.Store(false)
		return state.Position{}
	}
	if len(names) == 0 {
		return f.all
	}
	floor := f.others
	for _, name := range names {
		floor = later(floor, f.names[name])
	}
	return floor
}

// unnamed returns the floor of requests without a name.
func (f *floors) unnamed() state.Position {
	if !f.some.Load() {
		return state.Position{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.others
}

func later(p, q state.Position) state.Position {
	if p.Less(q) {
		return q
	}
	return p
}
