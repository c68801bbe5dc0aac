// Package seb opens a broker inside your own program, without a port or another process. Its only
// durable state is the bucket: a folder or an S3-compatible object store. All other files can be
// deleted.
//
// A produce that returns no error is durable. ErrOutcomeUnknown means that the records may appear
// once, or never. Every other error of a produce means that the records are not stored and cannot
// appear later.
//
// One broker writes to a bucket at a time: the one that was opened last. The earlier broker is
// fenced at its next write. All its writes then fail with ErrFenced, and its Done channel is
// closed.
//
// Package client talks to a broker in another process.
package seb
