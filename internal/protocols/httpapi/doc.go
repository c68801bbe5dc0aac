// Package httpapi is the HTTP front end. It turns requests into calls of package broker, and
// results into the bodies and codes of package api. openapi.json.gz, which a test makes of openapi.yaml, the
// routes and package api, describes it and is served at /openapi.json.
//
// Reading order: routes.go lists every route. records_post.go and records_get.go carry data.
// fault.go is the one table from the broker's errors to codes.
//
//	request --> httpconn: slot, head --> key --> route --> memory --> body --> checks --> broker
//	answer  <-- writeError or the route's body           <-- result, error <-------------/
//
// A request reserves memory before its body is read (httpconn.Body). Nothing is submitted before
// the whole body is checked.
//
// A Reading reads a partition for an answer. It fetches from the broker, iterates over the batches,
// and collects records in the encoding of the answer. All memory is reserved before the first byte
// is sent. A request that must not be refused waits for memory at a semaphore instead. Reading sets
// no status except that of success; the caller answers errors.
//
// Evaluator and Triggers answer requests about expressions, triggers and firings. They know the
// trigger engine and not the broker, and leave writing answers and problems to their caller.
package httpapi
