package console

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	modelSeed  = flag.Int("model-seed", 1, "seed of the random expressions of TestModel")
	modelTrees = flag.Int("model-trees", 3000, "number of random expressions of TestModel")
)

// TestModel: the model of the trigger builder keeps every expression, each edit gives an expression
// that the JSON Schema of driplang allows, edits make every expression, and undo is their reverse.
func TestModel(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("needs node: ", err)
	}
	builder := filepath.Join("..", "..", "internal", "protocols", "console", "ui", "pages", "triggers", "builder")
	entry, bundle := filepath.Join(t.TempDir(), "model.ts"), filepath.Join(t.TempDir(), "model.mjs")
	var exports string
	for _, name := range []string{"tree", "entries"} {
		path := must.Get(filepath.Abs(filepath.Join(builder, name)))(t)
		exports += "export * from " + strconv.Quote(path) + ";\n"
	}
	must.NoError(t, os.WriteFile(entry, []byte(exports), 0o600))
	third := "./internal/protocols/console/thirdparty/"
	must.Get(testenv.Command(t.Context(), "../..", "go", "tool", "-modfile=tools/go.mod", "esbuild", entry, "--bundle", "--format=esm", "--target=es2022",
		"--alias:preact="+third+"preact.mjs",
		"--alias:preact/hooks="+third+"hooks.mjs", "--log-level=warning", "--outfile="+bundle))(t)
	out, err := exec.CommandContext(t.Context(), "node", "model.mjs", bundle, "../../driplang/schema.json", strconv.Itoa(*modelSeed), strconv.Itoa(*modelTrees)).CombinedOutput()
	if err != nil {
		t.Errorf("%v; again: go test ./test/console -run TestModel -model-seed %d -model-trees %d\n%s", err, *modelSeed, *modelTrees, out)
	}
}
