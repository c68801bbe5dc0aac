package link_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"google.golang.org/protobuf/encoding/protowire"
)

// example returns a registration whose ids are made of two bytes.
func example(node, run byte) cluster.Registration {
	return cluster.Registration{
		Run:  cluster.Run{Node: record.ID{0: node, 15: 1}, ID: record.ID{0: run, 15: 2}},
		Name: "büro-1", Addresses: []string{"10.0.0.1:9093", "[fd00::1]:9093"}, URL: "https://broker-1.example.com",
		Kafka: "broker-1.example.com:9092", KafkaID: 1234567, KeyHash: sha256.Sum256([]byte{node, run}), Version: "0.1.0", LevelMax: 6, Secure: true,
	}
}

func encode(t testing.TB, r cluster.Registration) []byte {
	t.Helper()
	b := must.Get(link.Encode(&r))(t)
	return b
}

func TestRegistrationRoundTrip(t *testing.T) {
	small := example(1, 2)
	small.Name, small.Addresses, small.URL, small.Kafka, small.Secure, small.ReadOnly, small.Version = "", nil, "", "", false, true, ""
	local := example(1, 2)
	local.Addresses, local.Machine, local.Local, local.Folder = nil, [16]byte{1, 15: 2}, "127.0.0.1:51313", "/srv/seb data"
	for _, r := range []cluster.Registration{example(1, 2), small, local} {
		got, err := link.Decode(encode(t, r))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("encoded %+v, decoded %+v, %v", r, got, err)
		}
	}
}

// TestRegistrationGolden: the bytes of a released version never change.
func TestRegistrationGolden(t *testing.T) {
	file := filepath.Join("testdata", "registration.hex")
	got := hex.EncodeToString(encode(t, example(1, 2)))
	want, err := os.ReadFile(file)
	if err != nil || strings.ReplaceAll(string(want), "\n", "") != got {
		t.Errorf("%s differs (%v); the registration is now\n%s", file, err, got)
	}
}

func TestRegistrationLimits(t *testing.T) {
	for want, change := range map[string]func(*cluster.Registration){
		"node: missing":     func(r *cluster.Registration) { r.Run.Node = record.ID{} },
		"run: missing":      func(r *cluster.Registration) { r.Run.ID = record.ID{} },
		"key hash: missing": func(r *cluster.Registration) { r.KeyHash = [32]byte{} },
		"node id -1 for Kafka clients: want 1 or more":                      func(r *cluster.Registration) { r.KafkaID = -1 },
		"format level 0: want 1 or more":                                    func(r *cluster.Registration) { r.LevelMax = 0 },
		"17 addresses, at most 16 are allowed":                              func(r *cluster.Registration) { r.Addresses = make([]string, 17) },
		`address "10.0.0.1": want host:port`:                                func(r *cluster.Registration) { r.Addresses[0] = "10.0.0.1" },
		`local address "127.0.0.1": want host:port`:                         func(r *cluster.Registration) { r.Local = "127.0.0.1" },
		"folder: 1025 bytes, at most 1024 are allowed":                      func(r *cluster.Registration) { r.Folder = strings.Repeat("a", 1025) },
		`address ":9093": want host:port`:                                   func(r *cluster.Registration) { r.Addresses[0] = ":9093" },
		`Kafka address "a:0": want host:port`:                               func(r *cluster.Registration) { r.Kafka = "a:0" },
		"address: 285 bytes, at most 280 are allowed":                       func(r *cluster.Registration) { r.Addresses[1] = strings.Repeat("a", 280) + ":9093" },
		"name: 256 bytes, at most 255 are allowed":                          func(r *cluster.Registration) { r.Name = strings.Repeat("a", 256) },
		`name "a\nb": invalid character`:                                    func(r *cluster.Registration) { r.Name = "a\nb" },
		`name "\xff": invalid character`:                                    func(r *cluster.Registration) { r.Name = "\xff" },
		"version: 65 bytes, at most 64 are allowed":                         func(r *cluster.Registration) { r.Version = strings.Repeat("1", 65) },
		"URL: 513 bytes, at most 512 are allowed":                           func(r *cluster.Registration) { r.URL = "http://" + strings.Repeat("a", 506) },
		`URL "ftp://a": want http:// or https://`:                           func(r *cluster.Registration) { r.URL = "ftp://a" },
		`URL "http://u:p@a": want http:// or https:// with a host and with`: func(r *cluster.Registration) { r.URL = "http://u:p@a" },
		"4699 bytes, at most 4096 are allowed": func(r *cluster.Registration) {
			r.Addresses = nil
			for range link.AddressesMax {
				r.Addresses = append(r.Addresses, strings.Repeat("a", 275)+":9093")
			}
		},
	} {
		r := example(1, 2)
		change(&r)
		check.ErrorContains(t, check.Err(link.Encode(&r)), want)
	}
}

func TestDamagedRegistrations(t *testing.T) {
	good := encode(t, example(1, 2))
	for i := range good {
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(good)
			bad[i] ^= bit
			if r, err := link.Decode(bad); !errors.Is(err, link.ErrDamaged) {
				t.Fatalf("byte %d changed: %+v, %v", i, r, err)
			}
		}
		must.ErrorIsf(t, check.Err(link.Decode(good[:i])), link.ErrDamaged, "the first %d of %d bytes", i, len(good))
	}
	check.ErrorIsf(t, check.Err(link.Decode(append(bytes.Clone(good), 0))), link.ErrDamaged, "a byte more")
	if _, err := link.Decode(make([]byte, link.RegistrationMax+1)); !errors.Is(err, link.ErrDamaged) || !strings.Contains(err.Error(), "more than 4096 bytes") {
		t.Errorf("too long: %v", err)
	}
}

// TestUnknownFieldsAreSkipped: a newer program may add fields of any wire type.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	r := example(1, 2)
	body := encode(t, r)[20:]
	body = protowire.AppendVarint(protowire.AppendTag(body, 100, protowire.VarintType), 7)
	body = protowire.AppendBytes(protowire.AppendTag(body, 101, protowire.BytesType), []byte("new"))
	body = protowire.AppendFixed64(protowire.AppendTag(body, 102, protowire.Fixed64Type), 7)
	if got, err := link.Decode(framed(body)); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

func TestRegistrationObjects(t *testing.T) {
	ctx := t.Context()
	store := objstore.NewMemory()
	a, b := example(1, 1), example(2, 2)
	for range 2 { // the second time it is the same object
		must.NoError(t, link.Put(ctx, store, &a))
	}
	other := a
	other.Name = "other"
	check.ErrorIsf(t, link.Put(ctx, store, &other), objstore.ErrExists, "another registration of the same run")
	must.NoError(t, link.Put(ctx, store, &b))
	if got, err := link.Get(ctx, store, b.Run); err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("got %+v, %v", got, err)
	}
	check.ErrorIsf(t, check.Err(link.Get(ctx, store, example(3, 3).Run)), objstore.ErrNotFound, "an unknown run")
	// The object of one run under the name of another, garbage, and a name that is not of a run.
	moved, damaged := link.Key(example(4, 4).Run), link.Key(example(5, 5).Run)
	for key, body := range map[string][]byte{moved: encode(t, a), damaged: []byte("garbage"), "peer/unknown": encode(t, a), "probe/x": nil} {
		must.NoError(t, store.Put(ctx, key, objstore.NewBody(body)))
	}
	l, err := link.List(ctx, store, record.ID{})
	if err != nil || l.More || !reflect.DeepEqual(l.Found, []cluster.Registration{a, b}) || len(l.Own) != 0 {
		t.Errorf("listed %+v, %v", l, err)
	}
	own, err := link.List(ctx, &readless{store, t, link.Key(a.Run)}, a.Run.Node)
	if err != nil || !reflect.DeepEqual(own.Found, []cluster.Registration{b}) || !slices.Equal(own.Own, []cluster.Run{a.Run}) {
		t.Errorf("listed by the node of the first run: %+v, %v", own, err)
	}
	text := fmt.Sprint(l.Damaged)
	for _, key := range []string{moved, damaged, "peer/unknown"} {
		if len(l.Damaged) != 3 || !strings.Contains(text, key) {
			t.Errorf("%d are damaged, and %s is not named: %s", len(l.Damaged), key, text)
		}
	}
	must.NoError(t, link.Delete(ctx, store, a.Run, b.Run, b.Run))
	if l, err = link.List(ctx, store, record.ID{}); err != nil || len(l.Found) != 0 {
		t.Errorf("after the deletion: %+v, %v", l, err)
	}
}

// readless is a store that must not be asked for a key.
type readless struct {
	objstore.Store
	t   *testing.T
	key string
}

func (r *readless) Get(ctx context.Context, key string, part objstore.Range) (objstore.Object, error) {
	if key == r.key {
		r.t.Errorf("GET %s", key)
	}
	return r.Store.Get(ctx, key, part)
}

func TestListIsBounded(t *testing.T) {
	store := objstore.NewMemory()
	for i := range link.PeersMax + 3 {
		r := example(byte(i), 1)
		must.NoError(t, link.Put(t.Context(), store, &r))
	}
	l, err := link.List(t.Context(), store, record.ID{})
	if err != nil || len(l.Found) != link.PeersMax || !l.More {
		t.Errorf("%d found, more %v, %v", len(l.Found), l.More, err)
	}
}

// TestARepeatedPutOfARegistrationIsNoError: the store answered nothing, though it stored the object.
func TestARepeatedPutOfARegistrationIsNoError(t *testing.T) {
	store := &forgetful{Store: objstore.NewMemory()}
	r := example(1, 1)
	if err := link.Put(t.Context(), store, &r); err != nil || store.puts != 2 {
		t.Errorf("%d PUTs, %v", store.puts, err)
	}
}

// forgetful is a store whose first PUT has no verdict.
type forgetful struct {
	objstore.Store
	puts int
}

func (f *forgetful) Put(ctx context.Context, key string, body objstore.Body) error {
	f.puts++
	if err := f.Store.Put(ctx, key, body); err != nil || f.puts > 1 {
		return err
	}
	return objstore.ErrNoVerdict
}
