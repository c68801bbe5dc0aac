package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/sebtest"

	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gated is a store whose PUTs wait while the gate is closed.
type gated struct {
	objstore.Store
	gate atomic.Pointer[chan struct{}]
}

func (g *gated) Put(ctx context.Context, key string, body objstore.Body) error {
	if ch := g.gate.Load(); ch != nil {
		select {
		case <-*ch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g.Store.Put(ctx, key, body)
}

// shut blocks all PUTs until open is called.
func (g *gated) shut() (open func()) {
	ch := make(chan struct{})
	g.gate.Store(&ch)
	return func() {
		g.gate.Store(nil)
		close(ch)
	}
}

// life is a broker with its coordinator.
type life struct {
	t *testing.T
	b *broker.Broker
	c *coordinator.Coordinator
}

func open(t *testing.T, s objstore.Store, change func(o *coordinator.Options)) *life {
	t.Helper()
	b := must.Get(broker.Open(t.Context(), broker.Options{
		Options:    log.Options{Store: s, Budget: budget.New(64 << 20), Batch: log.Config{Wait: time.Millisecond}, Timeouts: log.Timeouts{Put: 50 * time.Millisecond, Read: 50 * time.Millisecond}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
		AutoCreate: true,
	}))(t)
	o := coordinator.Options{Broker: b, InitialDelay: -1, SessionMin: time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	l := &life{t: t, b: b, c: coordinator.Open(context.Background(), o)}
	t.Cleanup(l.kill)
	if err := b.EnsureTopic(t.Context(), "t"); err != nil && !errors.Is(err, state.ErrReadOnly) {
		t.Fatal(err)
	}
	return l
}

// kill stops both as a crash does: nothing is sent any more.
func (l *life) kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.b.Close(ctx)
	l.c.Close()
}

func request(member string) *group.JoinRequest {
	return &group.JoinRequest{
		Group: "g", Member: member, Client: "c", ProtocolType: "consumer", SessionTimeout: int64(time.Minute),
		Protocols: []group.Protocol{{Name: "range", Metadata: []byte("m")}},
	}
}

// soon receives from a channel.
func soon[T any](t *testing.T, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(sebtest.Limit):
		t.Fatal("no answer within 20s")
	}
	return v
}

func caller(a group.JoinAnswer) *group.Caller {
	return &group.Caller{Group: "g", Member: a.Member, Client: "c", Generation: a.Generation}
}

// member creates a group of one member.
func (l *life) member() group.JoinAnswer {
	l.t.Helper()
	a := soon(l.t, l.c.Join(request("")))
	must.Equalf(l.t, a.Code, group.OK, "join: answer %+v", a)
	s := soon(l.t, l.c.Sync(&group.SyncRequest{Caller: *caller(a), Assignments: []group.Assignment{{Member: a.Member, Data: []byte("all")}}}))
	if s.Code != group.OK || string(s.Assignment) != "all" {
		l.t.Fatalf("sync: answer %+v, want assignment \"all\"", s)
	}
	return a
}

func (l *life) commit(r *group.Caller, offset int64) group.Code {
	errs, code := l.c.Commit(r, nil, []broker.OffsetCommit{{Topic: "t", Offset: offset}})(context.Background())
	switch {
	case code != group.OK || errs[0] == nil:
		return code
	case errors.Is(errs[0], state.ErrOutcomeUnknown):
		return group.RequestTimedOut
	case errors.Is(errs[0], state.ErrFenced), errors.Is(errs[0], broker.ErrClosed):
		return group.NotCoordinator
	}
	l.t.Fatal(errs[0])
	return code
}

func (l *life) committed() int64 {
	l.t.Helper()
	info := must.Get(l.c.Offsets(l.t.Context(), "g"))(l.t)
	if len(info.Offsets) == 0 {
		return -1
	}
	return info.Offsets[0].Offset
}

func (l *life) used() int64 { return l.b.Budget().Class(budget.Groups).Used() }

func TestAGroupIsTheSameFromEverySide(t *testing.T) {
	ctx := t.Context()
	l := open(t, objstore.NewMemory(), nil)
	must.Equalf(t, l.committed(), -1, "offset of a new group")
	a := l.member()
	must.Equal(t, l.commit(caller(a), 3), group.OK)
	if g, err := l.b.Group(ctx, "g", false); err != nil || g.Offsets[0].Offset != 3 {
		t.Fatal(g, err)
	}
	expected := int64(3)
	errs := l.c.CommitOffsets(ctx, "g", []broker.OffsetCommit{{Topic: "t", Offset: 9}, {Topic: "t", Offset: 4, Expected: &expected}, {Topic: "t", Offset: 9, Expected: &expected, NoMembers: true}})
	if !errors.Is(errs[0], broker.ErrGroupActive) || errs[1] != nil || !errors.Is(errs[2], broker.ErrGroupActive) || l.committed() != 4 {
		t.Fatal(errs, l.committed())
	}
	for _, err := range []error{l.c.DeleteGroup(ctx, "g"), l.c.DeleteOffset(ctx, "g", "t", 0)} {
		must.ErrorIs(t, err, broker.ErrGroupActive)
	}
	if v, code := l.c.Describe("g"); code != group.OK || v.State != group.Stable || len(v.Members) != 1 {
		t.Fatalf("%+v %d", v, code)
	}
	if l.used() == 0 {
		t.Fatal("a member is not accounted for")
	}
	if codes, code := l.c.Leave("g", []group.Leaving{{Member: a.Member}}); code != group.OK || codes[0] != group.OK {
		t.Fatal(codes, code)
	}
	if v, _ := l.c.Describe("g"); v.State != group.Empty || l.used() != 0 {
		t.Fatalf("group without members: %+v, %d bytes", v, l.used())
	}
	if errs := l.c.CommitOffsets(ctx, "g", []broker.OffsetCommit{{Topic: "t", Offset: 9}}); errs[0] != nil || l.committed() != 9 {
		t.Fatal(errs)
	}
	for _, bad := range []string{"", "g\n"} {
		must.ErrorIs(t, l.c.CommitOffsets(ctx, bad, []broker.OffsetCommit{{Topic: "t", Offset: 9}})[0], state.ErrInvalid)
	}
	if err := l.c.DeleteOffset(ctx, "g", "t", 0); err != nil || l.committed() != -1 {
		t.Fatal(err)
	}
	must.ErrorIs(t, l.c.DeleteGroup(ctx, "g"), state.ErrUnknownGroup)
	if v, code := l.c.Describe("g"); v.State != group.Dead || code != group.OK || l.used() != 0 {
		t.Fatalf("deleted group: %+v, code %d, %d bytes", v, code, l.used())
	}
}

func TestListing(t *testing.T) {
	l := open(t, objstore.NewMemory(), nil)
	for _, name := range []string{"d", "b", "f"} {
		l.b.CommitOffsets(t.Context(), name, []broker.OffsetCommit{{Topic: "t"}})
	}
	for _, name := range []string{"e", "d", "a"} {
		r := request("")
		r.Group = name
		soon(t, l.c.Join(r))
	}
	list, code := l.c.List()
	var got []string
	for _, v := range list {
		got = append(got, v.Name+" "+v.State.String())
	}
	const want = "a CompletingRebalance, b Empty, d CompletingRebalance, e CompletingRebalance, f Empty"
	if s := strings.Join(got, ", "); s != want || code != group.OK {
		t.Fatalf("groups: %s, code %d, want %s", s, code, want)
	}
}

func TestSilentMembersExpireByTheClock(t *testing.T) {
	l := open(t, objstore.NewMemory(), nil)
	r := request("")
	r.SessionTimeout = int64(20 * time.Millisecond)
	soon(t, l.c.Join(r))
	sebtest.Eventually(t, "the member expires", func() bool { return l.used() == 0 })
}

// TestTheNextGenerationWaitsForCommits: a commit in flight delays the next generation.
func TestTheNextGenerationWaitsForCommits(t *testing.T) {
	s := &gated{Store: objstore.NewMemory()}
	l := open(t, s, func(o *coordinator.Options) { o.CommitTimeout = time.Millisecond })
	a := l.member()
	reopen := s.shut()
	must.Equal(t, l.commit(caller(a), 7), group.RequestTimedOut)
	again := l.c.Join(request(a.Member))
	must.Equal(t, l.commit(caller(a), 8), group.RebalanceInProgress)
	select {
	case a := <-again:
		t.Fatalf("%+v before the commit is settled", a)
	default:
	}
	must.Equal(t, l.committed(), -1)
	reopen()
	next := soon(t, again)
	if next.Code != group.OK || next.Generation != a.Generation+1 || l.committed() != 7 {
		t.Fatalf("%+v, committed %d", next, l.committed())
	}
	// The same for a change by a non-member, and members that join meanwhile.
	l.c.Leave("g", []group.Leaving{{Member: a.Member}})
	reopen = s.shut()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- l.c.DeleteGroup(ctx, "g") }()
	sebtest.Eventually(t, "the deletion is admitted", func() bool { return l.used() > 0 })
	fresh := l.c.Join(request(""))
	cancel()
	must.ErrorIs(t, soon(t, gone), state.ErrOutcomeUnknown)
	select {
	case a := <-fresh:
		t.Fatalf("%+v before the deletion is settled", a)
	default:
	}
	reopen()
	if a := soon(t, fresh); a.Code != group.OK || l.committed() != -1 {
		t.Fatalf("%+v, committed %d", a, l.committed())
	}
}

// TestTwoCoordinatorsAlive: the log fences commits that a deposed coordinator admits, its successor
// refuses those of the deposed one's members, and the group keeps the offset that was acknowledged
// last. A stale coordinator therefore cannot rewind committed offsets.
func TestTwoCoordinatorsAlive(t *testing.T) {
	s := objstore.NewMemory()
	var lives []*life
	var members []group.JoinAnswer
	for epoch := range 4 {
		l := open(t, s, nil)
		must.Equalf(t, l.committed(), int64(epoch)-1, "epoch %d starts at offset", epoch)
		for i, zombie := range members {
			must.Equalf(t, l.commit(caller(zombie), 1000), group.IllegalGeneration, "commit of a member of coordinator %d: code", i)
			must.Equalf(t, l.c.Heartbeat(caller(zombie)), group.RebalanceInProgress, "heartbeat of a member of coordinator %d: code", i)
		}
		a := l.member()
		for i, zombie := range members {
			z := caller(zombie)
			for _, z.Generation = range []int32{zombie.Generation, a.Generation, -1} {
				must.Equalf(t, l.commit(z, 1000), group.UnknownMemberID, "commit of a member of coordinator %d in generation %d: code", i, z.Generation)
				must.Equal(t, l.c.Heartbeat(z), group.UnknownMemberID)
			}
		}
		must.Equal(t, l.commit(caller(a), int64(epoch)), group.OK)
		for i, old := range lives {
			if code := old.commit(caller(members[i]), 2000); code != group.NotCoordinator && code != group.RequestTimedOut {
				t.Fatalf("commit to coordinator %d: code %d", i, code)
			}
			if got := l.committed(); got != int64(epoch) {
				t.Fatalf("offset %d was committed through a deposed coordinator", got)
			}
		}
		lives, members = append(lives, l), append(members, a)
	}
	// Deposed coordinators refuse every request.
	for i, old := range lives[:3] {
		soon(t, old.b.Done())
		j := soon(t, old.c.Join(request("")))
		sync := soon(t, old.c.Sync(&group.SyncRequest{Caller: *caller(members[i])}))
		_, leave := old.c.Leave("g", nil)
		_, list := old.c.List()
		_, described := old.c.Describe("g")
		must.ErrorIs(t, check.Err(old.c.Offsets(t.Context(), "g")), state.ErrFenced)
		for _, code := range []group.Code{j.Code, sync.Code, leave, list, described, old.c.Heartbeat(caller(members[i])), old.c.Ready()} {
			must.Equal(t, code, group.NotCoordinator)
		}
		must.ErrorIs(t, old.c.DeleteGroup(t.Context(), "g"), state.ErrFenced)
	}
}

// TestWhatIsParkedIsAnsweredAtTheEnd: parked requests are answered when the broker or the
// coordinator stops.
func TestWhatIsParkedIsAnsweredAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(l *life, s objstore.Store){
		"closed": func(l *life, _ objstore.Store) { l.c.Close() },
		"killed": func(l *life, _ objstore.Store) { l.kill() },
		"fenced": func(l *life, s objstore.Store) {
			open(l.t, s, nil)
			// The deposed leader finds the seal.
			l.b.CommitOffsets(context.Background(), "h", []broker.OffsetCommit{{Topic: "t"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := objstore.NewMemory()
			l := open(t, s, nil)
			a := l.member()
			second := l.c.Join(request(""))
			third := l.c.Join(request(""))
			end(l, s)
			for _, ch := range []<-chan group.JoinAnswer{second, third, l.c.Join(request(a.Member))} {
				if a := soon(t, ch); a.Code != group.NotCoordinator {
					t.Fatalf("join: answer %+v, want NotCoordinator", a)
				}
			}
			must.Equalf(t, l.used(), 0, "bytes are still reserved")
		})
	}
}

func TestAFollowerCoordinatesNothing(t *testing.T) {
	s := objstore.NewMemory()
	open(t, s, nil)
	o := broker.Options{Options: log.Options{Store: s, Logger: slog.New(slog.DiscardHandler)}}
	o.Core.ReadOnly = true
	b := must.Get(broker.Open(t.Context(), o))(t)
	c := coordinator.Open(context.Background(), coordinator.Options{Broker: b})
	defer func() {
		c.Close()
		_ = b.Close(context.Background())
	}()
	must.Equalf(t, c.Ready(), group.NotCoordinator, "code")
	_, offsets := c.Offsets(t.Context(), "g")
	for _, err := range []error{c.CommitOffsets(t.Context(), "g", []broker.OffsetCommit{{Topic: "t"}})[0], offsets} {
		must.ErrorIs(t, err, state.ErrReadOnly)
	}
}

func TestMemoryOfGroupsIsBounded(t *testing.T) {
	l := open(t, objstore.NewMemory(), nil)
	class := l.b.Budget().Class(budget.Groups)
	allowed, refused := 0, 0
	for i := range 2000 {
		r := request("")
		r.Group = fmt.Sprint("g", i)
		r.Protocols[0].Metadata = make([]byte, 4000)
		if a := soon(t, l.c.Join(r)); a.Code == group.OK {
			allowed++
		} else if a.Code == group.GroupMaxSizeReached {
			refused++
		} else {
			t.Fatalf("join: answer %+v", a)
		}
	}
	if used := class.Used(); refused == 0 || used > class.Limit() || used < class.Limit()*9/10 || int64(allowed)*4000 > used {
		t.Fatalf("%d members accepted, %d refused, %d of %d bytes used", allowed, refused, used, class.Limit())
	}
	r := request("")
	r.Group, r.Protocols[0].Metadata = "one", make([]byte, class.Limit()/4)
	if a := soon(t, l.c.Join(r)); a.Code != group.GroupMaxSizeReached {
		t.Fatalf("member of a quarter of the class: answer %+v, want GroupMaxSizeReached", a)
	}
}
