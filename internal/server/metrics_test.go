package server_test

import (
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMetricsAreDocumented: docs/reference/metrics.md names the metrics that a broker has, and no others.
func TestMetricsAreDocumented(t *testing.T) {
	s := start(t, settings(t, "mem:"))
	if err := produce(t, connect(t, s)); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.APIKey())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	has := names(string(text), `(?m)^(seb_[a-z_]+)`)
	told := names(string(doc), "`(seb_[a-z_]+)`")
	for name := range told { // those of parts that this broker does not have
		if strings.HasPrefix(name, "seb_cache_") || strings.HasPrefix(name, "seb_tls_certificate_") {
			delete(told, name)
		}
	}
	if len(has) < 50 {
		t.Fatalf("only %d metrics", len(has))
	}
	if a, b := slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(told)); !slices.Equal(a, b) {
		t.Errorf("the broker has\n%q\nthe document\n%q", a, b)
	}
}

// names are the names that an expression finds, histograms without the endings of their series.
func names(text, expression string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		name := m[1]
		for _, end := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, end)
		}
		found[name] = true
	}
	return found
}
