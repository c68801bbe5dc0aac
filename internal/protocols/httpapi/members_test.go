package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// coordinate gives a broker a coordinator of groups.
func (s *server) coordinate() *coordinator.Coordinator {
	c := coordinator.Open(context.Background(), coordinator.Options{Broker: s.b, InitialDelay: -1, Logger: slog.New(slog.DiscardHandler)})
	s.t.Cleanup(c.Close)
	s.api.o.Groups, s.api.o.Members = c, c
	return c
}

// joinClassic adds a member of the classic protocol, which reads the first partition of topics.
func joinClassic(t *testing.T, c *coordinator.Coordinator, name string, topics ...string) {
	t.Helper()
	joined := <-c.Join(&group.JoinRequest{
		Group: name, Client: "<classic>", Host: "/192.0.2.7", ProtocolType: "consumer", SessionTimeout: int64(time.Minute),
		Protocols: []group.Protocol{{Name: "range", Metadata: []byte("m")}},
	})
	assigned := kmsg.NewConsumerMemberAssignment()
	for _, topic := range topics {
		of := kmsg.NewConsumerMemberAssignmentTopic()
		of.Topic, of.Partitions = topic, []int32{0}
		assigned.Topics = append(assigned.Topics, of)
	}
	synced := <-c.Sync(&group.SyncRequest{
		Caller:      group.Caller{Group: name, Member: joined.Member, Generation: joined.Generation},
		Assignments: []group.Assignment{{Member: joined.Member, Data: assigned.AppendTo(nil)}},
	})
	if joined.Code != group.OK || synced.Code != group.OK {
		t.Fatal(joined, synced)
	}
}

func TestMembersOfGroups(t *testing.T) {
	s := start(t)
	c := s.coordinate()
	s.mustPost("topic-name=hidden", api.TextPlain, "a")
	s.must(201, s.send("PUT", "/topic?topic-name=t", `{"partitions":2}`), nil)
	s.must(200, s.send("PUT", "/offsets?group=offsets&topic-name=t&partition=0", `{"offset":0}`), nil)
	joinClassic(t, c, "classic", "t", "hidden")
	if a, _ := c.HeartbeatConsumer(&group.HeartbeatRequest{
		Group: "consumer", Member: "m", Client: "c", Host: "/192.0.2.8", RebalanceTimeout: int64(time.Minute), Names: []string{"t", "hidden"}, Owned: &[]group.Partition{},
	}); a.Code != group.OK {
		t.Fatal(a)
	}
	summary := func(g *api.Group) string {
		text := fmt.Sprint(g.Name, " ", g.State, " ", len(g.Offsets))
		for _, m := range g.Members {
			text += fmt.Sprint(" ", m.ClientID, " ", m.Host, " ", m.Assigned)
		}
		return text
	}
	const (
		ofClassic  = "classic Stable 0 <classic> /192.0.2.7 [{t [0]} {hidden [0]}]"
		ofConsumer = "consumer Stable 0 c /192.0.2.8 "
		ofOffsets  = "offsets Empty 1"
	)
	var all api.Groups
	s.must(200, s.get("/groups?members=true"), &all)
	must.Equalf(t, len(all.Groups), 3, "groups with members: %+v, want 3", all.Groups)
	for i, want := range []string{ofClassic, ofConsumer, ofOffsets} {
		if got := summary(&all.Groups[i]); !strings.HasPrefix(got, want) {
			t.Errorf("group %d: %s, want %s", i, got, want)
		}
	}
	if got := summary(&all.Groups[1]); !strings.Contains(got, "{t [0 1]}") || !strings.Contains(got, "{hidden [0]}") {
		t.Errorf("consumer protocol: %s, want all partitions", got)
	}
	var one api.Group
	if s.must(200, s.get("/groups?group=classic&members=true"), &one); summary(&one) != ofClassic {
		t.Errorf("one group: %s, want %s", summary(&one), ofClassic)
	}
	s.must(404, s.get("/groups?group=none&members=true"), nil)
	s.must(404, s.get("/groups?group=classic"), nil) // no committed offsets
	if p := s.get("/groups?members=yes").problem(t); p.Field != "members" {
		t.Errorf("%+v", p)
	}
	if body := string(s.get("/groups").body); strings.Contains(body, "members") || strings.Contains(body, "classic") {
		t.Errorf("without members: %s", body)
	}
	key := s.token("client", time.Time{}, permit(access.Describe, access.Group, "classic"), permit(access.Describe, access.Topic, "t"))
	for _, path := range []string{"/groups?members=true", "/groups?group=classic&members=true"} {
		a := s.matrix("GET", path, "", "", authorization(key))
		if body := string(a.body); a.status != 200 || !strings.Contains(body, `"assigned":[{"topic":"t","partitions":[0]}]`) || strings.Contains(body, "hidden") || strings.Contains(body, "consumer") {
			t.Errorf("%s: %s, want group classic with topic t alone", path, a)
		}
	}
}

func TestAReadOnlyBrokerDoesNotKnowMembers(t *testing.T) {
	store := objstore.NewMemory()
	s := start(t, func(c *setup) { c.store = store })
	s.mustPost("topic-name=t", api.TextPlain, "a")
	s.must(200, s.send("PUT", "/offsets?group=g&topic-name=t&partition=0", `{"offset":0}`), nil)
	var g api.Group
	if s.must(200, s.get("/groups?group=g&members=true"), &g); g.State != "Empty" || g.Members == nil || len(g.Members) != 0 {
		t.Errorf("leader without Kafka: %+v, want Empty", g)
	}
	ro := start(t, func(c *setup) { c.store, c.broker.Core.ReadOnly = store, true })
	ro.coordinate()
	for _, path := range []string{"/groups?members=true", "/groups?group=g&members=true"} {
		if p := ro.get(path).problem(t); p.Code != api.ReadOnly || !strings.Contains(p.Detail, "only the leader knows") {
			t.Errorf("%s: %+v", path, p)
		}
	}
}
