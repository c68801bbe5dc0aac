// Package api is the wire of the HTTP API: its JSON bodies, its headers and media types, and its stable error codes. The
// broker writes these types, and package client reads them. docs/guide/http.md describes the routes.
package api
