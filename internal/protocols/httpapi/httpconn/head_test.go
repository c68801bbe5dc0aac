package httpconn

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"
)

// FuzzHead checks that the end of a valid head is where net/http finds it, however its bytes
// arrive.
func FuzzHead(f *testing.F) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /records HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"POST /records HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
		"GET / HTTP/1.1\nHost: x\n\n",
		"GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\r\n\r\n",
		"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nContent\r-Length: 3\r\nA\r\rB: c\n\r\n\r\nabc",
	} {
		f.Add([]byte(text), uint16(1))
		f.Add([]byte(text), uint16(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, piece uint16) {
		var whole, cut head
		end := len(b) - len(whole.take(b))
		for at := 0; at < len(b) && !cut.whole; {
			n := min(int(piece)%100+1, len(b)-at)
			rest := cut.take(b[at : at+n])
			at += n - len(rest)
			if cut.whole && at != end {
				t.Fatalf("head ends at %d in pieces, at %d in one piece", at, end)
			}
		}
		if cut != whole {
			t.Fatalf("in pieces: %+v, in one piece: %+v", cut, whole)
		}
		if plain := (head{}); len(plain.bytewise(b)) != len(b)-end || plain != whole {
			t.Fatalf("byte by byte: %+v, in one piece: %+v", plain, whole)
		}
		in := bufio.NewReaderSize(bytes.NewReader(b), len(b)+16)
		r, err := http.ReadRequest(in)
		if err != nil || whole.fault(r) != nil {
			return
		}
		if theirs := len(b) - in.Buffered(); theirs != end {
			t.Fatalf("head ends at %d, for net/http at %d: %q", end, theirs, b)
		}
		if r.ContentLength > 0 && whole.lengths != 1 || r.ContentLength < 0 && whole.codings != 1 {
			t.Fatalf("%d lengths and %d codings, for net/http %d bytes: %q", whole.lengths, whole.codings, r.ContentLength, b)
		}
	})
}

// bytewise is the specification of take.
func (h *head) bytewise(b []byte) []byte {
	for i, c := range b {
		switch {
		case c == '\n':
			h.bare = h.bare || h.last != '\r'
			if h.endLine() {
				return b[i+1:]
			}
		case h.last == '\r': // of which a line may have only one, before its end
			h.bare = true
		} // one is allowed, before LF
		if c != '\n' && c != '\r' {
			if h.n < nameMax {
				h.line[h.n] = c
			}
			h.n++
		}
		h.last = c
	}
	return nil
}
