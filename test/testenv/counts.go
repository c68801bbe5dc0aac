package testenv

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// The methods by which requests are counted: those of S3, whatever HTTP calls them.
const (
	Put    = http.MethodPut
	Get    = http.MethodGet
	List   = "LIST"
	Delete = http.MethodDelete // of one name or of many
)

// Request is a kind of request.
type S3Request struct {
	Method string // one of the constants, or what HTTP calls it
	Object string // "wal", "pack", "snap", "view", "meta", "probe", "lifecycle", "many", "other"
}

// Counts are numbers of requests.
type S3Counts map[S3Request]int

// Of is the number of requests of a method, of the objects named, or of all if none is.
func (c S3Counts) Of(method string, objects ...string) (n int) {
	for r, v := range c {
		if r.Method == method && (len(objects) == 0 || slices.Contains(objects, r.Object)) {
			n += v
		}
	}
	return n
}

// Total is the number of all requests.
func (c S3Counts) Total() (n int) {
	for _, v := range c {
		n += v
	}
	return n
}

// Sub gives what came after an earlier reading.
func (c S3Counts) Sub(earlier S3Counts) S3Counts {
	d := S3Counts{}
	for r, v := range c {
		if v -= earlier[r]; v != 0 {
			d[r] = v
		}
	}
	return d
}

// Without leaves out what is about objects.
func (c S3Counts) Without(objects ...string) S3Counts {
	d := S3Counts{}
	for r, v := range c {
		if !slices.Contains(objects, r.Object) {
			d[r] = v
		}
	}
	return d
}

// String lists all, such as "12 GET wal, 3 PUT snap"; "none" if there are none.
func (c S3Counts) String() string {
	if len(c) == 0 {
		return "none"
	}
	kinds := slices.SortedFunc(maps.Keys(c), func(a, b S3Request) int {
		return cmp.Or(cmp.Compare(a.Method, b.Method), cmp.Compare(a.Object, b.Object))
	})
	var parts []string
	for _, k := range kinds {
		parts = append(parts, fmt.Sprintf("%d %s %s", c[k], k.Method, k.Object))
	}
	return strings.Join(parts, ", ")
}
