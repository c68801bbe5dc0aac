package tidy

import "testing"

func TestWords(t *testing.T) {
	expect(
		t, checkWords, source{
			"a.go":   "package a\n\n// Nobody can not.\nconst x = \"for ever\"\n",
			"b.md":   "`Whoever` is told,\nsomebody. Mended anew\n",
			"c.md":   "cannot, body, renewed, recommended, Anew2, can notify\n",
			"d.json": "nobody",
		},
		`a.go:3: word: "Nobody"`, `a.go:3: word: "can not"`, `a.go:4: word: "for ever"`,
		`b.md:1: word: "Whoever"`, `b.md:2: word: "somebody"`, `b.md:2: word: "Mended"`, `b.md:2: word: "anew"`,
	)
}
