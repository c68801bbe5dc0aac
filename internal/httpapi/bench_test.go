package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/api"
)

// exchange sends a request and drops the answer.
func (s *server) exchange(b *testing.B, method, path string, body []byte, header ...string) {
	req, err := http.NewRequest(method, "http://"+s.addr+path, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+canary)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
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

// BenchmarkProduce is a request of 1024 records of 1 KiB, client included, on a store in memory.
func BenchmarkProduce(b *testing.B) {
	s := start(b)
	body, kind := form(values(1024, 1024)...)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		s.exchange(b, "POST", "/records?topic-name=t", []byte(body), "Content-Type", kind)
	}
}

// BenchmarkRead reads 1024 records of 1 KiB, client included.
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
