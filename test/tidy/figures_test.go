package tidy

import "testing"

func TestFigures(t *testing.T) {
	tree := source{
		"a/a.go": "package a\n\nconst (\n\tMax = 64 << 10 // more\n\twait time.Duration = 2 * second\n)\n\n" +
			"func d(o *O) {\n\tdef(&o.Idle, 10 * time.Minute)\n\tif o.Size == 0 {\n\t\to.Size = int64(1000)\n\t}\n}\n",
		"a/a_test.go":             "package a\n\nconst Max = 3\n",
		"a/b.go":                  "package a\n\nconst second = 1e9\n",
		"d.md":                    "at most 64\nKiB, 2 s or ten minutes, 1,000 of --size 256 MiB, twelve",
		"docs/reference/flags.md": "| `--size` | `256MiB` | |\n",
	}
	check := func(f ...figure) func(*Tree) []Finding { return func(t *Tree) []Finding { return t.checkFigures(f) } }
	expect(t, check(
		figure{"d", `at most (\d+ KiB)`, "a.Max"}, figure{"d", `(\d+ s) or`, "a.wait"}, figure{"d", `or (\w+ minutes)`, "a.Idle"},
		figure{"d", `([\d,]+) of`, "a.Size"}, figure{"d", `size (\w+ MiB)`, "--size"},
	), tree)
	expect(
		t, check(
			figure{"d", `at most (\d+)`, "a.Max"}, figure{"d", `at least (\d+)`, "a.Max"}, figure{"d", `of --size (\d+)`, "--none"},
			figure{"d", `(\d+ s) or`, "a.Gone"}, figure{"d", `, (twelve)`, "a.Max"},
		), tree,
		`d.md: figure: "64" is 64, but a.Max is 65536`, `no text matches "at least (\\d+)", which repeats a.Max`, "--none does not exist",
		"a.Gone does not exist", `"twelve" is not a number with a unit`,
	)
}
