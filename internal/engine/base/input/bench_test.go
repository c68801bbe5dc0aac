package input_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/test/must"
)

// BenchmarkJSON decodes bodies of the API.
func BenchmarkJSON(b *testing.B) {
	for _, n := range []int{1, 10} {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"receipt":"%064d","do":"done"}`, i))
		}
		text := []byte(`{"messages":[` + strings.Join(list, ",") + `]}`)
		b.Run(fmt.Sprintf("settlements=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v api.Settlements
				must.NoError(b, input.JSON(text, &v, input.NoNull))
			}
		})
	}
	text := []byte(`{"max":10,"wait":"20s"}`)
	b.Run("lease", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v api.LeaseRequest
			must.NoError(b, input.JSON(text, &v, input.NoNull))
		}
	})
}
