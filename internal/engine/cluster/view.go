package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Member is a run of a broker on the bucket, as another run sees it.
type Member struct {
	Registration
	Self    bool // it is the run that tells this
	Leads   bool // as far as the run that tells this knows
	Up      bool // beats pass both ways
	Linked  bool // there is a link to it, which may be silent
	Gone    bool // it has ended
	Apart   bool // it and the run that tells this do not reach each other
	Beat    Beat // the newest, or what this run tells others
	HasBeat bool
	Silence time.Duration // since a beat passed both ways, for a run that is not up
	// Why says why the run does not become the leader; "": it may.
	Why string
}

// View is what a process knows of the brokers of its bucket. The methods read an atomic snapshot: they
// are cheap, and safe for concurrent use. The caller must not change what they return.
type View interface {
	// Self returns the registration of this run.
	Self() Registration
	// Leader returns the run that leads, which may be Self. false: no leader is known.
	Leader() (Registration, bool)
	// Members returns the known runs: Self first, then the others by name and run.
	Members() []Member
	// Wrong returns sentences for people about what is wrong with the brokers of this bucket.
	Wrong() []string
	// Changed returns a channel that is closed when Leader changes. Call it before Leader.
	Changed() <-chan struct{}
}

// Control is what an operator may ask of a broker.
type Control interface {
	// HandOver makes a standby lead instead of this broker, and returns when this broker has learned
	// that it leads. Errors: ErrNoStandby; state.ErrNotLeader; ctx's cause. After another error this
	// broker still leads.
	HandOver(ctx context.Context) error
	// Forget deletes the registration of a run that will not return. ErrUnknownRun: there is none.
	// ErrRunUp: the run is up.
	Forget(ctx context.Context, run Run) error
}

var (
	// ErrNoStandby: no other broker can take over now.
	ErrNoStandby = errors.New("no standby can take over now")
	// ErrUnknownRun: the bucket has no registration of that run.
	ErrUnknownRun = errors.New("no broker is registered under this run")
	// ErrRunUp: a run that is up is not forgotten.
	ErrRunUp = errors.New("this broker is up")
)

// Known is a snapshot for a View.
type Known struct {
	Members []Member
	Wrong   []string
	leader  int // index in Members; -1: none
	changed chan struct{}
}

// Board is a View that one goroutine writes.
type Board struct{ known atomic.Pointer[Known] }

// NewBoard returns a Board on which self is the only run, and no leader is known.
func NewBoard(self Registration) *Board {
	b := new(Board)
	b.known.Store(&Known{Members: []Member{{Registration: self, Self: true, Up: true}}, leader: -1, changed: make(chan struct{})})
	return b
}

// Set replaces the snapshot. The members begin with the run itself.
func (b *Board) Set(members []Member, wrong []string) {
	old := b.known.Load()
	k := &Known{Members: members, Wrong: wrong, leader: -1, changed: old.changed}
	for i := range members {
		if members[i].Leads {
			k.leader = i
		}
	}
	moved := k.leaderRun() != old.leaderRun()
	if moved {
		k.changed = make(chan struct{})
	}
	b.known.Store(k)
	if moved {
		close(old.changed)
	}
}

func (k *Known) leaderRun() Run {
	if k.leader < 0 {
		return Run{}
	}
	return k.Members[k.leader].Run
}

// Self implements View.
func (b *Board) Self() Registration { return b.known.Load().Members[0].Registration }

// Leader implements View.
func (b *Board) Leader() (Registration, bool) {
	k := b.known.Load()
	if k.leader < 0 {
		return Registration{}, false
	}
	return k.Members[k.leader].Registration, true
}

// Members implements View.
func (b *Board) Members() []Member { return b.known.Load().Members }

// Wrong implements View.
func (b *Board) Wrong() []string { return b.known.Load().Wrong }

// Changed implements View.
func (b *Board) Changed() <-chan struct{} { return b.known.Load().changed }
