package node

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
)

var markKills = flag.Int("kills", 3, "how often TestPositionOfAKilledBroker kills a broker")

const markChild = "SEB_TEST_MARK_CHILD"

// TestPositionOfAKilledBroker kills a broker right after an acknowledgement. The data folder knows a
// position that is not before it, and the next broker leads.
func TestPositionOfAKilledBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	options := func(dir string) Options {
		return Options{Bucket: "file:" + filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone}
	}
	if dir := os.Getenv(markChild); dir != "" {
		n := must.Get(Open(t.Context(), options(dir)))(t)
		must.NoError(t, n.EnsureTopic(t.Context(), "t"))
		for {
			offset := brokertest.Produce(t, n, "t", 0, record.Record{Timestamp: 1})
			seen, _ := n.Broker.Seen()
			fmt.Println("acknowledged", seen.Epoch, seen.Slot, offset)
		}
	}
	dir := t.TempDir()
	for i := range *markKills {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPositionOfAKilledBroker$", "-test.count=1")
		child.Env = append(os.Environ(), markChild+"="+dir)
		out := must.Get(child.StdoutPipe())(t)
		must.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for range 1 + i%5 {
			if !lines.Scan() || !strings.HasPrefix(lines.Text(), "acknowledged ") {
				t.Fatalf("kill %d: the child has ended with %q: %v", i, lines.Text(), child.Wait())
			}
		}
		must.NoError(t, child.Process.Kill())
		_ = child.Wait() // the error of the killed process
		var want core.Seen
		must.Get(fmt.Sscanf(lines.Text(), "acknowledged %d %d %d", &want.Epoch, &want.Slot, &want.Highest))(t)
		o := options(dir)
		seen, ok := readMark(o.DataDir, o.Bucket)
		if !ok || (seenAt{seen}).before(want) || seen.Highest <= want.Highest {
			t.Errorf("kill %d: the data folder has %+v (%t), %q was acknowledged", i, seen, ok, lines.Text())
		}
	}
	open(t, options(dir))
}
