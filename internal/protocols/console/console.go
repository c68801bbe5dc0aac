// Package console has the web console: pages for a browser that use the HTTP API of the broker that
// serves them. The sources are in ui, in TypeScript; `make console` bundles them into dist, which is
// part of the program, compressed. Nothing is loaded from elsewhere.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist
var embedded embed.FS

// policy is the Content-Security-Policy: scripts and styles of this broker only, and requests to it.
// No code of the page can turn text into a script. The policy seb-tail of trusted types gives the
// address of the worker of the live tail, whatever it is given.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types seb-tail"

// kinds are the media types of the files.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// bundle has the files of the console by their paths below /console/.
type bundle struct {
	files map[string][]byte
	tag   string // ETag of the page
}

// load reads the embedded files. The page refers to the others in a folder that is named by the
// content, so that browsers may keep them.
var load = sync.OnceValue(func() *bundle {
	files, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic("console: " + err.Error()) // the folder is embedded
	}
	names, err := fs.Glob(files, "*")
	if err != nil {
		panic("console: " + err.Error()) // the pattern is valid
	}
	sum, content := sha256.New(), map[string][]byte{}
	for _, name := range names { // sorted
		b, err := unzipped(files, name)
		if err != nil {
			panic("console: " + name + ": " + err.Error())
		}
		name = strings.TrimSuffix(name, ".gz")
		content[name] = b
		sum.Write([]byte(name))
		sum.Write(b)
	}
	version := hex.EncodeToString(sum.Sum(nil))[:16]
	b := &bundle{files: map[string][]byte{}, tag: strconv.Quote(version)}
	for name, data := range content {
		if name == "index.html" {
			b.files[""] = []byte(strings.ReplaceAll(string(data), "VERSION", version))
			continue
		}
		b.files[version+"/"+name] = data
	}
	return b
})

func unzipped(files fs.FS, name string) ([]byte, error) {
	b, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Serve answers a GET request below /console/ with a file of the console, or returns false if there
// is no such file. The page itself must be asked for again each time; the files that it refers to
// never change. Serve holds no memory of its own besides the page.
func Serve(w http.ResponseWriter, r *http.Request) bool {
	b, name := load(), strings.TrimPrefix(r.URL.Path, "/console/")
	data, ok := b.files[name]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if r.TLS != nil {
		h.Set("Cross-Origin-Opener-Policy", "same-origin") // browsers complain about it over plain HTTP
	}
	h.Set("Content-Security-Policy", policy)
	if name != "" {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Type", kinds[path.Ext(name)])
	} else {
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Type", kinds[".html"])
		h.Set("Etag", b.tag)
		if r.Header.Get("If-None-Match") == b.tag {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return true
	}
	_, err := w.Write(data)
	_ = err // the client has left
	return true
}
