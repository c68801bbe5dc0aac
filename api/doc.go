// Package api defines the HTTP API: JSON bodies, headers, media types and stable error codes. The
// broker writes these types, and package client reads them. docs/guide/http.md describes the
// routes.
package api
