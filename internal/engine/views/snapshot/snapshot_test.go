package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine saves files at a position of a log.
type machine struct {
	*Snapshots
	t     *testing.T
	at    LogPosition
	store objstore.Store
	off   map[LogPosition]bool // not on the log
	dir   string
}

var cluster = record.ID{1, 2, 3}

func newMachine(t *testing.T, store objstore.Store, epoch uint32, slot uint64) *machine {
	m := &machine{t: t, store: store, dir: t.TempDir(), off: map[LogPosition]bool{}}
	m.at = LogPosition{state.Position{Epoch: epoch, Slot: slot}, record.ID{byte(epoch + 1)}}
	m.Snapshots = Open(Options{
		Store: store, View: "things", Schema: 3, Cluster: func() record.ID { return cluster }, PieceBytes: 1000,
		At: func() (LogPosition, bool) { return m.at, true },
		On: func(p LogPosition) bool { return !m.off[p] && !m.at.Less(p.Position) }, RetryMin: time.Microsecond,
	})
	return m
}

// save saves a file of size bytes, which it returns.
func (m *machine) save(size int, only bool) ([]byte, Info, error) {
	m.t.Helper()
	data := make([]byte, size)
	r := rand.New(rand.NewPCG(uint64(size), m.at.Slot))
	for i := range data {
		data[i] = byte(r.IntN(7))
	}
	path := filepath.Join(m.dir, "copy")
	must.NoError(m.t, os.WriteFile(path, data, 0o600))
	info, err := m.Save(m.t.Context(), path, Note{Time: int64(m.at.Slot), Records: int64(size)}, only)
	return data, info, err
}

func (m *machine) mustSave(size int) []byte {
	m.t.Helper()
	data, _ := must.Get2(m.save(size, false))(m.t)
	return data
}

// restored returns the restored file; nil if there is none.
func (m *machine) restored(refused ...string) ([]byte, Info) {
	m.t.Helper()
	path := filepath.Join(m.t.TempDir(), "file")
	info, ok := must.Get2(m.Restore(m.t.Context(), path, true, func(name string) bool { return slices.Contains(refused, name) }))(m.t)
	if !ok {
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
			m.t.Errorf("temporary files remain: %v", left)
		}
		return nil, info
	}
	data := must.Get(os.ReadFile(path))(m.t)
	return data, info
}

func (m *machine) want(data []byte) {
	m.t.Helper()
	if got, info := m.restored(); !bytes.Equal(got, data) {
		m.t.Fatalf("restored %d bytes (%+v), not %d", len(got), info, len(data))
	}
}

func (m *machine) keys() (keys []string) {
	m.t.Helper()
	after := ""
	for {
		list, more := must.Get2(m.store.List(m.t.Context(), objstore.ListOptions{After: after}))(m.t)
		for _, e := range list {
			keys, after = append(keys, e.Key), e.Key
		}
		if !more {
			return keys
		}
	}
}

func stores(t *testing.T, f func(t *testing.T, store objstore.Store)) {
	t.Run("memory", func(t *testing.T) { f(t, objstore.NewMemory()) })
	t.Run("disk", func(t *testing.T) {
		s := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{}))(t)
		t.Cleanup(func() { s.Close() })
		f(t, s)
	})
	t.Run("s3", func(t *testing.T) {
		s := must.Get(s3.Open(t.Context(), testenv.S3ForTest(t).Options("p")))(t)
		t.Cleanup(func() { s.Close() })
		f(t, s)
	})
}

func TestSaveAndRestore(t *testing.T) {
	stores(t, func(t *testing.T, store objstore.Store) {
		m := newMachine(t, store, 2, 5)
		if got, _ := m.restored(); got != nil {
			t.Fatal("there was a snapshot")
		}
		if _, ok, err := m.Newest(t.Context()); ok || err != nil {
			t.Fatalf("Newest of an empty bucket: %v", err)
		}
		for i, size := range []int{1, 999, 1000, 1001, 12_345} {
			m.at.Slot++
			data, saved := must.Get2(m.save(size, false))(t)
			got, info := m.restored()
			if !bytes.Equal(got, data) || info != saved || info.Records != int64(size) || info.Size != int64(size) {
				t.Fatalf("%d bytes: %d restored, %+v and %+v", size, len(got), info, saved)
			}
			if newest, ok, err := m.Newest(t.Context()); newest != saved || !ok || err != nil {
				t.Fatalf("newest is %+v, %v", newest, err)
			}
			all, err := m.list(t.Context())
			if err != nil || len(all) != min(i+1, 2) {
				t.Fatalf("%d snapshots, %v", len(all), err)
			}
		}
	})
}

func TestOnlyTheNewestStaysAfterAnErasure(t *testing.T) {
	m := newMachine(t, objstore.NewMemory(), 2, 5)
	for range 3 {
		m.at.Slot++
		m.mustSave(3000)
	}
	m.at.Slot++
	if _, info, err := m.save(500, true); err != nil || len(m.keys()) != 2 || info.Pieces != 1 {
		t.Fatalf("%v: %q", err, m.keys())
	}
}

// TestTornUpload checks that after an incomplete upload the previous snapshot is used, and the next
// upload removes the leftovers.
func TestTornUpload(t *testing.T) {
	for puts := range 5 {
		t.Run(fmt.Sprint(puts), func(t *testing.T) {
			store := &limited{Store: objstore.NewMemory(), left: 1000}
			m := newMachine(t, store, 2, 5)
			m.at.Slot++
			before := m.mustSave(2500)
			store.left = puts
			m.at.Slot++
			if _, _, err := m.save(3500, false); err == nil { // 4 pieces, and the manifest
				t.Fatal("the incomplete upload succeeded")
			}
			m.want(before)
			must.Equalf(t, len(m.keys()), 4+puts, "%q", m.keys())
			store.left = 1000
			m.at.Slot++
			m.want(m.mustSave(3600))
			must.Equalf(t, len(m.keys()), 4+5, "%q", m.keys())
		})
	}
}

// limited refuses PUTs after some of them.
type limited struct {
	objstore.Store
	left int
}

func (l *limited) Put(ctx context.Context, key string, body objstore.Body) error {
	if l.left == 0 {
		return fmt.Errorf("%w: enough", objstore.ErrRefused)
	}
	l.left--
	return l.Store.Put(ctx, key, body)
}

// TestFaults checks that with a faulty store Restore returns the last snapshot whose Save
// succeeded, or a newer one, unchanged.
func TestFaults(t *testing.T) {
	for seed := range uint64(sebtest.Runs(20, 6)) {
		inner := objstore.NewMemory()
		store := storetest.NewFaulty(inner, seed, storetest.All(storetest.Rates{
			storetest.Before: 0.1, storetest.Lost: 0.1, storetest.Late: 0.1, storetest.Throttle: 0.05, storetest.Refuse: 0.01, storetest.Truncate: 0.1,
		}))
		m := newMachine(t, store, 2, 5)
		saved := map[int64][]byte{}
		last := int64(0)
		for range 15 {
			m.at.Slot++
			data, _, err := m.save(int(500+m.at.Slot*137), m.at.Slot%5 == 0)
			saved[int64(m.at.Slot)] = data
			if err == nil {
				last = int64(m.at.Slot)
			}
			path := filepath.Join(m.dir, "file")
			info, ok, err := m.Restore(t.Context(), path, true, nil)
			if err != nil {
				continue // the store did not answer
			}
			if !ok && last != 0 || ok && info.Time < last {
				t.Fatalf("seed %d: restored %+v, saved %d", seed, info, last)
			}
			if got, _ := os.ReadFile(path); ok && !bytes.Equal(got, saved[info.Time]) {
				t.Fatalf("seed %d: %d bytes differ from the saved ones", seed, len(got))
			}
		}
		store.Settle()
	}
}

// replace changes the bytes of an object.
func (m *machine) replace(key string, change func(b []byte) []byte) {
	m.t.Helper()
	b := must.Get(m.get(m.t.Context(), key, manifestMax, nil))(m.t)
	must.NoError(m.t, m.store.Delete(m.t.Context(), key))
	if b = change(bytes.Clone(b)); b == nil {
		return
	}
	must.NoError(m.t, m.store.Put(m.t.Context(), key, objstore.NewBody(b)))
}

// TestDamage checks that a damaged snapshot is not used, but the one before it.
func TestDamage(t *testing.T) {
	for name, change := range map[string]func(b []byte) []byte{
		"gone":  func([]byte) []byte { return nil },
		"empty": func([]byte) []byte { return []byte{} },
		"cut":   func(b []byte) []byte { return b[:len(b)-1] },
		"long":  func(b []byte) []byte { return append(b, 0) },
		"huge":  func(b []byte) []byte { return append(b, make([]byte, 10<<20)...) },
		"a bit": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"text":  func([]byte) []byte { return []byte("what is this?\n00000000\n") },
	} {
		for i, what := range []string{"first piece", "last piece", "manifest"} {
			t.Run(name+" "+what, func(t *testing.T) {
				m := newMachine(t, objstore.NewMemory(), 2, 5)
				before := m.mustSave(1500)
				m.at.Slot++
				m.mustSave(2500) // three pieces and the manifest, which sort first
				m.replace(m.keys()[[]int{0, 2, 3}[i]], change)
				m.want(before)
			})
		}
	}
}

// TestWrongManifests covers manifests with a correct checksum and wrong content.
func TestWrongManifests(t *testing.T) {
	for name, lie := range map[string]func(m *manifest){
		"format":         func(m *manifest) { m.Format = 2 },
		"schema":         func(m *manifest) { m.Schema = 4 },
		"cluster":        func(m *manifest) { m.Cluster = record.ID{9}.String() },
		"records":        func(m *manifest) { m.Records++ },
		"slot":           func(m *manifest) { m.Slot++ },
		"nonce":          func(m *manifest) { m.Nonce = record.ID{8}.String() },
		"id":             func(m *manifest) { m.ID = record.ID{8}.String() },
		"view":           func(m *manifest) { m.View = "others" },
		"sha256":         func(m *manifest) { m.SHA256 = strings.Repeat("00", 32) },
		"short sha256":   func(m *manifest) { m.SHA256 = "00" },
		"no size":        func(m *manifest) { m.Size = 0 },
		"negative size":  func(m *manifest) { m.Size = -1 },
		"larger":         func(m *manifest) { m.Size = 2501 },
		"huge":           func(m *manifest) { m.Size = 1 << 62 },
		"huge pieces":    func(m *manifest) { m.PieceBytes, m.Size = 1<<40, 1<<41 },
		"pieces of none": func(m *manifest) { m.PieceBytes = 0 },
		"larger pieces":  func(m *manifest) { m.PieceBytes, m.Size = 8<<20, 20<<20 },
		"piece too long": func(m *manifest) { m.Pieces[1][0] = 1 << 31 },
		"fewer":          func(m *manifest) { m.Pieces, m.Size = m.Pieces[:2], 1500 },
		"sum of a piece": func(m *manifest) { m.Pieces[1][1]++ },
		"empty piece":    func(m *manifest) { m.Pieces[1][0] = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, objstore.NewMemory(), 2, 5)
			before := m.mustSave(1500)
			m.at.Slot++
			m.mustSave(2500)
			m.replace(m.keys()[3], func(b []byte) []byte {
				var man manifest
				must.NoError(t, json.Unmarshal(b[:len(b)-9], &man))
				lie(&man)
				b = must.Get(man.encode())(t)
				return b
			})
			m.want(before)
		})
	}
}

// TestOtherLogs checks that a snapshot is not used if its position is not on this log, or not yet.
func TestOtherLogs(t *testing.T) {
	store := objstore.NewMemory()
	m := newMachine(t, store, 2, 5)
	before := m.mustSave(1500)
	m.at.Slot = 20
	lost := m.at
	m.mustSave(2500)
	m.at.Slot = 10 // restored from an earlier state
	m.want(before)
	if _, _, err := m.Restore(t.Context(), filepath.Join(m.dir, "file"), false, nil); !errors.Is(err, ErrAhead) {
		t.Fatalf("without knowing the whole log: %v", err)
	}
	m.at.Slot, m.off[lost] = 30, true // the log continued on another branch
	m.want(before)
	after := m.mustSave(1600)
	m.want(after)
	all, err := m.list(t.Context())
	if err != nil || len(all) != 2 || all[1].LogPosition.Slot != 5 {
		t.Fatalf("%+v, %v", all, err)
	}
}

// TestTwoSavers checks that a broker that is behind deletes no snapshots of one that is ahead.
func TestTwoSavers(t *testing.T) {
	store := objstore.NewMemory()
	old, leader := newMachine(t, store, 2, 50), newMachine(t, store, 3, 7)
	var theirs []byte
	for range 3 {
		old.at.Slot++
		leader.at.Slot++
		old.mustSave(1500) // for the leader it is the older one, or useless
		theirs = leader.mustSave(2500)
		leader.want(theirs)
	}
	own := slices.DeleteFunc(leader.keys(), func(key string) bool {
		n, ok := ParseName(0, key)
		return !ok || n.Epoch != 3
	})
	for range 4 {
		old.at.Slot++
		mine := old.mustSave(1400)
		old.want(mine)
		leader.want(theirs)
	}
	if got := leader.keys(); len(own) != 8 || len(got) != 8+6 || !slices.Equal(got[:8], own) {
		t.Fatalf("%q of %q", got, own)
	}
}

func TestRefusedSnapshotIsNotUsed(t *testing.T) {
	m := newMachine(t, objstore.NewMemory(), 2, 5)
	before := m.mustSave(1500)
	m.at.Slot++
	m.mustSave(2500)
	_, info := m.restored()
	if got, _ := m.restored(info.Name); !bytes.Equal(got, before) {
		t.Fatal("the refused snapshot was used")
	}
}

// TestStoreThatFails checks that errors of the store are not taken for a missing snapshot.
func TestStoreThatFails(t *testing.T) {
	store := storetest.NewFaulty(objstore.NewMemory(), 1, storetest.Faults{})
	m := newMachine(t, store, 2, 5)
	m.mustSave(1500)
	for name, c := range map[string]storetest.Faults{
		"list": {List: storetest.Rates{storetest.Before: 1}}, "get": {Get: storetest.Rates{storetest.Before: 1}}, "refused": {Get: storetest.Rates{storetest.Refuse: 1}},
	} {
		store.SetFaults(c)
		_, ok, err := m.Restore(t.Context(), filepath.Join(m.dir, "file"), true, nil)
		if ok || !errors.Is(err, objstore.ErrNoVerdict) && !errors.Is(err, objstore.ErrRefused) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

func FuzzParseName(f *testing.F) {
	n := Name{View: "things", LogPosition: LogPosition{state.Position{Epoch: 4, Slot: 77}, record.ID{3}}, Records: 9, ID: record.ID{4}, Piece: 12}
	f.Add(n.Key(0))
	n.Manifest = true
	f.Add(n.Key(0))
	f.Add("s0000/view/a/1-2-3-4-5-6")
	f.Fuzz(func(t *testing.T, key string) {
		if n, ok := ParseName(0, key); ok && (n.Key(0) != key || !objstore.ValidKey(key) && len(key) <= objstore.KeyBytesMax) {
			t.Fatalf("%q parses as %+v", key, n)
		}
	})
}

func FuzzDecode(f *testing.F) {
	n := Name{View: "things", LogPosition: LogPosition{state.Position{Epoch: 4, Slot: 77}, record.ID{3}}, ID: record.ID{4}, Piece: 1, Manifest: true}
	m := manifest{
		Format: 1, Cluster: cluster.String(), View: n.View, Schema: 3, Epoch: 4, Slot: 77, Nonce: n.Nonce.String(), ID: n.ID.String(),
		Size: 100, SHA256: strings.Repeat("ab", 32), PieceBytes: 1000, Pieces: []stored{{50, 1}},
	}
	b := must.Get(m.encode())(f)
	f.Add(b[:len(b)-9])
	f.Fuzz(func(t *testing.T, text []byte) {
		b := fmt.Appendf(bytes.Clone(text), "%08x\n", record.CRC32C(text))
		m, err := decode(b, &n)
		if err != nil {
			must.ErrorIs(t, err, ErrDamaged)
			return
		}
		if len(m.Pieces) != 1 || m.plain(0) != m.Size || m.Size > pieceBytesMax {
			t.Fatalf("%+v", m)
		}
	})
}

// TestPrint checks the description of every object.
func TestPrint(t *testing.T) {
	m := newMachine(t, objstore.NewMemory(), 2, 5)
	m.mustSave(1500)
	var out strings.Builder
	for _, key := range m.keys() {
		b, err := m.get(t.Context(), key, manifestMax, nil)
		n, ok := ParseName(0, key)
		if err != nil || !ok {
			t.Fatalf("%s: %v", key, err)
		}
		must.NoError(t, Print(&out, &n, b))
		if err := Print(&out, &n, b[1:]); n.Manifest && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"piece 0 of", "piece 1 of", "schema 3", "epoch 2 slot 5, from 1500 records", "\n1500 bytes, in 2 pieces "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
}
