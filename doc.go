// Package seb opens a broker inside your own program: no port, no other process. Its only durable state is the bucket,
// a folder or an S3-compatible object store; everything else can be deleted.
//
// A produce that returns no error is durable. ErrOutcomeUnknown means that the records may appear once, or never; every
// other error of a produce means that they are nowhere and can not appear later.
//
// Only one broker writes to a bucket at a time: the one that was opened last. The one before it finds out at its next
// write, and from then on everything it is asked to write fails with ErrFenced; Done tells.
//
// To talk to a broker in another process use package client.
package seb
