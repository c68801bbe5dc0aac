package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// topicNames are names as in a request line, byte for byte. as is the topic's name if the broker
// accepts it.
var topicNames = []struct{ raw, as string }{
	// Names that leave the folder.
	{raw: "."},
	{raw: ".."},
	{raw: "%2e"},
	{raw: "%2e%2e"},
	{raw: "%2e%2e%2f"},
	{raw: "../evil"},
	{raw: "..%2f..%2fevil"},
	{raw: "%2e%2e/%2e%2e/evil"},
	{raw: "..%5c..%5cevil"},
	{raw: "..\\..\\evil"},
	{raw: "..\\../evil"},
	{raw: "/etc/evil"},
	{raw: "%2fetc%2fevil"},
	{raw: "a/../../evil"},
	{raw: "a/evil"},
	{raw: "evil/"},
	{raw: "C:evil"},
	{raw: "C%3a%5cevil"},
	{raw: "%5c%5chost%5cevil"},
	{raw: "~evil"},
	{raw: "%252e%252e%252fevil"},
	{raw: "%c0%ae%c0%ae%c0%afevil"}, // overlong
	{raw: "%e0%80%ae%e0%80%ae%e0%80%afevil"},
	{raw: "%c0%80"},
	{raw: "%ef%bc%8e%ef%bc%8e%ef%bc%8fevil"}, // full width
	{raw: "%e2%80%a4%e2%80%a4/evil"},
	{raw: "%00"},
	{raw: "evil%00.x"},
	{raw: "evil%0a"},
	{raw: "evil%0d%0ax"},
	{raw: "evil%20x"},
	{raw: "evil+x"},
	{raw: "evil%7f"},
	{raw: "%ff%fe"},
	{raw: "%c3%a4vil"},
	{raw: "evil%zz"},
	{raw: "evil%"},
	{raw: "%u002e%u002e"},
	{raw: "evil;x"},
	{raw: "evil:stream"},
	{raw: "evil*"},
	{raw: "evil&topic-name=other"},
	{raw: ""},
	{raw: strings.Repeat("e", 250)},
	{raw: strings.Repeat("%65", 250)},
	// Names that only look similar.
	{"...", "..."},
	{"%2e%2e%2e", "..."},
	{"..evil", "..evil"},
	{"case", "case"},
	{"Case", "Case"},
	{"CASE", "CASE"},
	{"%43ase", "Case"},
	{"con", "con"},
	{"NUL", "NUL"},
	{"aux.txt", "aux.txt"},
	{"COM1", "COM1"},
	{"dot.", "dot."},
	{".hidden", ".hidden"},
	{".new-1", ".new-1"},
	{"-rf", "-rf"},
	{"--help", "--help"},
	{"api-key", "api-key"},
	{"broker.json", "broker.json"},
	{"meta", "meta"},
	{"s0000", "s0000"},
	{"wal", "wal"},
	{strings.Repeat("l", 249), strings.Repeat("l", 249)},
}

// tree returns every file and folder below dir, except below the given ones.
func tree(t *testing.T, dir string, without ...string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if slices.Contains(without, name) && e.IsDir() {
			return filepath.SkipDir
		}
		names = append(names, name)
		return err
	})
	must.NoError(t, err)
	return names
}

// rawRequest sends a request with an unchanged target and returns the answer.
func rawRequest(t *testing.T, address, method, target, key, body string) (int, []byte) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(address, "http://")))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
	kind := "text/plain"
	if strings.HasPrefix(body, "{") {
		kind = "application/json"
	}
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: */*\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		method, target, key, kind, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.NoErrorf(t, err, "%s %s", method, target)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, b
}

// TestTopicNamesStayOutOfPaths: with any topic name a broker creates files only in its bucket and
// its data folder. No file name depends on a topic name, because names can be equal where case does
// not matter.
func TestTopicNamesStayOutOfPaths(t *testing.T) {
	const key = "names-key"
	for _, store := range []string{"folder", "S3, with a cache"} {
		t.Run(store, func(t *testing.T) {
			p := newWorkDir(t)
			p.env = []string{"SEB_API_KEY=" + key, "AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
			must.NoError(t, os.MkdirAll(filepath.Join(p.dir, "x", "y"), 0o700))
			bucket := "./x/y/bucket"
			if store != "folder" {
				bucket = testenv.S3ForTest(t).Spec("names")
			}
			flags := []string{"--bucket", bucket, "--data-dir", "x/y/data", "--batch-wait-time", "0"}
			b := p.serve(flags...)
			before := tree(t, p.dir, "x/y/bucket", "x/y/data")

			names := map[string]bool{}
			for _, c := range topicNames {
				status, body := rawRequest(t, b.address(), "PUT", "/topic?topic-name="+c.raw, key, `{"settings":{"key-index":true}}`)
				want := http.StatusBadRequest
				if c.as != "" {
					if want = http.StatusCreated; names[c.as] {
						want = http.StatusOK
					}
					names[c.as] = true
				}
				if status != want {
					t.Errorf("%.60q: %d %s, want %d", c.raw, status, body, want)
				}
				want = http.StatusBadRequest
				if c.as != "" {
					want = http.StatusCreated
				}
				if status, body = rawRequest(t, b.address(), "POST", "/records?topic-name="+c.raw, key, "of "+c.as); status != want {
					t.Errorf("a record to %.60q: %d %s, want %d", c.raw, status, body, want)
				}
			}
			b.term()
			b = p.serve(flags...)
			sameTopics(t, b, key, names)
			if after := tree(t, p.dir, "x/y/bucket", "x/y/data"); !slices.Equal(before, after) {
				t.Errorf("outside of the bucket: before\n%q\nafter\n%q", before, after)
			}
			namesOfFiles(t, tree(t, filepath.Join(p.dir, "x/y")), names)
		})
	}
}

// sameTopics fails unless exactly these topics exist, each with its own records.
func sameTopics(t *testing.T, b *running, key string, names map[string]bool) {
	t.Helper()
	_, body := rawRequest(t, b.address(), "GET", "/topics", key, "")
	var got struct{ Topics []struct{ Name string } }
	if err := json.Unmarshal(body, &got); err != nil || len(got.Topics) != len(names) {
		t.Errorf("%d topics, want %d: %s %v", len(got.Topics), len(names), body, err)
	}
	for _, topic := range got.Topics {
		if !names[topic.Name] {
			t.Errorf("topic %q", topic.Name)
		}
		if status, body := rawRequest(t, b.address(), "GET", "/record?offset=0&topic-name="+topic.Name, key, ""); status != 200 || string(body) != "of "+topic.Name {
			t.Errorf("topic %q: %d %s", topic.Name, status, body)
		}
	}
}

// namesOfFiles fails if paths contain a topic's name, differ only in case, or are invalid on
// Windows.
func namesOfFiles(t *testing.T, paths []string, names map[string]bool) {
	t.Helper()
	folded := map[string]string{}
	own := map[string]bool{".": true, "bucket": true, "data": true, "api-key": true, "broker.json": true, "meta": true, "s0000": true, "wal": true}
	for _, path := range paths {
		if other, taken := folded[strings.ToLower(path)]; taken {
			t.Errorf("%s and %s differ in case only", other, path)
		}
		folded[strings.ToLower(path)] = path
		for element := range strings.SplitSeq(path, "/") {
			if names[element] && !own[element] || strings.Contains(element, "evil") {
				t.Errorf("%s: %q is the name of a topic", path, element)
			}
			if strings.ContainsAny(element, `<>:"\|?*`) || strings.HasSuffix(element, ".") && element != "." {
				t.Errorf("%s: not a name on every file system", path)
			}
		}
	}
	t.Logf("%d paths", len(paths))
	if len(paths) < 5 {
		t.Errorf("only %q: too few paths to check", paths)
	}
}

// TestExportWhereCaseDoesNotCount: two topics whose names differ in case have the same folder. The
// export of the second is refused, and the files of the first do not change. A symbolic link makes
// the folder the same here.
func TestExportWhereCaseDoesNotCount(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	p.serve()
	p.mustWith("one\ntwo\n", "produce", "orders")
	for name, values := range map[string]string{"Orders": "other\nvalues\n", "ORDERS": "other\n", "oRDERS": "one\nTWO\nthree\n"} {
		p.mustWith(values, "produce", name)
	}
	p.must("export", "--topic", "orders", "--to", "./out")
	out := filepath.Join(p.dir, "out")
	for _, name := range []string{"Orders", "ORDERS", "oRDERS"} {
		must.NoError(t, os.Symlink("orders", filepath.Join(out, name)))
	}
	kept := must.Get(os.ReadFile(filepath.Join(out, "orders", "000000000000.record_batch")))(t)
	before := tree(t, out, "+tmp")
	p.refused(1, "has other records than", "export", "--topic", "Orders", "--to", "./out")
	p.refused(1, "belong to another topic", "export", "--topic", "ORDERS", "--to", "./out")
	p.refused(1, "has other records than", "export", "--topic", "oRDERS", "--to", "./out")
	for _, topic := range []string{"..", ".", "../x", "/x", "a/../x", "a\\x", "%2e%2e"} {
		p.refused(2, "topic", "export", "--topic", topic, "--to", "./out")
		p.refused(2, "topic", "import", "--topic", topic, "--from", "./out")
	}
	p.refused(1, "topic", "import", "--topic", "orders", "--as", "../x", "--from", "./out")
	if after := tree(t, out, "+tmp"); !slices.Equal(before, after) {
		t.Errorf("before\n%q\nafter\n%q", before, after)
	}
	if now, err := os.ReadFile(filepath.Join(out, "orders", "000000000000.record_batch")); err != nil || string(now) != string(kept) {
		t.Errorf("the file has changed: %v", err)
	}
}

// TestExportLeavesItsFolderByNoLink: export does not follow a link out of the folder.
func TestExportLeavesItsFolderByNoLink(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.mustWith("one\n", "produce", "orders")
	for _, dir := range []string{"out", "elsewhere"} {
		must.NoError(t, os.MkdirAll(filepath.Join(p.dir, dir), 0o700))
	}
	must.NoError(t, os.Symlink(filepath.Join(p.dir, "elsewhere"), filepath.Join(p.dir, "out", "orders")))
	p.refused(4, "escapes", "export", "--topic", "orders", "--to", "./out")
	if left := tree(t, filepath.Join(p.dir, "elsewhere")); len(left) != 1 {
		t.Errorf("%q", left)
	}
}
