// Package interop runs Kafka clients of other languages against `seb serve`: a real process, a
// bucket on disk with fsync, and kill -9. kcat, confluent-kafka (Python), kafkajs, rskafka and
// sarama are here, and the functional tests of sarama itself. The Java clients are in package java,
// and clients of the HTTP API in package openapi. Package testenv has the broker and installs the
// clients.
//
// The tests run with `go run ./test/cmd/interop`. Otherwise they are skipped, because they download
// packages from Debian, PyPI, npm, Rust crates and Go modules.
package interop
