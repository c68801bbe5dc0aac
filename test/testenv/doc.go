// Package testenv starts the environment of integration tests: programs of this module as child
// processes, a real S3 server (versitygw with a folder as its backend), a proxy that counts its
// requests, and certificates. Programs are installed once, into .cache, under a lock.
//
// The S3 server never calls fsync, so it proves nothing about power failures; it survives being
// killed.
package testenv
