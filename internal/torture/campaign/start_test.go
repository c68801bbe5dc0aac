package campaign

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/internal/program"
	"github.com/sebbroker/seb/internal/s3proxy"
	"github.com/sebbroker/seb/internal/s3server"
)

var startsFlag = flag.Int("starts", 5, "how many starts are measured; for figures take 100")

// TestStart measures a start after a kill: an empty cache, a store that was checked before. It says how long they took; it
// asserts how many requests they made, which does not depend on the machine.
func TestStart(t *testing.T) {
	server := s3server.ForTest(t)
	proxy, err := s3proxy.New(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	seb := built(t, delivered)
	for _, c := range []struct {
		name, bucket string
	}{{"a folder", filepath.Join(t.TempDir(), "bucket")}, {"the S3 server", server.Spec("start")}, {"the S3 server behind a proxy that counts", proxy.Spec("start")}} {
		dir := t.TempDir()
		var all []time.Duration
		for n := range *startsFlag + 1 {
			if err := os.RemoveAll(filepath.Join(dir, "cache")); err != nil {
				t.Fatal(err)
			}
			before := proxy.Counts()
			begin := time.Now()
			b, err := program.Serve(seb, environment(), "--bucket", c.bucket, "--data-dir", dir, "--http-port", "0")
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Address(dir)
			took := time.Since(begin)
			b.Kill()
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				continue // it checked the store
			}
			all = append(all, took)
			// Two LISTs of snapshots and one behind the end, the SEAL twice, the cluster's name; the walk reads up to 32 slots
			// ahead, of which there are few.
			if made := proxy.Counts().Sub(before); made.Of(s3proxy.Put) > 2 || made.Of(s3proxy.List) > 3 || made.Total() > 45 {
				t.Errorf("a start made %v", made)
			}
			if n == *startsFlag {
				t.Logf("the last start: %v", proxy.Counts().Sub(before))
			}
		}
		t.Logf("on %s, %v: starts %s", c.name, machine.Here(), quantiles(all))
	}
}
