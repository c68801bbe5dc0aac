package httpin

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"
)

// FuzzHead: the end of a head that is found good is where net/http sees it, however its bytes come in.
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
				t.Fatalf("cut, it ends at %d, in one piece at %d", at, end)
			}
		}
		if cut != whole {
			t.Fatalf("cut: %+v, in one piece: %+v", cut, whole)
		}
		in := bufio.NewReaderSize(bytes.NewReader(b), len(b)+16)
		r, err := http.ReadRequest(in)
		if err != nil || whole.fault(r) != nil {
			return
		}
		if theirs := len(b) - in.Buffered(); theirs != end {
			t.Fatalf("it ends at %d, for net/http at %d: %q", end, theirs, b)
		}
		if r.ContentLength > 0 && whole.lengths != 1 || r.ContentLength < 0 && whole.codings != 1 {
			t.Fatalf("%d lengths and %d codings, for net/http %d bytes: %q", whole.lengths, whole.codings, r.ContentLength, b)
		}
	})
}
