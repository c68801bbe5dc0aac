package store

import (
	"path/filepath"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// BenchmarkDue reads one due row, as the engine does for each deadline.
func BenchmarkDue(b *testing.B) {
	f, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "triggers.db"), Cluster: "one", Unsafe: true})
	must.NoError(b, err)
	defer f.Close()
	err = f.Update(b.Context(), func(tx *Tx) error {
		if err := tx.PutInsts([]InstKey{{1, "e", 0}, {1, "f", 0}}, []Inst{{Due: 1, Data: []byte("x")}, {Due: 2, Data: []byte("x")}}); err != nil {
			return err
		}
		var list []Due
		for b.Loop() {
			if list, err = tx.Due(list[:0], 1, 5, 1); err != nil || len(list) != 1 {
				b.Fatal(list, err)
			}
		}
		return nil
	})
	must.NoError(b, err)
}
