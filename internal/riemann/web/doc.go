// Package web serves the two subscriptions of riemann-dash to the index of Riemann events:
//
//	GET /index?query=Q                 server-sent events
//	GET /index?subscribe=true&query=Q  WebSocket; without subscribe=true it ends after the index
//
// Each message is an event as JSON: first all in the index that match, then those that come. The
// listener has no keys. It serves web pages of the origins that its options admit.
package web
