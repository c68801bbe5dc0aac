package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/check"
)

// goneRun is a run that obeying forgets.
var goneRun = strings.Repeat("0a", 16) + "-" + strings.Repeat("0b", 16)

// obeying is a Control that does everything.
type obeying struct{}

func (obeying) HandOver(context.Context) error            { return nil }
func (obeying) Forget(context.Context, cluster.Run) error { return nil }

// control is a Control with given results.
type control struct {
	handOver, forget error
	forgotten        cluster.Run
}

func (c *control) HandOver(context.Context) error { return c.handOver }
func (c *control) Forget(_ context.Context, r cluster.Run) error {
	c.forgotten = r
	return c.forget
}

// TestClusterShowsTheBrokers: GET /cluster tells roles, states and lag, and what is wrong.
func TestClusterShowsTheBrokers(t *testing.T) {
	now := time.Now()
	self, leads, lost := member("self", "http://self"), member("leads", "http://leads"), member("lost", "")
	self.HasBeat, self.Beat = true, cluster.Beat{Loaded: true, Pos: state.Position{Epoch: 3, Slot: 7}, Committed: now.Add(-2 * time.Second)}
	leads.HasBeat, leads.Beat, leads.Leads = true, cluster.Beat{Loaded: true, Leads: true, Epoch: 3, Pos: state.Position{Epoch: 3, Slot: 9}, Committed: now}, true
	lost.Up, lost.Silence, lost.Why, lost.Apart = false, time.Minute, "it is silent", true
	view := newPeers(self, leads, lost)
	view.Set(append([]cluster.Member{}, view.members...), []string{"lost is silent."})
	s := start(t, func(c *setup) { c.http.Cluster = view })
	var got api.Cluster
	s.must(200, s.get("/cluster"), &got)
	if len(got.Members) != 3 || len(got.Wrong) != 1 {
		t.Fatalf("%+v", got)
	}
	if m := got.Members[0]; !m.Self || m.State != api.MemberUp || m.Role != api.MemberStandby || m.Position != "0:3:7" || m.Epoch != 3 || m.LagSeconds == nil || *m.LagSeconds != 2 {
		t.Errorf("self: %+v", m)
	}
	if m := got.Members[1]; m.Role != api.MemberLeader || *m.LagSeconds != 0 || m.URL != "http://leads" {
		t.Errorf("leader: %+v", m)
	}
	if m := got.Members[2]; m.State != api.MemberSilent || !m.Apart || m.SilentSeconds != 60 || m.LagSeconds != nil || m.Why == "" {
		t.Errorf("lost: %+v", m)
	}
	empty := leads
	empty.Leads, empty.Beat = false, cluster.Beat{Loaded: true, Pos: state.Position{Epoch: 3}}
	view.Set([]cluster.Member{self, leads, empty}, nil)
	s.must(200, s.get("/cluster"), &got)
	if m := got.Members[2]; m.LagSeconds != nil {
		t.Errorf("lag of a run that has applied no slot: %v", *m.LagSeconds)
	}
	alone := start(t)
	alone.must(200, alone.get("/cluster"), &got)
	if len(got.Members) != 1 || got.Members[0].Role != api.MemberLeader || got.Members[0].Epoch != 1 {
		t.Errorf("a broker that knows no others: %+v", got)
	}
}

// TestClusterControl: hand-over and forget answer what the broker says.
func TestClusterControl(t *testing.T) {
	c := &control{}
	s := start(t, func(o *setup) { o.http.Control = c })
	s.must(204, s.send("DELETE", "/cluster/"+goneRun, ""), nil)
	check.Equalf(t, runText(c.forgotten), goneRun, "forgotten")
	for err, code := range map[error]api.Code{cluster.ErrUnknownRun: api.UnknownBroker, cluster.ErrRunUp: api.BrokerUp} {
		c.forget = err
		if a := s.send("DELETE", "/cluster/"+goneRun, ""); a.problem(t).Code != code {
			t.Errorf("%v: %s", err, a)
		}
	}
	if a := s.send("DELETE", "/cluster/x", ""); a.problem(t).Field != VariableRun {
		t.Errorf("%s", a)
	}
	s.must(200, s.send("POST", "/cluster/hand-over", ""), nil)
	for _, err := range []error{cluster.ErrNoStandby, state.ErrNotLeader} {
		c.handOver = err
		if a := s.send("POST", "/cluster/hand-over", ""); a.problem(t).Code != api.NoStandby {
			t.Errorf("%v: %s", err, a)
		}
	}
}

// TestReadiness: a standby is ready if it knows the leader, and a load balancer finds the leader.
func TestReadiness(t *testing.T) {
	leads, standby, view := pair(t)
	for path, want := range map[string][2]int{"/readyz": {200, 200}, "/readyz?role=leader": {200, 503}, "/readyz?role=x": {400, 400}} {
		for i, s := range []*server{leads, standby} {
			if a := s.get(path); a.status != want[i] {
				t.Errorf("%s at broker %d: %s, want %d", path, i, a, want[i])
			}
		}
	}
	starting := start(t, func(c *setup) {
		c.http.Cluster = newPeers(member("alone", ""))
		c.broker.Standby, c.broker.Core.Standby = true, true
	})
	if a := starting.get("/readyz"); a.problem(t).Code != api.NotLeader {
		t.Errorf("a broker that does not lead yet, and knows no other: %s", a)
	}
	view.lead("")
	if a := standby.get("/readyz"); a.status != http.StatusOK {
		t.Errorf("the leader was known a moment ago: %s", a)
	}
	standby.api.led.Store(-int64(time.Minute))
	if a := standby.get("/readyz"); a.problem(t).Code != api.NotLeader {
		t.Errorf("no leader for a minute: %s", a)
	}
}
