package client

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/test/check"
)

// TestNextBroker: after a failure the broker that has not failed for the longest time gets the request.
// It gets it at once unless it failed within a second, as in a rolling restart.
func TestNextBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers([]string{"a", "b", "c"})
		var got []string
		for _, wait := range []time.Duration{0, 3, 3, 3, 0, 0, 20, 0} {
			time.Sleep(wait * time.Second)
			pause := ""
			if !b.failed(b.pick()) {
				pause = " after a pause"
			}
			got = append(got, b.pick()+pause)
		}
		want := "b, c, a, b, c, a after a pause, b, c"
		check.Equal(t, strings.Join(got, ", "), want)
	})
}
