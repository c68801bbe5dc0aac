package httpconn

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sebbroker/seb/internal/engine/base/codec"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

const (
	// EncodeMin is the shortest answer that is compressed. A shorter one fits into a packet.
	EncodeMin = 1 << 10
	// encodersMax bounds the answers that are compressed at once. Their streams may take
	// 1/encodersShare of a class.
	encodersMax   = 8
	encodersShare = 8
)

// Encoders compresses answers for clients that accept it. Without a free stream or memory, an
// answer is sent uncompressed: compression is optional, so it must not cause an error. All methods
// may be called concurrently.
type Encoders struct {
	memory *budget.Class
	sem    chan struct{} // a token for each stream in use
	idle   [2]sync.Pool  // of codec.Stream, reused: gzip, zstd
}

// NewEncoders returns encoders that reserve a small part of memory for their streams.
func NewEncoders(memory *budget.Class) *Encoders {
	n := min(memory.Limit()/encodersShare/codec.StreamBytes, encodersMax)
	return &Encoders{memory: memory, sem: make(chan struct{}, n)}
}

// InUse returns the number of answers that are being compressed.
func (e *Encoders) InUse() int { return len(e.sem) }

// Writer returns a compressing writer for the answer to a request, or nil if the client accepts no
// coding. The caller closes it after the answer and calls Release in any case. Writer sets Vary.
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

// acceptedCoding returns the available coding that the client prefers (RFC 9110, section 12.5.3),
// zstd before gzip.
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

// Encoded is a ResponseWriter that compresses an answer of at least EncodeMin bytes. It belongs to
// the request's goroutine.
type Encoded struct {
	http.ResponseWriter
	encoders *Encoders
	kind     codec.Kind
	begun    bool
	stream   codec.Stream // nil: uncompressed
	memory   *budget.Reservation
}

// Unwrap gives http.ResponseController access to the connection.
func (w *Encoded) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
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
	if w.stream = w.encoders.acquire(w); w.stream == nil {
		return
	}
	w.stream.Reset(w.ResponseWriter)
	h.Del("Content-Length")
	h.Set("Content-Encoding", w.kind.String())
	if tag := h.Get("ETag"); tag != "" {
		h.Set("ETag", EncodedTag(tag, w.kind.String()))
	}
}

// Codings are those in which an answer with an entity tag may have been sent.
var Codings = []string{"gzip", "zstd"}

// EncodedTag returns the entity tag of an answer in a coding. A strong tag identifies bytes, so
// each coding needs one.
func EncodedTag(tag, coding string) string { return strings.TrimSuffix(tag, `"`) + "-" + coding + `"` }

// acquire returns a stream for w, or nil if none is available.
func (e *Encoders) acquire(w *Encoded) codec.Stream {
	select {
	case e.sem <- struct{}{}:
	default:
		return nil
	}
	if w.memory = e.memory.ReserveNow(codec.StreamBytes); w.memory == nil {
		<-e.sem
		return nil
	}
	if s, ok := e.pool(w.kind).Get().(codec.Stream); ok {
		return s
	}
	s, err := codec.NewStream(w.kind)
	if err != nil {
		panic("httpconn: " + err.Error()) // both kinds have streams
	}
	return s
}

func (e *Encoders) pool(k codec.Kind) *sync.Pool {
	if k == codec.Zstd {
		return &e.idle[1]
	}
	return &e.idle[0]
}

// Write implements http.ResponseWriter.
func (w *Encoded) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.stream == nil {
		return w.ResponseWriter.Write(b)
	}
	return w.stream.Write(b)
}

// Close sends the end of the compressed stream. Do not call it for an answer that must be
// truncated.
func (w *Encoded) Close() error {
	if w.stream == nil {
		return nil
	}
	return w.stream.Close()
}

// Release returns the stream and its memory. It may be called more than once.
func (w *Encoded) Release() {
	if w.stream == nil {
		return
	}
	w.stream.Reset(nil)
	w.encoders.pool(w.kind).Put(w.stream)
	w.stream = nil
	w.memory.Release()
	<-w.encoders.sem
}

// Condition is the header If-None-Match or If-Match of a request (RFC 9110, section 13.1).
type Condition struct {
	Any  bool     // "*": matches every representation
	tags []string // opaque tags with their quotes, without W/
}

// entityTag matches an element of a list of entity tags and the comma after it. blank lists the
// characters that may separate elements.
var entityTag = regexp.MustCompile(`^(?:W/)?("[^\x00-\x20"\x7f]*")[ \t]*(?:,|$)`)

const blank = ", \t"

// IfNoneMatch parses the header If-None-Match. It returns nil without the header, and a problem if
// the value is neither "*" nor a list of entity tags: a malformed condition of a write must not
// count as absent.
func IfNoneMatch(r *http.Request) (*Condition, error) { return condition(r, "If-None-Match") }

// IfMatch is IfNoneMatch for the header If-Match. Weak tags match nothing. A tag may have the suffix of
// a coding in which the answer with the tag was sent.
func IfMatch(r *http.Request) (*Condition, error) {
	c, err := condition(r, "If-Match")
	if c != nil {
		for i, tag := range c.tags {
			for _, coding := range Codings {
				if plain, ok := strings.CutSuffix(tag, "-"+coding+`"`); ok {
					c.tags[i] = plain + `"`
				}
			}
		}
	}
	return c, err
}

func condition(r *http.Request, header string) (*Condition, error) {
	given := r.Header.Values(header)
	if len(given) == 0 {
		return nil, nil
	}
	text := strings.Join(given, ",")
	if strings.Trim(text, " \t") == "*" {
		return &Condition{Any: true}, nil
	}
	c := &Condition{}
	for rest := strings.TrimLeft(text, blank); rest != ""; rest = strings.TrimLeft(rest, blank) {
		tag := entityTag.FindStringSubmatch(rest)
		if tag == nil {
			return nil, problem.BadField(header, "want * or entity tags in quotes, given %s", problem.Quote(text))
		}
		if header == "If-None-Match" || !strings.HasPrefix(rest, "W/") {
			c.tags = append(c.tags, tag[1])
		}
		rest = rest[len(tag[0]):]
	}
	return c, nil
}

// Matches reports whether the client has the representation with this entity tag. The comparison is
// weak. A nil condition never matches.
func (c *Condition) Matches(tag string) bool {
	if c == nil {
		return false
	}
	if c.Any {
		return true
	}
	return slices.Contains(c.tags, strings.TrimPrefix(tag, "W/"))
}
