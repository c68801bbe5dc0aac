package httpconn

import (
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/codec"
)

const (
	// EncodeMin is the shortest answer that is compressed: a shorter one fits into a packet as it is.
	EncodeMin = 1 << 10
	// encodersMax is how many answers are compressed at once, and encodersShare the part of a class, one in so many, that their
	// streams may take.
	encodersMax   = 8
	encodersShare = 8
)

// Encoders compresses answers whose clients ask for that. An answer for which there is no stream, or no memory for one, is sent as
// it is: clients cannot rely on compression, and must not be refused for its sake. All methods may be called concurrently.
type Encoders struct {
	memory *budget.Class
	turns  chan struct{} // a token for each stream that is in use
	idle   [2]sync.Pool  // of codec.Stream: gzip, zstd; they go from answer to answer
}

// NewEncoders returns encoders whose streams are reserved from a class of the budget, of which they take a small part.
func NewEncoders(memory *budget.Class) *Encoders {
	n := min(memory.Limit()/encodersShare/codec.StreamBytes, encodersMax)
	return &Encoders{memory: memory, turns: make(chan struct{}, n)}
}

// InUse is how many answers are being compressed.
func (e *Encoders) InUse() int { return len(e.turns) }

// Writer returns what to write the answer to a request to instead of w, if the client takes a coding, else nil. Its caller closes
// it after the answer, and calls Release in any case. It says in Vary what the answer depends on.
func (e *Encoders) Writer(w http.ResponseWriter, r *http.Request) *Encoded {
	w.Header().Add("Vary", "Accept-Encoding")
	if r.Method == http.MethodHead {
		return nil
	}
	kind := acceptedCoding(r.Header.Values("Accept-Encoding"))
	if kind == codec.None {
		return nil
	}
	return &Encoded{ResponseWriter: w, encoders: e, kind: kind}
}

// acceptedCoding is the coding that a client likes best of those that there are (RFC 9110, section 12.5.3), zstd before gzip.
func acceptedCoding(headers []string) codec.Kind {
	best, quality := codec.None, 0.0
	for _, h := range headers {
		for element := range strings.SplitSeq(h, ",") {
			name, param, _ := strings.Cut(element, ";")
			kind := codec.None
			switch strings.ToLower(strings.Trim(name, " \t")) {
			case "gzip", "x-gzip":
				kind = codec.Gzip
			case "zstd":
				kind = codec.Zstd
			default:
				continue
			}
			q := 1.0
			if param = strings.Trim(param, " \t"); param != "" {
				text, ok := strings.CutPrefix(strings.ToLower(param), "q=")
				var err error
				if q, err = strconv.ParseFloat(text, 64); !ok || err != nil || !(q >= 0 && q <= 1) {
					continue
				}
			}
			if q > quality || q == quality && q > 0 && kind == codec.Zstd {
				best, quality = kind, q
			}
		}
	}
	return best
}

// Encoded is a ResponseWriter that compresses an answer if it is worth that. It belongs to the request's goroutine.
type Encoded struct {
	http.ResponseWriter
	encoders *Encoders
	kind     codec.Kind
	begun    bool
	stream   codec.Stream // nil: the answer is sent as it is
	memory   *budget.Reservation
}

// Unwrap lets http.ResponseController find the connection.
func (w *Encoded) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader is part of http.ResponseWriter.
func (w *Encoded) WriteHeader(status int) {
	if !w.begun {
		w.begun = true
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Encoded) begin(status int) {
	h := w.Header()
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if status != http.StatusOK && status != http.StatusCreated || err == nil && n < EncodeMin || h.Get("Content-Encoding") != "" {
		return
	}
	if w.stream = w.encoders.take(w); w.stream == nil {
		return
	}
	w.stream.Reset(w.ResponseWriter)
	h.Del("Content-Length")
	h.Set("Content-Encoding", w.kind.String())
	if tag := h.Get("ETag"); tag != "" {
		h.Set("ETag", EncodedTag(tag, w.kind.String()))
	}
}

// EncodedTag is the entity tag of an answer in a coding: a strong tag names bytes, and those differ.
func EncodedTag(tag, coding string) string { return strings.TrimSuffix(tag, `"`) + "-" + coding + `"` }

// take gets a stream for w, or nil.
func (e *Encoders) take(w *Encoded) codec.Stream {
	select {
	case e.turns <- struct{}{}:
	default:
		return nil
	}
	if w.memory = e.memory.ReserveNow(codec.StreamBytes); w.memory == nil {
		<-e.turns
		return nil
	}
	if s, ok := e.pool(w.kind).Get().(codec.Stream); ok {
		return s
	}
	s, err := codec.NewStream(w.kind)
	if err != nil {
		panic("httpin: " + err.Error()) // there are streams of both kinds
	}
	return s
}

func (e *Encoders) pool(k codec.Kind) *sync.Pool {
	if k == codec.Zstd {
		return &e.idle[1]
	}
	return &e.idle[0]
}

// Write is part of http.ResponseWriter.
func (w *Encoded) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.stream == nil {
		return w.ResponseWriter.Write(b)
	}
	return w.stream.Write(b)
}

// Close sends the end of the compressed form. An answer that must be cut off is not closed.
func (w *Encoded) Close() error {
	if w.stream == nil {
		return nil
	}
	return w.stream.Close()
}

// Release gives the stream and its memory back. It may be called more than once.
func (w *Encoded) Release() {
	if w.stream == nil {
		return
	}
	w.stream.Reset(nil)
	w.encoders.pool(w.kind).Put(w.stream)
	w.stream = nil
	w.memory.Release()
	<-w.encoders.turns
}
