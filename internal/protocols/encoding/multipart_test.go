package encoding

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, HeadMax) }}

// parseMultipart runs the reader like the handler.
func parseMultipart(r io.Reader, boundary string, maxRecords int) (sizes []uint32, records []byte, err error) {
	br := readers.Get().(*bufio.Reader)
	defer readers.Put(br)
	br.Reset(r)
	m := NewMultipartReader(br, boundary)
	var p Sizes
	p.Reset(maxRecords, nil)
	if err := m.ReadSizes(&p); err != nil {
		return nil, nil, err
	}
	if p.Count > int64(maxRecords) || p.Sum > 1<<20 {
		return nil, nil, problem.OverLimit("records", int64(maxRecords), p.Count)
	}
	records = make([]byte, p.Sum)
	if _, err := io.ReadFull(m.R, records); err != nil {
		return nil, nil, Ended(err, problem.BadField("records", "short"))
	}
	return p.Lengths, records, m.End(p.Sum)
}

func body(boundary, sizes, records string) string {
	return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"sizes\"\r\n\r\n" + sizes +
		"\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=\"records\"\r\n\r\n" + records + "\r\n--" + boundary + "--\r\n"
}

func TestMultipartAccepts(t *testing.T) {
	for name, c := range map[string]struct{ body, sizes, records string }{
		"as the original's client":         {body("b", "[3,4]", "abcdefg"), "[3,4]", "abcdefg"},
		"a line end inside the records":    {body("b", "[9]", "a\r\n--b\r\nc"), "[9]", "a\r\n--b\r\nc"},
		"all records empty":                {body("b", "[0,0]", ""), "[0,0]", ""},
		"white space and a line end":       {body("b", " [ 1 ,\r\n2 ] \n", "xyz"), "[1,2]", "xyz"},
		"no line end after the last":       {strings.TrimSuffix(body("b", "[1]", "x"), "\r\n"), "[1]", "x"},
		"a preamble and an epilogue":       {"hello\r\n" + body("b", "[1]", "x") + "bye", "[1]", "x"},
		"an empty array":                   {body("b", "[]", ""), "[]", ""},
		"other headers, folded, lowercase": {strings.ReplaceAll(body("b", "[1]", "x"), "Content-Disposition: form-data; ", "X-A: 1\r\n  2\r\ncontent-disposition:\tform-data;\r\n filename=\"f\"; "), "[1]", "x"},
		"space after the boundary":         {strings.ReplaceAll(body("b", "[1]", "x"), "--b\r\n", "--b \t\r\n"), "[1]", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.body), iotest.OneByteReader(strings.NewReader(c.body)), iotest.HalfReader(strings.NewReader(c.body))} {
				sizes, records := must.Get2(parseMultipart(r, "b", 100))(t)
				if got := strings.ReplaceAll(fmt.Sprint(sizes), " ", ","); got != c.sizes || string(records) != c.records {
					t.Fatalf("got %s %q", got, records)
				}
			}
		})
	}
}

func TestMultipartRefuses(t *testing.T) {
	long := strings.Repeat("x", HeadMax)
	good := body("b", "[3,4]", "abcdefg")
	swapped := strings.NewReplacer(`"sizes"`, `"records"`, `"records"`, `"sizes"`).Replace(good)
	for name, c := range map[string]struct{ body, field string }{
		"nothing":                         {"", "body"},
		"no boundary at all":              {"hello\r\n", "body"},
		"parts in the wrong order":        {swapped, "sizes"},
		"sizes only":                      {good[:strings.Index(good, "\r\n--b\r\nContent-Disposition: form-data; name=\"records\"")] + "\r\n--b--\r\n", "records"},
		"no parts":                        {"--b--\r\n", "sizes"},
		"sum below the records":           {body("b", "[3,3]", "abcdefg"), "records"},
		"sum above the records":           {body("b", "[3,5]", "abcdefg"), "records"},
		"sum far above the records":       {body("b", "[3,5000]", "abcdefg"), "records"},
		"a third part":                    {strings.TrimSuffix(good, "--\r\n") + "\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n--b--", "body"},
		"a long epilogue":                 {good + long + "x", "body"},
		"long part headers":               {strings.Replace(good, "Content", "X: "+long+"\r\nContent", 1), "body"},
		"a long preamble":                 {long + "\r\n" + good, "body"},
		"quoted-printable":                {strings.Replace(good, "Content", "Content-Transfer-Encoding: quoted-printable\r\nContent", 1), "sizes"},
		"a header without colon":          {strings.Replace(good, "Content-Disposition: form", "Content-Disposition form", 1), "sizes"},
		"a control character in a header": {strings.Replace(good, "form-data; ", "form-data;\r", 1), "sizes"},
		"another disposition":             {strings.Replace(good, "form-data;", "attachment;", 1), "sizes"},
		"null":                            {body("b", "null", ""), "sizes"},
		"an object":                       {body("b", "{}", ""), "sizes"},
		"a negative length":               {body("b", "[-1]", "a"), "sizes"},
		"a fraction":                      {body("b", "[1.0]", "a"), "sizes"},
		"an exponent":                     {body("b", "[1e0]", "a"), "sizes"},
		"a leading zero":                  {body("b", "[01]", "a"), "sizes"},
		"a comma at the end":              {body("b", "[1,]", "a"), "sizes"},
		"two numbers":                     {body("b", "[1 1]", "aa"), "sizes"},
		"a length over 32 bits":           {body("b", "[4294967296]", "a"), "sizes"},
		"a length over 64 bits":           {body("b", "[18446744073709551617]", "a"), "sizes"},
		"text after the array":            {body("b", "[1]x", "a"), "sizes"},
		"two arrays":                      {body("b", "[1][1]", "a"), "sizes"},
		"the end within the array":        {good[:strings.Index(good, ",4]")], "sizes"},
		"the end after the array":         {good[:strings.Index(good, "]")+1], "sizes"},
		"the end within the records":      {good[:strings.Index(good, "efg")], "records"},
		"the end before the last line":    {good[:strings.Index(good, "efg")+3], "records"},
		"another boundary between parts":  {strings.Replace(good, "]\r\n--b", "]\r\n--c", 1), "body"},
		"another boundary at the end":     {strings.Replace(good, "--b--", "--c--", 1), "records"},
		"garbage after the last boundary": {strings.Replace(good, "--b--", "--b--x", 1), "records"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.body), iotest.OneByteReader(strings.NewReader(c.body))} {
				_, _, err := parseMultipart(r, "b", 100)
				var p *api.Problem
				if !errors.As(err, &p) || p.Code != api.BadRequest || p.Field != c.field {
					t.Fatalf("got %v, field %q, want bad_request of %s", err, fieldOf(p), c.field)
				}
			}
		})
	}
}

func fieldOf(p *api.Problem) string {
	if p == nil {
		return ""
	}
	return p.Field
}

func TestMultipartReturnsReadErrors(t *testing.T) {
	limit := problem.OverLimit("body", 1, 2)
	good := body("b", "[3,4]", "abcdefg")
	for n := range len(good) - 2 { // the last line end is optional
		r := io.MultiReader(strings.NewReader(good[:n]), iotest.ErrReader(limit))
		if _, _, err := parseMultipart(r, "b", 100); !errors.Is(err, limit) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

func TestSizesAreSummedIn64Bits(t *testing.T) {
	var p Sizes
	p.Reset(1, nil)
	_, done, err := p.Feed([]byte("[4294967295,2]"))
	if err != nil || !done || p.Sum != 4294967297 || p.Count != 2 || len(p.Lengths) != 1 {
		t.Fatalf("%v %v %+v", done, err, p)
	}
}

func FuzzSizes(f *testing.F) {
	for _, s := range []string{"[3,4]", "[]", " [ 0 , 12 ]", "[01]", "[1,]", "[4294967296]", "[null]", "null", "[1e2]", "[-0]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var whole, cut Sizes
		whole.Reset(1<<20, nil)
		cut.Reset(1<<20, nil)
		n, done, err := whole.Feed(b)
		for i := 0; i < len(b); i++ {
			_, d, e := cut.Feed(b[i : i+1])
			if e != nil || d {
				if (e == nil) != (err == nil) || d != done || d && i+1 != n {
					t.Fatalf("byte by byte: %v %v at %d; whole: %v %v at %d", d, e, i, done, err, n)
				}
				break
			}
		}
		ok := err == nil && done && len(bytes.TrimSpace(b[n:])) == 0
		var want []uint32
		wantErr := json.Unmarshal(b, &want)
		if bytes.Contains(b, []byte("null")) {
			return // encoding/json accepts null for an array and for 0
		}
		if ok != (wantErr == nil) {
			// TrimSpace removes more white space than JSON allows
			if ok && strings.ContainsAny(string(b[n:]), "\v\f\u0085\u00a0") {
				return
			}
			t.Fatalf("%q: ours %v (%v), encoding/json: %v", b, ok, err, wantErr)
		}
		if ok && fmt.Sprint(want) != fmt.Sprint(whole.Lengths) {
			t.Fatalf("%q: %v, encoding/json: %v", b, whole.Lengths, want)
		}
	})
}

// reference reads a body with mime/multipart.
func reference(b []byte, boundary string) (sizes []uint32, records []byte, err error) {
	r := multipart.NewReader(bytes.NewReader(b), boundary)
	for _, want := range []string{"sizes", "records"} {
		part, err := r.NextRawPart()
		if err != nil {
			return nil, nil, err
		}
		if part.FormName() != want {
			return nil, nil, fmt.Errorf("part %q", part.FormName())
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, nil, err
		}
		if want == "records" {
			records = data
		} else if err := json.Unmarshal(data, &sizes); err != nil {
			return nil, nil, err
		}
	}
	return sizes, records, nil
}

// FuzzMultipart checks that an accepted body means the same to mime/multipart, however its bytes
// arrive. Records that contain the boundary are an exception: the sizes are right, and
// mime/multipart stops early.
func FuzzMultipart(f *testing.F) {
	f.Add([]byte(body("b", "[3,4]", "abcdefg")), "b", uint64(3))
	f.Add([]byte("pre\r\n"+body("b", "[0,0]", "")+"post"), "b", uint64(0))
	f.Add([]byte(body("b", " [1] \r\n", "x")), "b", uint64(8))
	f.Fuzz(func(t *testing.T, b []byte, boundary string, cuts uint64) {
		if err := CheckBoundary(boundary); err != nil {
			return
		}
		sizes, records, err := parseMultipart(bytes.NewReader(b), boundary, 1000)
		sizes1, records1, err1 := parseMultipart(sebtest.Cut(b, cuts), boundary, 1000)
		if fmt.Sprint(err) != fmt.Sprint(err1) || !slices.Equal(sizes, sizes1) || !bytes.Equal(records, records1) {
			t.Fatalf("whole: %v %v %q; cut: %v %v %q", err, sizes, records, err1, sizes1, records1)
		}
		if err != nil || bytes.Contains(records, []byte("--"+boundary)) {
			return
		}
		wantSizes, wantRecords, err := reference(b, boundary)
		if err != nil || !slices.Equal(sizes, wantSizes) || !bytes.Equal(records, wantRecords) {
			t.Fatalf("ours %v %q; mime/multipart %v %q %v", sizes, records, wantSizes, wantRecords, err)
		}
	})
}

// FuzzMultipartWriter checks that the output of mime/multipart is accepted, with any boundary, and
// gives the same records.
func FuzzMultipartWriter(f *testing.F) {
	f.Add("boundary", []byte("abc"), "X-Other", "v", uint8(2))
	f.Add("with space and ()", []byte{}, "", "", uint8(0))
	f.Fuzz(func(t *testing.T, boundary string, records []byte, name, value string, cut uint8) {
		var buf bytes.Buffer
		w := multipart.NewWriter(&buf)
		if w.SetBoundary(boundary) != nil || len(value) > 1000 || len(name) > 1000 {
			return
		}
		n := min(int(cut), len(records))
		sizes := fmt.Sprintf("[%d,%d]", n, len(records)-n)
		for _, part := range []struct {
			name string
			data []byte
		}{{"sizes", []byte(sizes)}, {"records", records}} {
			head := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf("form-data; name=%q", part.name)}}
			if tokenOnly(name) && !strings.HasPrefix(strings.ToLower(name), "content-") {
				// mime/multipart writes control characters but cannot read them.
				head.Set(name, strings.Map(func(r rune) rune {
					if isControl(r) {
						return -1
					}
					return r
				}, value))
			}
			pw := must.Get(w.CreatePart(head))(t)
			_, _ = pw.Write(part.data)
		}
		_ = w.Close()
		_, params := must.Get2(mime.ParseMediaType(w.FormDataContentType()))(t)
		got := params["boundary"]
		fault := CheckBoundary(got)
		if fault != nil || got != boundary {
			t.Fatalf("boundary %q: %v", got, fault)
		}
		gotSizes, gotRecords, err := parseMultipart(iotest.HalfReader(&buf), got, 1000)
		if err != nil || len(gotSizes) != 2 || !bytes.Equal(gotRecords, records) {
			t.Fatalf("%v %v %q", err, gotSizes, gotRecords)
		}
	})
}

func tokenOnly(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return s != ""
}
