// Package httpapi is the HTTP front end: it turns requests into calls of package broker and their outcomes into the
// bodies and codes of package api. openapi.yaml describes it and is served at /openapi.json.
//
// Reading order: routes.go lists every route; records_post.go and records_get.go are the two that carry data.
// fault.go is the one table from the broker's errors to codes. A request reserves memory before its body is
// read (httpin.Body), and nothing of it is submitted before all of it has been checked.
//
// The httpread reads partitions for HTTP answers. A Reading asks the broker for what fits, walks the batches that come,
// and collects records in the form of the answer, all in memory that was reserved before, before the first byte is sent.
// Whoever must not be refused waits at a gate for memory instead. It sets no status but that of success: errors are the
// caller's to answer.
//
// The httpdrip answers requests about expressions, such as POST /evaluate, and about triggers and firings. It knows the engine of
// triggers and no broker, and leaves the writing of answers and problems to its caller.
package httpapi
