// Package torture tests a whole broker against a real S3 server: its requests to the store, and its
// behavior when the store fails. It contains only tests.
package torture
