package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/api"
)

// TestClusterCommand shows the only broker of a bucket.
func TestClusterCommand(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	out := p.must("cluster")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "NAME") || !strings.Contains(lines[1], "leader") || !strings.Contains(lines[1], "up") {
		t.Errorf("%s", out)
	}
	var c api.Cluster
	if err := json.Unmarshal([]byte(p.must("cluster", "--json")), &c); err != nil || len(c.Members) != 1 || !c.Members[0].Self {
		t.Errorf("%+v, %v", c, err)
	}
	p.refused(1, "no standby", "cluster", "hand-over")
	p.refused(1, `"unknown"`, "cluster", "forget", "unknown")
}

// TestBrokersThatDoNotReachEachOther: a broker that this one does not reach may serve, unlike one that is
// silent.
func TestBrokersThatDoNotReachEachOther(t *testing.T) {
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.JSON)
		_ = json.NewEncoder(w).Encode(api.Cluster{Members: []api.ClusterMember{
			{Name: "db1", State: "silent", Role: "standby", SilentSeconds: 70, Apart: true}, {Name: "db2", State: "silent", Role: "standby", SilentSeconds: 70},
		}})
	}))
	defer broker.Close()
	out := newWorkDir(t).must("cluster", "--address", broker.URL, "--api-key", "k")
	if !regexp.MustCompile(`(?m)^db1 +standby +not reached 1m10s `).MatchString(out) || !regexp.MustCompile(`(?m)^db2 +standby +silent 1m10s `).MatchString(out) {
		t.Errorf("%s", out)
	}
}

// TestSeveralAddresses: a command uses the brokers that answer, and names all if none does.
func TestSeveralAddresses(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve()
	const refused = "http://127.0.0.1:1"
	p.must("topic", "create", "t", "--address", refused+", "+b.address(), "--api-key", p.keyOf("seb-data"))
	p.refused(1, "broker at "+refused+", http://127.0.0.1:2: ", "topic", "list", "--address", refused+",http://127.0.0.1:2", "--api-key", "k")
	p.refused(2, "want http://host:port", "topic", "list", "--address", refused+",,"+b.address(), "--api-key", "k")
}

// TestForgetFindsTheBroker: a name means the broker of that name that does not answer; what means two
// brokers is refused.
func TestForgetFindsTheBroker(t *testing.T) {
	a, b, c := strings.Repeat("a", 32)+"-"+strings.Repeat("1", 32), strings.Repeat("b", 32)+"-"+strings.Repeat("2", 32), strings.Repeat("c", 32)+"-"+strings.Repeat("21", 16)
	var forgotten atomic.Value // string
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			forgotten.Store(strings.TrimPrefix(r.URL.Path, "/cluster/"))
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", api.JSON)
		_ = json.NewEncoder(w).Encode(api.Cluster{Members: []api.ClusterMember{
			{Run: a, Name: "db1", State: "up", Role: "leader"}, {Run: b, Name: "db1", State: "silent", Role: "standby"}, {Run: c, Name: "db2", State: "gone", Role: "standby"},
		}})
	}))
	defer broker.Close()
	p := newWorkDir(t)
	for _, c := range []struct{ text, want string }{{"db1", b}, {"db2", c}, {a[:5], a}, {"22", b}, {"11", a}, {"2", ""}} {
		forgotten.Store("")
		args := []string{"cluster", "forget", c.text, "--address", broker.URL, "--api-key", "k"}
		if c.want == "" {
			p.refused(2, "brokers match", args...)
		} else {
			p.must(args...)
		}
		if got := forgotten.Load(); got != c.want {
			t.Errorf("forget %s: forgot %q, want %q", c.text, got, c.want)
		}
	}
}
