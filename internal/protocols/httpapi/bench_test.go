package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
)

// exchange sends a request and discards the answer.
func (s *server) exchange(b *testing.B, method, path string, body []byte, header ...string) {
	req := must.Get(http.NewRequest(method, "http://"+s.addr+path, bytes.NewReader(body)))(b)
	req.Header.Set("Authorization", "Bearer "+canary)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(s.client.Do(req))(b)
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode >= 300 {
		b.Fatal(resp.StatusCode, err)
	}
}

func values(n, size int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%08d", i) + strings.Repeat("x", size-8)
	}
	return list
}

// BenchmarkProduce sends requests of 1024 records of 1 KiB to a store in memory. It includes the
// client.
func BenchmarkProduce(b *testing.B) {
	s := start(b)
	body, kind := form(values(1024, 1024)...)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		s.exchange(b, "POST", "/records?topic-name=t", []byte(body), "Content-Type", kind)
	}
}

// BenchmarkRead reads 1024 records of 1 KiB. It includes the client.
func BenchmarkRead(b *testing.B) {
	s := start(b)
	for range 16 {
		body, kind := form(values(256, 1024)...)
		s.exchange(b, "POST", "/records?topic-name=t", []byte(body), "Content-Type", kind)
	}
	for _, form := range []string{api.Multipart, api.RecordBatch, api.JSON} {
		b.Run(form, func(b *testing.B) {
			b.SetBytes(1 << 20)
			for b.Loop() {
				s.exchange(b, "GET", "/records?topic-name=t&offset=1024&max-records=1024", nil, "Accept", form)
			}
		})
	}
}

// BenchmarkKey looks up one of 10,000 keys, lists 1,000 of them, and reads a history of 100
// records. It includes the client.
func BenchmarkKey(b *testing.B) {
	s := start(b, func(c *setup) { c.keys = true })
	s.must(201, s.send("PUT", "/topic?topic-name=t", `{"settings":{"key-index":true}}`), nil)
	var body strings.Builder
	for i := range 10_100 {
		fmt.Fprintf(&body, "{\"key\":\"k%05d\",\"value\":\"%0100d\"}\n", max(0, i-100), i)
	}
	s.exchange(b, "POST", "/records?topic-name=t", []byte(body.String()), "Content-Type", api.NDJSON)
	s.must(200, s.get("/keys?topic-name=t&read=latest"), nil)
	for name, path := range map[string]string{
		"get": "/key?topic-name=t&key=k05000", "list": "/keys?topic-name=t&limit=1000&after=k05000", "history": "/key/history?topic-name=t&key=k00000",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.exchange(b, "GET", path, nil, "Accept", api.JSON)
			}
		})
	}
}

// BenchmarkRights compares requests of one record with the root key and with a token that has 1,000
// rules. It includes the client.
func BenchmarkRights(b *testing.B) {
	s := start(b)
	s.exchange(b, "POST", "/records?topic-name=t", []byte("v"), "Content-Type", api.TextPlain)
	for name, key := range map[string]string{"root": canary, "token": s.token("client", time.Time{}, manyRules()...)} {
		b.Run("produce/"+name, func(b *testing.B) {
			for b.Loop() {
				s.exchange(b, "POST", "/records?topic-name=t", []byte("v"), "Content-Type", api.OctetStream, "Authorization", "Bearer "+key)
			}
		})
		b.Run("read/"+name, func(b *testing.B) {
			for b.Loop() {
				s.exchange(b, "GET", "/records?topic-name=t&offset=0&max-records=1", nil, "Accept", api.JSON, "Authorization", "Bearer "+key)
			}
		})
	}
}
