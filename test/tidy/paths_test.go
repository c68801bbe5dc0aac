package tidy

import "testing"

func TestPaths(t *testing.T) {
	expect(
		t, checkPaths, source{
			"a/b.go":       "package a\n",
			"a/c/d.go":     "package c\n",
			"a/README.md":  "`c/d.go` `a/c` `c/`\n",
			"doc.md":       "`a/b.go` and `./a/c` `x/y` `a/bin/seb` `a b/c` a/none.go\n```\n`a/none.go`\n```\n",
			"bad.md":       "see\n`a/none.go`, `a/c/b.go`\n",
			"CHANGELOG.md": "`a/gone.go`\n",
		},
		"bad.md:2: path: a/none.go does not exist", "bad.md:2: path: a/c/b.go does not exist",
	)
}
