package kafka_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// filler fills requests with random values.
type filler struct {
	*rand.Rand
	most int // bound on the elements of an array
}

func (f filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			if f.IntN(4) == 0 {
				tags.Set(1000+f.Uint32N(1<<20), f.bytes())
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				f.fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(f.bytes())
			return
		}
		n := f.IntN(f.most + 1)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Pointer:
		if f.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.String:
		v.SetString(string(f.bytes()))
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(f.Int64() >> f.IntN(64))
	case reflect.Uint8:
		v.SetUint(uint64(f.Uint32N(256)))
	case reflect.Float64:
		v.SetFloat(f.NormFloat64())
	default:
		panic(v.Kind().String())
	}
}

func (f filler) bytes() []byte {
	b := make([]byte, f.IntN(20))
	for i := range b {
		b[i] = byte(f.Uint32())
	}
	return b
}

// request is a random request without its head.
func (f filler) request(key, version int16) []byte {
	r := kmsg.RequestForKey(key)
	f.fill(reflect.ValueOf(r).Elem())
	r.SetVersion(version)
	return r.AppendTo(nil)
}

// decoded decodes a request like a server.
func decoded(key, version int16, body []byte) error {
	r := kmsg.RequestForKey(key)
	r.SetVersion(version)
	return r.ReadFrom(body)
}

// shaped are the served API keys in order, and the shapes of their requests.
func shaped(t testing.TB) (keys []kmsg.ApiVersionsResponseApiKey, shapes map[int16]wire.Shape) {
	served := start(t).keys
	shapes = map[int16]wire.Shape{}
	for _, key := range slices.Sorted(maps.Keys(served)) {
		keys = append(keys, served[key])
		shapes[key], _ = kafka.Shape(kmsg.Key(key))
	}
	return keys, shapes
}

// TestShapes: every version of every request has the shape of its API, and decoding takes no more
// memory than Skim estimates. Truncated requests are refused.
func TestShapes(t *testing.T) {
	f := filler{rand.New(rand.NewPCG(1, 2)), 4}
	keys, shapes := shaped(t)
	for _, a := range keys {
		key, name, shape := a.ApiKey, kmsg.NameForKey(a.ApiKey), shapes[a.ApiKey]
		for version := a.MinVersion; version <= a.MaxVersion; version++ {
			r := kmsg.RequestForKey(key)
			r.SetVersion(version)
			if version > r.MaxVersion() || r.IsFlexible() != shape.IsFlexible(version) {
				t.Fatalf("%s v%d: newest is %d, flexible %v", name, version, r.MaxVersion(), r.IsFlexible())
			}
			for i := range 100 {
				f.most = i % 5
				body := f.request(key, version)
				cost, rest, err := shape.Skim(version, append(body[:len(body):len(body)], 0))
				if err != nil || len(rest) != 1 {
					t.Fatalf("%s v%d: %v, rest of %d bytes, request %x", name, version, err, len(rest), body)
				}
				sebtest.Allocates(t, int(cost)+4<<10, body, func() { must.NoError(t, decoded(key, version, body)) })
				cut := body[:f.IntN(max(1, len(body)))]
				if _, _, err := shape.Skim(version, cut); err == nil && decoded(key, version, cut) != nil {
					t.Fatalf("%s v%d: the first %d of %d bytes pass", name, version, len(cut), len(body))
				}
			}
		}
	}
}

// TestClaims: a count without bytes behind it is refused before memory is allocated. The decoder
// alone would turn 64 KiB into several MiB, or loop four billion times.
func TestClaims(t *testing.T) {
	body := func(head []byte, count []byte) []byte { return append(append(head, count...), make([]byte, 60<<10)...) }
	i32 := binary.BigEndian.AppendUint32(nil, 60<<10)
	varint := binary.AppendUvarint(nil, 60<<10)
	for _, c := range []struct {
		name    string
		key     kmsg.Key
		version int16
		body    []byte
	}{
		{"fetch topics", kmsg.Fetch, 4, body(make([]byte, 17), i32)},
		{"fetch topics compact", kmsg.Fetch, 12, body(make([]byte, 25), varint)},
		{"tags", kmsg.ApiVersions, 3, append([]byte{1, 1}, binary.AppendUvarint(nil, 1<<32-1)...)},
		{"tags of a tag", kmsg.Fetch, 15, append(make([]byte, 24-3), append([]byte{1, 1, 1, 1, 1, 17}, append(make([]byte, 12), 0xff, 0xff, 0xff, 0xff, 0x0f)...)...)},
	} {
		shape, _ := kafka.Shape(c.key)
		if cost, _, err := shape.Skim(c.version, c.body); err == nil {
			t.Errorf("%s: accepted, with a cost of %d bytes", c.name, cost)
		}
	}
}

// TestWorstAmplification bounds the memory for an unauthenticated request whose bytes are as many
// small elements as possible. All of it is reserved before decoding.
func TestWorstAmplification(t *testing.T) {
	const size = 64 << 10
	most, of := 0.0, ""
	keys, shapes := shaped(t)
	for _, fill := range []byte{0, 1, 2, 3} {
		filled := bytes.Repeat([]byte{fill}, size)
		for _, a := range keys {
			shape := shapes[a.ApiKey]
			for version := a.MinVersion; version <= a.MaxVersion; version++ {
				for lead := 0; lead < 40; lead += sebtest.Runs(1, 3) {
					binary.BigEndian.PutUint32(filled[lead:], uint32(size-lead-4)/3)
					cost, _, err := shape.Skim(version, filled)
					copy(filled[lead:], filled[size-4:])
					if err != nil {
						continue
					}
					if ratio := float64(cost) / size; ratio > most {
						most, of = ratio, kmsg.NameForKey(a.ApiKey)
					}
				}
			}
		}
	}
	t.Logf("at most %.0f bytes of memory for a byte (%s)", most, of)
	if most > 200 {
		t.Errorf("%.0f bytes of memory for a byte of %s, want at most 200", most, of)
	}
}

// FuzzRequest: any request that passes Skim decodes within the estimated memory.
func FuzzRequest(f *testing.F) {
	keys, shapes := shaped(f)
	fill := filler{rand.New(rand.NewPCG(3, 4)), 3}
	for i, a := range keys {
		for version := a.MinVersion; version <= a.MaxVersion; version++ {
			f.Add(uint8(i), uint8(version), fill.request(a.ApiKey, version))
		}
	}
	f.Fuzz(func(t *testing.T, which, v uint8, body []byte) {
		a := keys[int(which)%len(keys)]
		shape, version := shapes[a.ApiKey], a.MinVersion+int16(v)%(a.MaxVersion-a.MinVersion+1)
		cost, _, err := shape.Skim(version, body)
		if err != nil {
			return
		}
		sebtest.Allocates(t, int(cost)+4<<10, body, func() { _ = decoded(a.ApiKey, version, body) })
	})
}
