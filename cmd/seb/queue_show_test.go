package main

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestQueueThatWaits: a queue says why it takes or gives no messages.
func TestQueueThatWaits(t *testing.T) {
	var b strings.Builder
	must.NoError(t, printQueue(&b, &client.Queue{Name: "q", Full: true, LookAheadFull: true}))
	for _, want := range []string{"full ", "waits "} {
		check.Containsf(t, b.String(), "\n"+want, "a queue that is full and waits")
	}
	b.Reset()
	must.NoError(t, printQueue(&b, &client.Queue{Name: "q"}))
	if strings.Contains(b.String(), "full") || strings.Contains(b.String(), "waits") {
		t.Errorf("another queue: %s", b.String())
	}
}
