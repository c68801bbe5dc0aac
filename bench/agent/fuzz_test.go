package agent_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/sebbroker/seb/bench/agent"
)

// FuzzFrames sends arbitrary bytes to an agent or coordinator: it ends with an error, and allocates
// no more than it received.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0f{\"kind\":\"beat\"}\x00\x00\x00\x0f{\"kind\":\"over\"}"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Add([]byte("\x00\x00\x00\x02"))
	f.Add([]byte("\x00\x00\x00\x48{\"kind\":\"run\",\"run\":{\"parts\":2,\"workload\":{\"rate\":\"1\",\"size\":\"64B..1KiB\"}}}"))
	f.Add([]byte("\x00\x00\x00\x30{\"kind\":\"seen\",\"seen\":[{\"topic\":1,\"seen\":\"AA==\"}]}"))
	f.Fuzz(func(t *testing.T, p []byte) {
		here, there := net.Pipe()
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = there.Write(p) // the other side may have closed the connection
			_ = there.Close()
		}()
		frames, bytes, err := agent.Frames(here)
		_ = here.Close()
		<-written
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("it ends with %v, which is not readable", err)
		}
		if bytes > len(p) || frames > len(p)/4 {
			t.Errorf("%d frames of %d bytes, of %d bytes", frames, bytes, len(p))
		}
	})
}
