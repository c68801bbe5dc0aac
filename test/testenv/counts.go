package testenv

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// The methods for counting requests: those of S3, which may share an HTTP method.
const (
	Put    = http.MethodPut
	Get    = http.MethodGet
	List   = "LIST"
	Delete = http.MethodDelete // of one name or of many
)

// S3Request is a kind of request.
type S3Request struct {
	Method string // one of the constants, or the HTTP method
	Object string // "wal", "pack", "snap", "view", "meta", "peer", "probe", "lifecycle", "many", "other"
}

// S3Counts are numbers of requests by kind.
type S3Counts map[S3Request]int

// Of returns the number of requests of a method for the named objects, or for all without names.
func (c S3Counts) Of(method string, objects ...string) (n int) {
	for r, v := range c {
		if r.Method == method && (len(objects) == 0 || slices.Contains(objects, r.Object)) {
			n += v
		}
	}
	return n
}

// Total returns the number of all requests.
func (c S3Counts) Total() (n int) {
	for _, v := range c {
		n += v
	}
	return n
}

// Sub returns the difference to an earlier reading.
func (c S3Counts) Sub(earlier S3Counts) S3Counts {
	d := S3Counts{}
	for r, v := range c {
		if v -= earlier[r]; v != 0 {
			d[r] = v
		}
	}
	return d
}

// Without omits requests for objects.
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
