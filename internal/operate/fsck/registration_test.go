package fsck_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// TestRegistrations: the registrations of brokers are no part of the log. Fsck reads them, a damaged
// one is no damage, a repair keeps them, and copies and backups have none.
func TestRegistrations(t *testing.T) {
	t.Parallel()
	store := objstore.NewMemory()
	live(t, store, 4)
	settled(t, store)
	r := cluster.Registration{Run: cluster.Run{Node: record.ID{1}, ID: record.ID{2}}, KafkaID: 1, KeyHash: [32]byte{1}, LevelMax: 1}
	must.NoError(t, link.Put(t.Context(), store, &r))
	key := link.Key(r.Run)
	if report := clean(t, store); report.Verified.Objects+report.Superseded.Objects < report.Listed.Objects {
		t.Errorf("not read: %+v", report)
	}
	good := read(t, store, key)
	change(t, store, key, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	bad := read(t, store, key)
	if bytes.Equal(good, bad) {
		t.Fatal("the object did not change")
	}
	for _, repair := range []bool{false, true} {
		report, found, err := verify(t, fsck.Options{Store: store, Repair: repair, Quiet: 1})
		notes := 0
		for _, f := range found {
			if f.Key != key {
				continue
			}
			if notes++; f.Severity != fsck.Note || f.Kind != "corrupt registration" || !strings.Contains(f.Text, "wrong checksum of the message") {
				t.Errorf("found %+v", f)
			}
		}
		if err != nil || report.Damages != 0 || notes != 1 {
			t.Errorf("repair %v: %d notes, %+v, %v", repair, notes, report, err)
		}
		if !bytes.Equal(read(t, store, key), bad) {
			t.Error("it was changed")
		}
	}
	copied, backups := objstore.NewMemory(), objstore.NewMemory()
	must.Get(fsck.Copy(t.Context(), fsck.CopyOptions{From: store, To: copied}))(t)
	backup(t, store, backups, 0)
	for _, to := range []objstore.Store{copied, backups, restored(t, backups, nil)} {
		for name := range keys(t, to) {
			if strings.HasPrefix(name, link.Prefix) {
				t.Errorf("%s has %s", to, name)
			}
		}
	}
}
