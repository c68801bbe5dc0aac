// Package httpread reads partitions for HTTP answers. A Reading asks the broker for what fits, walks the batches that come,
// and collects records in the form of the answer, all in memory that was reserved before, before the first byte is sent.
// Whoever must not be refused waits at a gate for memory instead. It sets no status but that of success: errors are the
// caller's to answer.
package httpread
