package main_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestRiemannEventsExpireOnceOverKills: a broker is killed while events expire. In the end each event
// has exactly one expired record, and no event that was refreshed in time has one.
func TestRiemannEventsExpireOnceOverKills(t *testing.T) {
	sebtest.Long(t, "internal/operate/node has TestRiemannEventsExpireOnce")
	p := newWorkDir(t)
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	r := rand.New(rand.NewPCG(seed, 1))
	args := []string{"--kafka-listen", "", "--riemann-web-listen", "127.0.0.1:0", "--batch-wait-time", "0"}
	b := p.serve(args...)
	p.must("topic", "create", "riemann", "-s", "timestamp-type=append")
	want := 0
	for range sebtest.Runs(8, 2) {
		var events strings.Builder
		for range 40 {
			fmt.Fprintf(&events, `{"event":"load","entity_id":"host-%d","data":{"ttl":%.3f}}`+"\n", want, 0.001+r.Float64()/4)
			want++
		}
		fmt.Fprintln(&events, `{"event":"alive","entity_id":"host","data":{"ttl":3600}}`)
		p.mustWith(events.String(), "event", "-f", "-", "--topic-name", "riemann")
		timer := time.NewTimer(time.Duration(r.IntN(300)) * time.Millisecond)
		<-timer.C
		b.kill()
		b = p.serve(args...)
	}
	sebtest.Eventually(t, "all events have expired", func() bool {
		return strings.Count(p.must("riemann", "query", "true"), "\n") == 1
	})
	expired := map[string]int{}
	for line := range strings.Lines(p.must("consume", "riemann")) {
		var e struct {
			Event, ID string
			Entity    string `json:"entity_id"`
			Data      struct{ Service, State string }
		}
		must.NoErrorf(t, json.Unmarshal([]byte(line), &e), "%s", line)
		if e.Data.State == "expired" {
			expired[e.Entity]++
			if e.Event != "expired" || e.Data.Service != "load" || !strings.HasPrefix(e.ID, "riemann-expired-") {
				t.Errorf("%s", line)
			}
		}
	}
	for host, n := range expired {
		if n != 1 {
			t.Errorf("%s has %d expired records", host, n)
		}
	}
	check.Equalf(t, len(expired), want, "events have expired records")
	check.Equalf(t, b.term(), 0, "exit code")
}
