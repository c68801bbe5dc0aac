package encoding

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// TestValuesOrder checks the order of values when copied and referenced values alternate, in any
// sizes.
func TestValuesOrder(t *testing.T) {
	total := budget.New(64 << 20)
	whole, scratch := make([]byte, 4<<20), make([]byte, 40<<10)
	for seed := range uint64(200) {
		m := &budget.Arena{Class: total.Class(budget.Fetch), Buffers: total.Buffers()}
		rng := rand.New(rand.NewPCG(seed, 0))
		var v Values
		var want []byte
		var sizes []int
		source := whole
		for i := range 1 + rng.IntN(300) {
			value := source[:rng.IntN(1+rng.IntN(8<<10))]
			volatile := rng.IntN(8) > 0
			if volatile {
				value = scratch[:len(value)]
			} else {
				source = source[len(value):]
			}
			for j := range value {
				value[j] = byte(i + j)
			}
			must.NoError(t, v.Take(m, &record.Record{Value: value}, volatile))
			want, sizes = append(want, value...), append(sizes, len(value))
			if volatile {
				clear(value) // the caller may reuse a volatile value
			}
		}
		text := must.Get(json.Marshal(sizes))(t)
		if got := bytes.Join(v.Refs, nil); !bytes.Equal(got, want) {
			t.Errorf("seed %d: values differ from the input", seed)
		}
		if got := "[" + string(bytes.Join(v.Sizes.List, nil)) + "]"; got != string(text) || v.Count != len(sizes) || v.Sum != int64(len(want)) {
			t.Errorf("seed %d: %d values of %d bytes, sizes %s; want %d of %d, %s", seed, v.Count, v.Sum, got, len(sizes), len(want), text)
		}
		if m.Release(); m.Class.Used() != 0 {
			t.Errorf("seed %d: %d bytes still in use", seed, m.Class.Used())
		}
	}
}
