// Package httpapi is the HTTP front end: it turns requests into calls of package broker and their outcomes into the
// bodies and codes of package api. openapi.yaml describes it and is served at /openapi.json.
//
// Reading order: routes.go lists every route; records_post.go and records_get.go are the two that carry data.
// fault.go is the one table from the broker's errors to codes. A request reserves memory before its body is
// read (httpin.Body), and nothing of it is submitted before all of it has been checked.
package httpapi
