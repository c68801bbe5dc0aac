// Package httpconn handles what is common to all HTTP requests before a handler runs: the limit on
// connections (Connections), the API key (Key), parameters (Params), content negotiation
// (Negotiate) and bodies (Body, Small, JSON). ProgressTimeout bounds stalled transfers in both
// directions. DrainGroup ends waits when the server stops. The package does not know the broker.
// Errors are problems of package api that name the parameter, header or member.
package httpconn
