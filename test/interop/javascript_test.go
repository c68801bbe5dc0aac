package interop

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestKafkajsAdmin resets a group's offsets to both ends of a topic, which kafkajs does by
// committing -2 and -1.
func TestKafkajsAdmin(t *testing.T) {
	testenv.InteropWanted(t)
	node := must.Get(needs("node", "kafkajs runs in"))(t)
	modules := must.Get(kafkajs(t.Context()))(t)
	b := testenv.ServeInterop(t)
	begin := time.Now()
	c := exec.CommandContext(t.Context(), node, "testdata/javascript/admin.js")
	c.Env = append(os.Environ(), "NODE_PATH="+modules, "KAFKAJS_NO_PARTITIONER_WARNING=1", "BROKER="+b.Address, "KEY="+testenv.InteropKey)
	out, err := c.CombinedOutput()
	const want = "read\nreset to the earliest\nread after it\nreset to the latest\n"
	if err != nil || string(out) != want {
		t.Fatalf("%v: %s", err, out)
	}
	report(t, "kafkajs", "its admin resets a group to the earliest and the latest offset", time.Since(begin))
}
