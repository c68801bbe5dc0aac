package pressure

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestCompaction: a partition has many times as many keys as a compaction sorts in memory, and each of
// them is written again. The pass drops the older records while others are written, and the broker stays
// within its limit.
func TestCompaction(t *testing.T) {
	beside(t)
	const keys, together = 500_000, 5000
	b := start(t, "--batch-wait-time", "0", "--merge-interval", "300ms", "--pack-age", "1s")
	g := &grown{kafkaVictim: &kafkaVictim{broker: b}}
	must.NoError(t, g.put("/topic?topic-name=keyed", `{"settings":{"cleanup-policy":"compact","min-cleanable-dirty-ratio":"0","key-index":"false"}}`))
	order := rand.New(rand.NewPCG(1, 2)).Perm(keys)
	for _, version := range []string{"old", "new"} {
		for n := 0; n < keys; n += together {
			recs := make([]record.Record, together)
			for i := range recs {
				recs[i] = record.Record{Key: fmt.Appendf(nil, "key-%06d", order[n+i]), Value: []byte(version), Timestamp: 1}
			}
			g.batch("keyed", recs)
		}
	}
	seen := map[string]bool{}
	dropped, written := 0, 0
	sebtest.Eventually(t, "all keys are compacted", func() bool {
		g.batch("first", []record.Record{{Value: []byte("v"), Timestamp: 1}})
		written++
		var status api.Status
		must.NoError(t, json.Unmarshal([]byte(b.get(b.url+"/status")), &status))
		if c := status.Compaction; c != nil {
			seen[c.Phase+" "+c.Topic] = true
		}
		dropped = int(b.metric("seb_compaction_records_dropped_total"))
		return dropped >= keys && status.Compaction == nil
	})
	check.Equalf(t, dropped, keys, "dropped records")
	t.Logf("seen: %v; %d records written meanwhile", seen, written)
	b.alive()
	b.within(limit)
}
