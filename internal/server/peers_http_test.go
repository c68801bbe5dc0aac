package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/server"
	"github.com/sebbroker/seb/test/sebtest"
)

// values returns all values of topic t at a server.
func (c *crew) values(s *server.Server) (list []string) {
	c.Helper()
	for r, err := range connect(c.T, s).Records(c.Context(), "t", client.ReadOptions{Offset: client.Earliest}) {
		if err != nil {
			c.Fatal(err)
		}
		list = append(list, string(r.Value))
	}
	return list
}

// TestPlainWritersDoNotNoticeAHandOver: requests of clients that know one broker each, and repeat
// nothing, all succeed while the leadership moves to and fro, and each is stored once.
func TestPlainWritersDoNotNoticeAHandOver(t *testing.T) {
	c := newCrew(t)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	a, b := c.start(), c.start()
	c.up(1, a, b)
	c.write(a, "first")
	var (
		all     sync.WaitGroup
		stop    atomic.Bool
		mu      sync.Mutex
		written = []string{"first"}
	)
	for i, s := range []*server.Server{a, a, a, b, b, b} {
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				value := fmt.Sprint(i, "-", n)
				status, answer := ask(t, s, http.MethodPost, "/records?topic-name=t", `{"value": "`+value+`"}`)
				if status != http.StatusCreated {
					t.Errorf("write %s at broker %d: %d %s", value, i/3, status, answer)
					return
				}
				mu.Lock()
				written = append(written, value)
				mu.Unlock()
			}
		})
	}
	defer stop.Store(true)
	for _, to := range []*server.Server{b, a, b} {
		sebtest.Eventually(t, "hand-over", func() bool {
			status, answer := ask(t, b, http.MethodPost, "/cluster/hand-over", "")
			if status != http.StatusOK && status != http.StatusConflict { // the standby may be behind for a moment
				t.Errorf("hand-over: %d %s", status, answer)
			}
			return status == http.StatusOK
		})
		c.leads(to)
	}
	stop.Store(true)
	all.Wait()
	got := c.values(b) // the leader
	slices.Sort(got)
	slices.Sort(written)
	if !slices.Equal(got, written) {
		t.Errorf("%d records stored, %d acknowledged", len(got), len(written))
	}
	t.Logf("%d records", len(written))
}

// TestClientsSurviveAKilledLeader: a client of all brokers goes on when the leader dies. Each record
// is stored once.
func TestClientsSurviveAKilledLeader(t *testing.T) {
	c := newCrew(t)
	a, b, third := c.start(), c.start(), c.start()
	c.up(2, a, b, third)
	cl, err := client.New(a.URL()+","+third.URL(), client.Options{APIKey: a.APIKey()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var want []string
	write := func(value string) {
		t.Helper()
		if _, err := cl.ProduceValues(t.Context(), "t", [][]byte{[]byte(value)}, client.ProduceOptions{}); err != nil {
			t.Fatalf("write %q: %v", value, err)
		}
		want = append(want, value)
	}
	for i := range 20 {
		if i == 10 {
			a.Kill()
		}
		write(fmt.Sprint(i))
	}
	var got []string
	for r, err := range cl.Records(t.Context(), "t", client.ReadOptions{Offset: client.Earliest}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}
