package drivers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestReceivedFromAFollower: one broker takes the messages and another, on the same bucket,
// delivers them by polls and by server-sent events.
func TestReceivedFromAFollower(t *testing.T) {
	p := startPeer(t, "seb-fsync-follower")
	from := p.Targets[0].Options["read-from"]
	if from == "" || from == p.Targets[0].Address {
		t.Fatalf("target %+v has no second broker", p.Targets[0])
	}
	for _, follow := range []string{"poll", "sse"} {
		t.Run(follow, func(t *testing.T) {
			c := sut.Config{Address: p.Targets[0].Address, Name: "followed-" + follow, Partitions: 2, PayloadBytes: 100, PID: p.PID, Options: map[string]string{
				"key-file": p.Targets[0].Options["key-file"], "read-from": from, "follow": follow,
			}}
			s := must.Get(sut.Open(t.Context(), "seb", c))(t)
			defer func() { check.NoError(t, s.Teardown(context.WithoutCancel(t.Context()))) }()
			info, err := s.Setup(t.Context())
			if err != nil || info.Settings["received from"] == "" || info.Durability != sut.Fsync {
				t.Fatalf("%+v, error %v", info, err)
			}
			roundTrip(t, s)
		})
	}
}

// roundTrip sends messages and requires all of them, intact.
func roundTrip(t *testing.T, s sut.System) {
	t.Helper()
	sub := must.Get(s.Subscriber(t.Context(), false))(t)
	const messages = 20
	got := map[string]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	var receiving sync.WaitGroup
	var failed error
	receiving.Go(func() {
		failed = sub.Receive(ctx, func(payload []byte) {
			got[string(payload)] = true
			if len(got) == messages {
				cancel()
			}
		})
	})
	pub := must.Get(s.Publisher(t.Context()))(t)
	for i := range messages {
		pub.Publish(t.Context(), nil, fmt.Appendf(nil, "message %d", i), func(err error) { check.NoError(t, err) })
	}
	check.NoError(t, pub.Close(t.Context()))
	receiving.Wait() // bounded by the test's time
	if failed != nil || !got["message 0"] || !got["message 19"] {
		t.Errorf("%v, error %v", got, failed)
	}
	check.NoError(t, sub.Close())
}
