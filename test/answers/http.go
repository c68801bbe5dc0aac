package answers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// callTime bounds a call. Answers come much earlier.
const callTime = time.Minute

func (r *run) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(callTime))
}

// request sends a request over a connection of its own.
func (r *run) request(ctx context.Context, c *call) (string, error) {
	b := r.brokers[c.at]
	body, err := c.bytes("\n")
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, c.verb, b.http, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	path, query, _ := strings.Cut(c.what, "?")
	req.URL.Opaque, req.URL.RawQuery = path, query // as it stands in the list
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "answers")
	if c.as != "none" {
		req.Header.Set("Authorization", "Bearer "+r.vars[c.as])
	}
	for _, h := range c.headers {
		name, value, _ := strings.Cut(h, ":")
		if value = strings.TrimSpace(value); value == "" {
			req.Header.Del(name)
		} else if name == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	conn, err := r.dial(ctx, b.http)
	if err != nil {
		return "error: " + err.Error() + "\n", nil
	}
	defer conn.Close()
	if err := req.Write(conn); err != nil {
		return "error: " + err.Error() + "\n", nil
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return "error: " + err.Error() + "\n", nil
	}
	defer resp.Body.Close()
	return r.response(resp), nil
}

// bytes returns the body.
func (c *call) bytes(end string) ([]byte, error) {
	if c.base64 != "" {
		return base64.StdEncoding.DecodeString(c.base64)
	}
	return []byte(strings.Join(c.body, end)), nil
}

func (r *run) response(resp *http.Response) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", resp.Proto, resp.Status)
	if len(resp.TransferEncoding) > 0 {
		resp.Header.Set("Transfer-Encoding", strings.Join(resp.TransferEncoding, ", "))
	}
	if resp.Close {
		b.WriteString("(the connection ends)\n")
	}
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		for _, value := range resp.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	body, err := io.ReadAll(resp.Body)
	b.WriteByte('\n')
	if resp.Header.Get("Content-Type") == "application/vnd.seb.recordbatch" {
		b.WriteString(batches("batch", body))
	} else {
		b.WriteString(readable(decoded(resp.Header.Get("Content-Encoding"), body)))
	}
	if err != nil {
		fmt.Fprintf(&b, "\nerror: %v", err)
	}
	text := b.String()
	if _, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && params["boundary"] != "" {
		text = strings.ReplaceAll(text, params["boundary"], "<boundary>")
	}
	return text
}

// decoded removes a content coding.
func decoded(coding string, body []byte) []byte {
	var in io.Reader
	var err error
	switch coding {
	case "gzip":
		in, err = gzip.NewReader(bytes.NewReader(body))
	case "zstd":
		in, err = zstd.NewReader(bytes.NewReader(body))
	default:
		return body
	}
	if err == nil {
		var plain []byte
		if plain, err = io.ReadAll(in); err == nil {
			return plain
		}
	}
	return []byte(fmt.Sprintf("not %s: %v", coding, err))
}

// readable formats a body without losing a byte: JSON without white space in several lines, bytes that
// are not text as a Go string.
func readable(body []byte) string {
	var compact, indented bytes.Buffer
	if json.Compact(&compact, body) == nil && bytes.Equal(compact.Bytes(), body) && json.Indent(&indented, body, "", " ") == nil {
		return indented.String() + "\n"
	}
	if !utf8.Valid(body) || bytes.ContainsAny(body, "\x00\x01\x02\x03") {
		return strconv.Quote(string(body)) + "\n"
	}
	return strings.ReplaceAll(string(body), "\r", `\r`) + "\n"
}

// raw sends the bytes of a connection, and reads until the broker closes it or answers have ended.
func (r *run) raw(ctx context.Context, c *call) (string, error) {
	conn, err := r.dial(ctx, r.brokers[c.at].http)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	body, err := c.bytes("\r\n")
	if err != nil {
		return "", err
	}
	if _, rest, ok := bytes.Cut(body, []byte("\r\n\r\n")); ok {
		body = bytes.Replace(body, []byte("Content-Length: auto"), fmt.Appendf(nil, "Content-Length: %d", len(rest)), 1)
	}
	if _, err := conn.Write(body); err != nil {
		return "error: " + err.Error() + "\n", nil
	}
	var b strings.Builder
	for in := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			switch {
			case errors.Is(err, io.EOF):
				b.WriteString("(closed)\n")
			case errors.Is(err, os.ErrDeadlineExceeded):
				b.WriteString("(open)\n")
			default:
				fmt.Fprintf(&b, "error: %v\n", err)
			}
			return b.String(), nil
		}
		b.WriteString(r.response(resp))
		if resp.Close {
			return b.String(), nil
		}
		_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	}
}

// hook receives webhooks.
type hook struct {
	*httptest.Server
	mu   sync.Mutex // guards the fields below
	got  []string
	more chan struct{} // closed at the next webhook
}

func newHook() (*hook, error) {
	h := &hook{more: make(chan struct{})}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s\n", r.Method, r.URL)
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(r.Header[name], ", "))
		}
		b.WriteString("\n" + readable(body))
		h.mu.Lock()
		h.got = append(h.got, b.String())
		close(h.more)
		h.more = make(chan struct{})
		h.mu.Unlock()
		if code, err := strconv.Atoi(r.URL.Query().Get("status")); err == nil {
			w.WriteHeader(code)
		}
	}))
	return h, nil
}

// received waits for a number of webhooks since the last call, and prints them.
func (r *run) received(ctx context.Context, c *call) ([]Answer, error) {
	n, err := strconv.Atoi(c.what)
	if err != nil {
		return nil, err
	}
	end := time.After(untilTime)
	for {
		h := r.hook
		h.mu.Lock()
		got, more := h.got, h.more
		if len(got) >= n {
			h.got = nil
		}
		h.mu.Unlock()
		if len(got) >= n {
			for i := range got {
				got[i] = r.mask(c, got[i])
			}
			slices.Sort(got)
			return []Answer{{Kind: "http", Call: c.label, Text: strings.Join(got, "\n")}}, nil
		}
		select {
		case <-more:
		case <-end:
			return []Answer{{Kind: "http", Call: c.label, Text: fmt.Sprintf("NEVER: %d webhooks, only %d\n", n, len(got))}}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
