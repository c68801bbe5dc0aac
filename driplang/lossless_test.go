package driplang_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/sebtest"
)

var treesFlag = flag.Uint64("trees", 0, "number of random trees of TestLossless, and of TestSentenceHasOneMeaning in driplang/monitor (0: few)")

// TestLossless: text, JSON and expression are converted into each other without a loss, for the cases
// and for random trees that write both forms themselves. Spans delimit the nodes of the tree.
func TestLossless(t *testing.T) {
	for _, c := range driplangtest.Cases(t) {
		if e, err := driplang.Parse(c.Expr); err == nil {
			roundTrip(t, e)
			checkSpans(t, c.Expr, e)
		}
	}
	valid, n := uint64(0), max(*treesFlag, uint64(sebtest.Runs(2000, 150)))
	for seed := range n {
		c := driplangtest.Random(seed)
		c.Rich = seed%4 > 0
		if tree := c.Tree(2+c.Below(5), false); lossless(t, tree, c) {
			valid++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d valid trees of %d", valid, n); valid < n/2 {
		t.Error("fewer than half are valid")
	}
}

// lossless checks one tree. It reports whether the tree is valid.
func lossless(t *testing.T, tree *driplangtest.Tree, c *driplangtest.Chooser) bool {
	text, doc, loose := tree.Text(), tree.JSON(), tree.Loose(c)
	e, err := driplang.Parse(text)
	fromJSON, errJSON := driplang.ParseJSON([]byte(doc))
	fromLoose, errLoose := driplang.Parse(loose)
	if (err == nil) != (errJSON == nil) || (err == nil) != (errLoose == nil) {
		t.Errorf("%s: %v\n%s: %v\n%s: %v", text, err, doc, errJSON, loose, errLoose)
	}
	if err != nil {
		return false
	}
	for form, e := range map[string]driplang.Expr{text: e, doc: fromJSON, loose: fromLoose} {
		if got, err := e.MarshalJSON(); err != nil || string(got) != doc || e.String() != text {
			t.Errorf("%s\nis the text %s\nand the JSON %s, %v, want\n%s\n%s", form, e, got, err, text, doc)
		}
	}
	check.Equalf(t, len(e.Spans()), len(tree.Nodes()), "%s: spans", text)
	checkNodes(t, loose, fromLoose, tree)
	if list := fromJSON.Spans(); list != nil {
		t.Errorf("%s has spans %+v", doc, list)
	}
	return true
}

// checkNodes: the spans are those of the nodes, in order.
func checkNodes(t *testing.T, text string, e driplang.Expr, tree *driplangtest.Tree) {
	spans, nodes := e.Spans(), tree.Nodes()
	if len(spans) != len(nodes) {
		t.Errorf("%s: %d spans of %d nodes", text, len(spans), len(nodes))
		return
	}
	const start, startJSON = `count("start") >= 1 THEN (`, `{"then":[{"count":{"event":"start"},"is":">=","n":1},` // windows need a start
	for i, s := range spans {
		part, err := driplang.Parse(start + text[s.From:s.To] + "\n)")
		if err != nil {
			if !limited(err) {
				t.Errorf("%s: span %+v: %v", text, s, err)
			}
			continue
		}
		if got, _ := part.MarshalJSON(); string(got) != startJSON+nodes[i].JSON()+"]}" {
			t.Errorf("%s: span %+v, %s, is %s, want %s", text, s, text[s.From:s.To], got, nodes[i].JSON())
		}
	}
}
