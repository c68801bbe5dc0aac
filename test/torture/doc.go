// Package torture holds tests of a whole broker against a real S3 server: what it asks of the store, and what it does when
// the store fails it. It has no code of its own beside them.
package torture
