package cost_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestGuideHasThePrices: the table of the guide has each price list.
func TestGuideHasThePrices(t *testing.T) {
	guide := must.Get(os.ReadFile("../../../docs/reference/costs.md"))(t)
	for _, p := range cost.Presets {
		var put, list, get, storage float64
		_, row, _ := strings.Cut(string(guide), "\n| `"+p.Name+"` |")
		if _, err := fmt.Sscanf(row, " $%g | $%g | $%g | $%g |", &put, &list, &get, &storage); err != nil {
			t.Errorf("%s: %v in %.60q", p.Name, err, row)
		}
		check.Equalf(t, cost.Prices{Name: p.Name, Put: put, List: list, Get: get, Storage: storage}, p, "the guide")
	}
}

func TestLoadPrices(t *testing.T) {
	for kind, want := range map[objstore.Kind]string{objstore.KindS3: "s3-standard", objstore.KindDisk: "free", objstore.KindMemory: "free"} {
		if p, err := cost.LoadPrices("", kind); err != nil || p.Name != want {
			t.Errorf("%s: %+v, %v, want %s", kind, p, err, want)
		}
	}
	if p, err := cost.LoadPrices("r2", objstore.KindDisk); err != nil || p.Put != 4.5 || p.Get != 0.36 {
		t.Errorf("r2: %+v, %v", p, err)
	}
	file := filepath.Join(t.TempDir(), "mine.json")
	for text, want := range map[string]string{
		`{"put_per_million": 1, "list_per_million": 2.5, "get_per_million": 0, "storage_per_gb_month": 0.01}`: "",
		`{"put_per_million": 1, "list_per_million": 2.5, "get_per_million": -1}`:                              "get_per_million -1: want 0 or more dollars\nstorage_per_gb_month is missing",
		`{"put_per_milion": 1}`: "put_per_milion: unknown member",
		`[]`:                    "prices as JSON",
		``:                      "prices as JSON",
		`{"put_per_million": 1, "list_per_million": 2.5, "get_per_million": 0, "storage_per_gb_month": 0.01} {}`: "more than one JSON value",
		`"` + strings.Repeat("x", 64<<10) + `"`: "more than 65536 bytes",
	} {
		must.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		p, err := cost.LoadPrices(file, objstore.KindS3)
		switch {
		case want == "":
			if err != nil || p != (cost.Prices{Name: "mine.json", Put: 1, List: 2.5, Storage: 0.01}) {
				t.Errorf("%s: %+v, %v", text, p, err)
			}
		case err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file):
			t.Errorf("%.100s: %v, want %q and the name of the file", text, err, want)
		}
	}
	if _, err := cost.LoadPrices("s3-stnadard", objstore.KindS3); err == nil || !strings.Contains(err.Error(), "want s3-standard, s3-express, r2, b2, gcs, free or a file of prices: open s3-stnadard: no such file") {
		t.Errorf("unknown name: %v", err)
	}
}
