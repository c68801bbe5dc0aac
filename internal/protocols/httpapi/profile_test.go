package httpapi

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

// TestProfilesNameTheRequest checks that the goroutine profile has the kind and topic of a waiting
// read, if enabled.
func TestProfilesNameTheRequest(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		s := start(t, func(c *setup) { c.http.ProfileLabels = wanted })
		s.mustPost("topic-name=named", "text/plain", "a")
		done := make(chan *answered)
		go func() { done <- s.get("/records?topic-name=named&offset=1&timeout=1m") }()
		found, waits := false, false
		for until := time.Now().Add(time.Minute); !waits && time.Now().Before(until); time.Sleep(time.Millisecond) {
			var out bytes.Buffer
			must.NoError(t, pprof.Lookup("goroutine").WriteTo(&out, 1))
			waits = strings.Contains(out.String(), "httpapi.(*Reading).wait")
			for stack := range strings.SplitSeq(out.String(), "\n\n") {
				found = found || strings.Contains(stack, "httpapi.(*Reading).wait") &&
					strings.Contains(stack, `"request":"GET /records"`) && strings.Contains(stack, `"topic":"named"`)
			}
		}
		s.mustPost("topic-name=named", "text/plain", "b")
		if <-done; !waits || found != wanted {
			t.Errorf("labels wanted: %v; the read waits: %v, with labels: %v", wanted, waits, found)
		}
	}
}
