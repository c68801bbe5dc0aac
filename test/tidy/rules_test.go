package tidy

import (
	"fmt"
	"strings"
	"testing"
)

const testModule = "example.org/m"

// source is a small tree: paths and texts.
type source map[string]string

func (s source) tree() *Tree {
	files := make(map[string][]byte)
	for name, text := range s {
		files[name] = []byte(text)
	}
	return New(testModule, files)
}

// expect applies a rule to a tree and wants one finding for each part of a sentence in want, in any
// order, and no others.
func expect(t *testing.T, verify func(*Tree) []Finding, s source, want ...string) {
	t.Helper()
	found := verify(s.tree())
	for _, w := range want {
		hit := -1
		for i, f := range found {
			if strings.Contains(f.String(), w) {
				hit = i
				break
			}
		}
		if hit < 0 {
			t.Errorf("not found: %q", w)
			continue
		}
		found = append(found[:hit], found[hit+1:]...)
	}
	for _, f := range found {
		t.Errorf("unexpected finding: %v", f)
	}
}

// imports returns a Go file of one package that imports others.
func imports(pkg string, names ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// Package %s is a test.\npackage %s\n", pkg, pkg)
	for _, n := range names {
		fmt.Fprintf(&b, "import _ %q\n", n)
	}
	return b.String()
}

func TestFileThatDoesNotParse(t *testing.T) {
	expect(t, checkParse, source{"a.go": "package a\nfunc {"}, "a.go: parse:")
	expect(t, checkParse, source{"a.go": "package a\n", "testdata/b.go": "func {"})
}

func TestImports(t *testing.T) {
	m := testModule + "/"
	for _, c := range []struct {
		name string
		tree source
		want []string
	}{
		{"an earlier wing", source{"internal/triggers/rules/a.go": imports("rules", m+"internal/engine/log", m+"record", m+"driplang")}, nil},
		{"a later wing", source{"internal/engine/log/a.go": imports("log", m+"internal/protocols/kafka/wire2")}, []string{"the engine wing must not import the protocols wing"}},
		{"a public package has a wing", source{"driplang/a.go": imports("driplang", m+"api")}, []string{"the triggers wing must not import the protocols wing"}},
		{"a public package and the base", source{"client/a.go": imports("client", m+"internal/engine/base/pause")}, nil},
		{"a public package and the engine", source{"client/a.go": imports("client", m+"internal/engine/broker")}, []string{"imports nothing below internal but"}},
		{"the root opens a broker", source{"a.go": imports("seb", m+"internal/operate/node")}, nil},
		{"up to the root", source{"record/a.go": imports("record", testModule)}, []string{"the engine wing must not import the operate wing"}},
		{
			"prefix of the module's name is another module",
			source{"record/a.go": imports("record", testModule+"x/internal/operate/node")},
			nil,
		},
		{"unknown package", source{"internal/stuff/a.go": imports("stuff")}, []string{`"internal/stuff" is in no wing`}},
		{"the root has no folders", source{"stuff/a.go": imports("stuff")}, []string{`"stuff" is in no wing`}},
		{"below test support", source{"test/testenv/cmd/install/a.go": imports("main", m+"cmd/seb")}, nil},
		{
			"production imports test support",
			source{"internal/operate/node/a.go": imports("node", m+"test/storetest", m+"test/testenv")},
			[]string{"storetest, which is for tests", "testenv, which is for tests"},
		},
		{"a test imports test support", source{"internal/operate/node/a_test.go": imports("node", m+"test/storetest")}, nil},
		{"a test looks at an earlier wing", source{"internal/protocols/httpapi/a_test.go": imports("httpapi", m+"internal/engine/objstore")}, nil},
		{"a test looks at a later wing", source{"internal/engine/log/a_test.go": imports("log", m+"api")}, nil},
		{"the cache is the wiring's", source{
			"internal/engine/broker/a.go": imports("broker", m+"internal/engine/objstore/cache"),
			"internal/operate/node/a.go":  imports("node", m+"internal/engine/objstore/cache"),
		}, []string{"internal/engine/broker/a.go:3: import: internal/engine/objstore/cache is only for internal/operate/node"}},
		{"an embedder links no front end", source{
			"a.go":                         imports("seb", m+"internal/protocols/kafka", m+"internal/operate/node"),
			"internal/operate/server/a.go": imports("server", m+"internal/protocols/kafka"),
		}, []string{"internal/protocols/kafka is only for"}},
		{
			"templates",
			source{
				"api/a.go":      imports("api", "text/template", "html/template"),
				"api/a_test.go": imports("api", "text/template"),
			},
			[]string{"text/template in production", "html/template in production"},
		},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkImports, c.tree, c.want...) })
	}
}

func lines(n int) string { return strings.Repeat("\n", n) }

func TestSizes(t *testing.T) {
	body := func(n int) string { return "package a\nfunc F() {" + lines(n-1) + "}\n" }
	method := "package a\ntype T[K any] int\nfunc (t *T[K]) M() {" + lines(70) + "}\n"
	big := source{}
	for i := range 14 {
		big[fmt.Sprintf("internal/big/a%d.go", i)] = "package big" + lines(450)
	}
	for _, c := range []struct {
		name string
		tree source
		want []string
	}{
		{"function at the limit", source{"a.go": body(70)}, nil},
		{"function over it", source{"a.go": body(71)}, []string{"a.go:2: func-size: F has 71 lines, the limit is 70"}},
		{"a test's function too", source{"a_test.go": body(71)}, []string{"F has 71 lines"}},
		{"method", source{"a.go": method}, []string{"T.M has 71 lines"}},
		{"file at the limit", source{"a.go": "package a" + lines(500)}, nil},
		{"file over it", source{"a.go": "package a" + lines(501)}, []string{"a.go has 501 lines, the limit is 500"}},
		{"test file at the limit", source{"a_test.go": "package a" + lines(1000)}, nil},
		{"test file over it", source{"a_test.go": "package a" + lines(1001)}, []string{"the limit is 1000"}},
		{"generated file", source{"a.go": "// Code generated by x. DO NOT EDIT.\n\npackage a" + lines(501)}, nil},
		{"package of any length", big, nil},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkSizes, c.tree, c.want...) })
	}
}

func TestComments(t *testing.T) {
	const described = "// Package a is a test.\npackage a\n"
	for _, c := range []struct {
		name string
		tree source
		want []string
	}{
		{"package", source{"a/a.go": "package a\n", "a/b.go": "package a\n"}, []string{"package a has no package comment"}},
		{"package described in another file", source{"a/a.go": described, "a/b.go": "package a\n"}, nil},
		{"program", source{"cmd/x/main.go": "package main\n"}, []string{"package main has no package comment"}},
		{"tests only", source{"a/a_test.go": "package a\nfunc TestA() {}\n"}, nil},
		{"function", source{"a.go": described + "func F() {}\n"}, []string{"a.go:3: comment: exported F"}},
		{"described function", source{"a.go": described + "// F does.\nfunc F() {}\nfunc g() {}\n"}, nil},
		{"method", source{"a.go": described + "type t int\nfunc (t) M() {}\n// T is.\ntype T int\nfunc (*T) M() {}\n"}, []string{"exported T.M"}},
		{"method of a well-known interface", source{"a.go": described + "// T is.\ntype T int\nfunc (T) String() string { return \"\" }\n"}, nil},
		{"type", source{"a.go": described + "type T int\n"}, []string{"exported T"}},
		{"type in a group", source{"a.go": described + "// Group.\ntype (\n\tT int\n\t// U is.\n\tU int\n)\n"}, []string{"exported T "}},
		{"method of an interface", source{"a.go": described + "// I is.\ntype I interface {\n\tA()\n\tB() // does b\n}\n"}, []string{"exported I.A"}},
		{"variable", source{"a.go": described + "var A, b, C int\n"}, []string{"exported A", "exported C"}},
		{"constants under one comment", source{"a.go": described + "// Both.\nconst (\n\tA = 1\n\tB = 2\n)\n"}, nil},
		{"constants without", source{"a.go": described + "const (\n\tA = 1\n\tB = 2 // b\n)\n"}, []string{"exported A"}},
		{"constants right below a comment", source{"a.go": described + "const (\n\t// A and B are.\n\tA = 1\n\tB = 2\n\n\tC = 3\n)\n"}, []string{"exported C"}},
		{"names of a program", source{"a.go": "// Command a does.\npackage main\nfunc F() {}\n"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkComments, c.tree, c.want...) })
	}
}

func TestLinks(t *testing.T) {
	target := "# Some `code` & more\n\n## Twice\n## Twice\n<a id=\"own\"></a>\n"
	doc := func(text string) source { return source{"docs/a.md": text, "docs/b.md": target, "x/y.txt": ""} }
	for _, c := range []struct {
		name string
		tree source
		want []string
	}{
		{"file, folder and picture", doc("[b](b.md) [x](../x) [r](..) ![y](../x/y.txt \"title\")"), nil},
		{"missing file", doc("see\n[b](c.md)"), []string{`docs/a.md:2: link: link "c.md" is broken`}},
		{"missing picture", doc("![b](c.png)"), []string{"docs/c.png does not exist"}},
		{"missing named", doc("[b][1]\n\n[1]: c.md"), []string{"docs/a.md:3"}},
		{"out of the tree", doc("[b](../../c.md) [c](/etc/passwd)"), []string{`"../../c.md" points outside`, `"/etc/passwd" points outside`}},
		{"elsewhere", doc("[b](https://example.org/c.md) [m](mailto:a@example.org)"), nil},
		{"headings", doc("[b](b.md#some-code--more) [c](b.md#twice-1) [d](b.md#own)"), nil},
		{"missing heading", doc("[b](b.md#no)"), []string{"docs/b.md has no such heading"}},
		{"missing heading of its own", doc("# A\n[b](#a) [c](#b)"), []string{`link "#b"`}},
		{"code is no link", doc("`a[i](x)`\n```\n[b](c.md)\n```\n[d](d.md)"), []string{"docs/a.md:5"}},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkLinks, c.tree, c.want...) })
	}
}

func TestPhrases(t *testing.T) {
	for _, c := range []struct {
		name string
		tree source
		want []string
	}{
		{"folder of a machine", source{"a.go": "package a // see /home/someone/x\n"}, []string{`a.go:1: phrase: "/home/someone/x"`}},
		{"in a script", source{"run": "cd '/home/go'"}, []string{`"/home/go"`}},
		{"in a URL or a deeper folder", source{"a.md": "http://h/home/x a/home/x ~/home/x"}, nil},
		{"document that is not here", source{"a.go": "package a // as NOWHERE.md says\n"}, []string{"NOWHERE.md does not exist"}},
		{"its section", source{"a.go": "package a // NOWHERE section 4\n"}, []string{"NOWHERE.md does not exist"}},
		{"document that is here", source{"a.go": "package a // FORMAT.md, FORMAT section 4, RFC 9457 section 3\n", "x/FORMAT.md": ""}, nil},
		{"sums of modules are not prose", source{"go.sum": "/home/x/y"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkPhrases, c.tree, c.want...) })
	}
}

func TestTestNames(t *testing.T) {
	tree := source{
		"a.go":              "package a\nfunc TestNone() {}\n",
		"a_test.go":         "package a\nfunc TestRoot() {}\nfunc (x) TestMethod() {}\n",
		"deep/in/x_test.go": "package in\nfunc TestThere() {}\nfunc FuzzThere() {}\n",
		"docs/good.md":      "`TestThere`, in.FuzzThere, seb.TestRoot. Testing, TestX is none of ours: no, it is",
		"docs/bad.md":       "`TestGone`\n`out.TestThere` TestMethod\nTestNone",
	}
	expect(
		t, checkTestNames, tree, "docs/good.md:1: test-name: test TestX does not exist", "docs/bad.md:1: test-name: test TestGone does not exist",
		"docs/bad.md:2: test-name: test out.TestThere does not exist", "docs/bad.md:2: test-name: test TestMethod does not exist",
		"docs/bad.md:3: test-name: test TestNone does not exist",
	)
}

func TestPure(t *testing.T) {
	core := func(text string) source {
		return source{"internal/engine/log/core/a.go": "package core\n" + text, "internal/engine/log/core/a_test.go": "package core\nimport _ \"time\"\n"}
	}
	loop := func(before, over string) source {
		return core("type table map[string]int\nfunc f(m table, s []int, n chan int) (sum int) {\n" + before + "\nfor range " + over + " { sum++ }\nreturn sum }\n")
	}
	sorted := "import (\n\"maps\"\n\"slices\"\n)\nfunc f(m map[string]int) []string {\n\treturn %s\n}\n"
	for _, c := range []struct {
		name string
		tree source
		want []string
	}{
		{"clock", core("import \"time\"\nvar _ time.Time\n"), []string{"internal/engine/log/core/a.go:2: pure: internal/engine/log/core imports time"}},
		{"chance, machine, net, locks", core("import (\n_ \"math/rand/v2\"\n_ \"os/exec\"\n_ \"net/http\"\n_ \"sync/atomic\"\n)\n"), []string{
			"imports math/rand/v2", "imports os/exec", "imports net/http", "imports sync/atomic",
		}},
		{"like names are others", core("import _ \"sort\"\n"), nil},
		{"goroutine", core("func f() { go f() }\n"), []string{"a.go:2: pure: a pure package must not start a goroutine"}},
		{"map", loop("", "m"), []string{"a.go:5: pure: a range over a map"}},
		{"map behind a call", core("func g() map[int]int { return nil }\nfunc f() { for range g() { } }\n"), []string{"a.go:3"}},
		{"map as a type parameter", core("func f[M map[int]int](m M) { for range m { } }\n"), []string{"a.go:2"}},
		{"named map as a type parameter", core("func f[M ~map[int]int](m M) { for range m { } }\n"), []string{"a.go:2"}},
		{"excused with a reason", loop("//tidy:unordered a sum has no order", "m"), nil},
		{"excused without a reason", loop("//tidy:unordered  ", "m"), []string{"a.go:5"}},
		{"excuse of another line", loop("//tidy:unordered a sum has no order\n", "m"), []string{"a.go:6"}},
		{"with a reason on the same line", core("func f(m map[int]int) {\n\tfor range m { //tidy:unordered nothing is done\n\t}\n}\n"), nil},
		{"slice", loop("", "s"), nil},
		{"number", loop("", "sum"), nil},
		{"keys", core(fmt.Sprintf(sorted, "slices.Collect(maps.Keys(m))")), []string{"a.go:7: pure: maps.Keys has no order"}},
		{"sorted keys", core(fmt.Sprintf(sorted, "slices.Sorted(maps.Keys(m))")), nil},
		{"a package that does not compile", core("func f() { for range nowhere { } }\n"), []string{"undefined: nowhere"}},
		{
			"files with other build constraints do not affect types",
			source{
				"internal/engine/log/core/a.go": "//go:build plant\n\npackage core\nimport _ \"time\"\nconst on = true\n",
				"internal/engine/log/core/b.go": "//go:build !plant\n\npackage core\nconst on = false\nfunc f(m map[int]int) { for range m { } }\n",
			},
			[]string{"internal/engine/log/core/a.go:4: pure: internal/engine/log/core imports time", "internal/engine/log/core/b.go:5: pure: a range over a map"},
		},
		{"missing package", source{"a.go": "package a"}, []string{"internal/engine/log/core: pure: the package does not exist"}},
	} {
		c.tree["internal/engine/group/a.go"] = "package groups\n" // the other pure package
		t.Run(c.name, func(t *testing.T) { expect(t, checkPure, c.tree, c.want...) })
	}
}

func TestWords(t *testing.T) {
	expect(
		t, checkPhrases, source{
			"a.go":   "package a\n\n// Nobody can not.\nconst x = \"for ever\"\n",
			"b.md":   "`Whoever` is told,\nsomebody. Mended anew\n",
			"c.md":   "cannot, body, renewed, recommended, Anew2, can notify\n",
			"d.json": "nobody",
		},
		`a.go:3: phrase: "Nobody"`, `a.go:3: phrase: "can not"`, `a.go:4: phrase: "for ever"`,
		`b.md:1: phrase: "Whoever"`, `b.md:2: phrase: "somebody"`, `b.md:2: phrase: "Mended"`, `b.md:2: phrase: "anew"`,
	)
}

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

func TestFigures(t *testing.T) {
	tree := source{
		"a/a.go": "package a\n\nconst (\n\tMax = 64 << 10 // more\n\twait time.Duration = 2 * second\n)\n\n" +
			"func d(o *O) {\n\tdef(&o.Idle, 10 * time.Minute)\n\tif o.Size == 0 {\n\t\to.Size = int64(1000)\n\t}\n}\n",
		"a/a_test.go":             "package a\n\nconst Max = 3\n",
		"a/b.go":                  "package a\n\nconst second = 1e9\n",
		"d.md":                    "at most 64\nKiB, 2 s or ten minutes, 1,000 of --size 256 MiB, twelve",
		"docs/reference/flags.md": "## seb doctor\n| `--size` | `1MiB` | |\n\n## seb serve\n| `--size` | `256MiB` | |\n",
	}
	verify := func(f ...figure) func(*Tree) []Finding { return func(t *Tree) []Finding { return t.checkFigures(f) } }
	expect(t, verify(
		figure{"d", `at most (\d+ KiB)`, "a.Max"}, figure{"d", `(\d+ s) or`, "a.wait"}, figure{"d", `or (\w+ minutes)`, "a.Idle"},
		figure{"d", `([\d,]+) of`, "a.Size"}, figure{"d", `size (\w+ MiB)`, "--size"},
	), tree)
	expect(
		t, verify(
			figure{"d", `at most (\d+)`, "a.Max"}, figure{"d", `at least (\d+)`, "a.Max"}, figure{"d", `of --size (\d+)`, "--none"},
			figure{"d", `(\d+ s) or`, "a.Gone"}, figure{"d", `, (twelve)`, "a.Max"},
		), tree,
		`d.md: figure: "64" is 64, but a.Max is 65536`, `no text matches "at least (\\d+)", which repeats a.Max`, "--none does not exist",
		"a.Gone does not exist", `"twelve" is not a number with a unit`,
	)
}

func TestWordsOfTheReadme(t *testing.T) {
	many := strings.Repeat("[two words](a/b.md)\n", 400)
	expect(t, checkWords, source{"README.md": many + "- | —\n```sh\nmake run\n```\n", "docs/a.md": many + many})
	expect(t, checkWords, source{"README.md": many + "more\n"}, "801 words outside code blocks, want at most 800")
}

func TestSecretsAreComparedInConstantTime(t *testing.T) {
	const head = "package server\n\nfunc f() bool {\n\treturn "
	for text, want := range map[string]string{
		`c.APIKey == given`:                           "compares a secret",
		`given != o.apiKey`:                           "compares a secret",
		`c.HTTP.APIKey.Reveal() == given`:             "compares a secret",
		`string(secret) == given`:                     "compares a secret",
		`secret[:4] == given[:4]`:                     "compares a secret",
		`bytes.Equal([]byte(password), given)`:        "compares a secret",
		`strings.EqualFold(o.SecretKey, given)`:       "compares a secret",
		`r.Header.Get("Authorization") == "Bearer x"`: "compares a secret",
		`c.APIKey == ""`:                              "",
		`(o.AccessKey == "") != (o.SecretKey == "")`:  "",
		`len(secret) == 4`:                            "",
		`subtle.ConstantTimeCompare(secret, x) == 1`:  "",
		`topic == name`:                               "",
	} {
		s := source{"internal/operate/server/a.go": head + text + "\n}\n"}
		if want == "" {
			expect(t, checkSecrets, s)
		} else {
			expect(t, checkSecrets, s, want)
		}
	}
	expect(t, checkSecrets, source{"internal/operate/server/a_test.go": head + "c.APIKey == given\n}\n"})
}
