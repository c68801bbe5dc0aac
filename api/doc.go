// Package api is the wire of the HTTP API: the JSON bodies and the stable error codes that the broker's front end
// (package httpapi) writes and clients read. It holds types, tables and constructors of problems, no logic.
package api
