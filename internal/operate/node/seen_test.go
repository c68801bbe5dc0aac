package node

import (
	"log/slog"
	"os"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// TestNewestPosition: the newest position of a bucket counts, in positions.json or in the file of its own,
// which may be empty or damaged.
func TestNewestPosition(t *testing.T) {
	cluster, nonce := record.NewID(), record.NewID()
	at := func(slot uint64) *core.Seen {
		return &core.Seen{Cluster: cluster, Epoch: 3, Nonce: nonce, Slot: slot, Highest: int64(slot)}
	}
	const store = "file:/b"
	for _, c := range []struct {
		name       string
		list, mark *core.Seen // nil: none
		spoil      func(content []byte) []byte
		want       *core.Seen
	}{
		{"in the list", at(7), at(4), nil, at(7)},
		{"in its file", at(4), at(7), nil, at(7)},
		{"in its file alone", nil, at(7), nil, at(7)},
		{"the file is empty", at(4), at(7), func([]byte) []byte { return nil }, at(4)},
		{"the file is zero", at(4), at(7), func(b []byte) []byte { return make([]byte, len(b)) }, at(4)},
		{"the file is cut off", at(4), at(7), func(b []byte) []byte { return b[:700] }, at(4)},
		{"the file is of another log", at(4), &core.Seen{Cluster: record.NewID(), Epoch: 9, Nonce: nonce, Slot: 9}, nil, at(4)},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.list != nil {
				must.NoError(t, saveSeen(dir, store, c.list))
			}
			k := newPositionSaver(dir, store, slog.New(slog.DiscardHandler))
			k.setLocked(c.mark)
			k.close()
			if c.spoil != nil {
				content := must.Get(os.ReadFile(markFile(dir, store)))(t)
				must.NoError(t, os.WriteFile(markFile(dir, store), c.spoil(content), 0o600))
			}
			c.want.Here = true
			if got, err := ReadSeen(dir, store); err != nil || !slices.Equal(got, []core.Seen{*c.want}) {
				t.Errorf("%+v, %v, want %+v", got, err, *c.want)
			}
		})
	}
}

// TestPositionOfABucketWithFiles: the position of a bucket is known by each address of it, with files or
// with journals.
func TestPositionOfABucketWithFiles(t *testing.T) {
	for _, name := range []string{"file:/b", "file:/b?fsync=false"} {
		files := map[string]string{"file:/b": "file:/b?journal=false", "file:/b?fsync=false": "file:/b?fsync=false&journal=false"}[name]
		for _, names := range [][2]string{{name, files}, {files, name}} {
			dir := t.TempDir()
			want := &core.Seen{Cluster: record.NewID(), Epoch: 3, Nonce: record.NewID(), Slot: 4, Highest: 5}
			must.NoError(t, saveSeen(dir, names[0], want))
			here := *want
			here.Here = true
			if got, err := ReadSeen(dir, names[1]); err != nil || !slices.Equal(got, []core.Seen{here}) {
				t.Errorf("saved for %s, read for %s: %+v, %v", names[0], names[1], got, err)
			}
			if got, err := ReadSeen(dir, "file:/c?journal=false"); err != nil || !slices.Equal(got, []core.Seen{*want}) {
				t.Errorf("another address: %+v, %v", got, err)
			}
			must.NoError(t, ForgetSeen(dir, names[1], nil))
			if got, err := ReadSeen(dir, names[0]); err != nil || got != nil {
				t.Errorf("forgotten for %s, read for %s: %+v, %v", names[1], names[0], got, err)
			}
		}
	}
}

// TestPositionIsRecordedBeforeTheAnswer: a broker that is killed right after an answer has recorded the
// position behind the record. Another process reads the file as it is at that moment.
func TestPositionIsRecordedBeforeTheAnswer(t *testing.T) {
	for _, journal := range []string{"", "&journal=false"} {
		o := Options{Bucket: "file:" + t.TempDir() + "?fsync=false" + journal, DataDir: t.TempDir(), BatchWait: BatchNone}
		n := open(t, o)
		must.Get(n.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 1}))(t)
		for i := range 50 {
			put(t, n, "t", 0, "k", "v")
			known, err := ReadSeen(o.DataDir, n.name)
			acked, _ := n.Broker.Seen()
			if err != nil || len(known) != 1 || (seenAt{known[0]}).before(acked) || known[0].Highest != int64(i+1) {
				t.Fatalf("after answer %d: recorded %+v, %v; the log ends at %+v", i, known, err, acked)
			}
		}
		shut(t, n)
	}
}
