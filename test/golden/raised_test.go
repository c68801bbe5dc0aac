package golden_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// makeRaised makes a bucket that a program of level 1 has created and one of level 2 has raised. It
// has every kind of record of level 2. The program of -generate gives the answers.
func makeRaised(t *testing.T) {
	if *level1 == "" || *level2 == "" {
		t.Skip("needs -level1 and -level2")
	}
	m := &maker{t: t, program: *level1, bucket: filepath.Join(t.TempDir(), "bucket"), data: t.TempDir(), rounds: 3}
	m.start()
	for topic, body := range map[string]string{
		"plain": `{}`, "several": `{"partitions":3,"settings":{"compression":"zstd"}}`,
		"stamped":   `{"settings":{"timestamp-type":"append"}}`,
		"compacted": `{"settings":{"cleanup-policy":"compact"}}`,
	} {
		m.must("PUT", "/topic?topic-name="+topic, body, "Content-Type", "application/json")
	}
	m.records(0)
	m.must("PUT", "/offsets?group=readers&topic-name=plain&partition=0", `{"offset":5,"metadata":"about five"}`, "Content-Type", "application/json")
	m.must("PUT", "/triggers/bought", `{"expr":"bought","deliver":{"topic":"mails"}}`, "Content-Type", "application/json")
	m.buy(2)
	m.compacts()
	m.stop()

	m.program = *level2
	m.start()
	m.must("POST", "/upgrade", "")
	m.records(1)
	m.stop()
	m.fastClock()
	m.start()
	m.must("POST", "/time/reset", "")
	m.records(2)
	m.stop()
	m.lose()
	m.start()
	m.records(3)
	for _, partition := range []string{"early", "several&partition=0", "several&partition=1"} {
		m.post(partition, `{"value":"behind the gap"}`) // reading a gap at the end takes 10 s
	}
	m.compacts()
	m.stop()
	m.program = *generate
	m.finish("raised")
}

// fastClock appends with a clock that is an hour ahead, so that the log time must be reset.
func (m *maker) fastClock() {
	t := m.t
	t.Helper()
	store := must.Get(objstore.OpenDisk(m.bucket, objstore.DiskOptions{}))(t)
	defer store.Close()
	b, err := broker.Open(t.Context(), broker.Options{
		Options: log.Options{Store: store, Budget: budget.New(64 << 20), Logger: slog.New(slog.DiscardHandler), Clocks: func() log.Reading { return log.Reading{Wall: time.Now().Add(time.Hour).UnixMicro()} }},
	})
	must.NoError(t, err)
	_, err = b.CreateTopic(t.Context(), "early", broker.TopicSpec{Partitions: 1})
	if err = errors.Join(err, b.Close(context.Background())); err != nil {
		t.Fatal(err)
	}
}

// lose deletes the last slots, which the data directory remembers, and accepts the loss.
func (m *maker) lose() {
	t := m.t
	t.Helper()
	slots, err := filepath.Glob(filepath.Join(m.bucket, "s0000", "wal", "*", "*"))
	if err != nil || len(slots) < 3 {
		t.Fatal(slots, err)
	}
	for _, slot := range slots[len(slots)-2:] {
		must.NoError(t, os.Remove(slot))
	}
	out, err := exec.Command(m.program, "recover", "--accept-older-copy", "--yes", "--bucket", m.bucket, "--data-dir", m.data).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "have no records") {
		t.Fatalf("recover: %v: %s", err, out)
	}
}

// buy sends events and waits until their firings are delivered.
func (m *maker) buy(events int) {
	m.t.Helper()
	sebtest.Eventually(m.t, "triggers follow", func() bool {
		return !strings.Contains(string(m.must("GET", "/triggers", "")), `"backfilling":true`)
	})
	for i := range events {
		m.must("POST", "/event", `{"event":"bought","entity_id":"u`+strconv.Itoa(i)+`"}`, "Content-Type", "application/json")
	}
	sebtest.Eventually(m.t, "firings delivered", func() bool {
		return strings.Count(string(m.must("GET", "/firings", "")), `"state":"delivered"`) == events
	})
}

// compacts writes until the merger has removed records of the compacted topic.
func (m *maker) compacts() {
	m.t.Helper()
	sebtest.Eventually(m.t, "compacted", func() bool {
		m.post("plain", `{"value":"so that there is something to merge"}`)
		m.post("compacted", `{"key":"again","value":"`+strings.Repeat("z", 2000)+`"}`)
		var info struct {
			Partitions []struct {
				Records    int64
				NextOffset int64 `json:"next_offset"`
			}
		}
		must.NoError(m.t, json.Unmarshal(m.must("GET", "/topic?topic-name=compacted", ""), &info))
		return info.Partitions[0].Records+10 <= info.Partitions[0].NextOffset
	})
}
