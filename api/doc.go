// Package api defines the HTTP API: JSON bodies, headers, media types and stable error codes. The
// broker writes these types, and package client reads them. docs/guide/http.md describes the
// routes.
//
// /openapi.json is made of these types: the comment of a struct or a field is its description, and a
// comment such as //openapi:maxItems 100 adds a keyword to its schema.
package api
