package benchmark

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

func TestAnswersCountAsJSONDoes(t *testing.T) {
	var a answer
	for _, text := range []string{
		`{"offsets":[0]}`, `{"offsets":[7,8,9]}`, `{"offsets":[9223372036854775807]}`, `{"offsets":[]}`, `{"offsets":[1],"duplicate":true}`,
		"{ \"offsets\" : [1, 2] }\n", `{"duplicate":true}`, `{}`,
	} {
		var want struct{ Offsets []int64 }
		must.NoError(t, json.Unmarshal([]byte(text), &want))
		if n, err := a.offsets(strings.NewReader(text)); err != nil || n != len(want.Offsets) {
			t.Errorf("%s: %d offsets (%v), want %d", text, n, err, len(want.Offsets))
		}
	}
	for _, text := range []string{"", `{"offsets":[1,]}`, `{"offsets":[,1]}`, `{"offsets":[1`, `{"offsets":["1"]}`, `{"offsets":[1]}]}`, `{"offsets":[1][2]}`} {
		if n, err := a.offsets(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %d offsets, want an error", text, n)
		}
	}
}

func TestLatenciesOfAllWorkers(t *testing.T) {
	took := newLatencies()
	for w := range 1000 {
		took.of(w).add(time.Duration(w+1) * time.Millisecond)
	}
	info := took.info()
	near := func(have, want float64) bool { return have > want*0.998 && have < want*1.002 }
	if !near(info.P50, 500) || !near(info.P99, 990) || !near(info.Max, 1000) {
		t.Errorf("%+v", info)
	}
}
