// Package seb opens a broker inside your own program, without a port or another process. Its only
// durable state is the bucket: a folder or an S3-compatible object store. All other files can be
// deleted.
//
// A produce that returns no error is durable. ErrOutcomeUnknown means that the records may appear
// once, or never. Every other error of a produce means that the records are not stored and cannot
// appear later.
//
// One broker writes to a bucket at a time: the one that was opened last. The earlier broker learns
// that it is fenced by its next write. Writes that it has sent to the bucket by then have an unknown
// outcome, ErrOutcomeUnknown. All later ones fail with ErrFenced, and its Done channel is closed.
//
// Methods of Broker read and write records without a copy. Events, triggers, firings, and all else that
// a broker can do, are the calls of package client: Client returns a client without a network. Handler
// returns the HTTP API for a server of the program.
//
// Package client also talks to a broker in another process.
package seb
