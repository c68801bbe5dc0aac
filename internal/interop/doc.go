// Package interop runs Kafka clients of other languages against `seb serve`: a real process, a bucket on disk with fsync, and
// kill -9. kcat, confluent-kafka (Python), kafkajs, rskafka and sarama are here, the Java clients in package java, and clients of the
// HTTP API in package openapi. Package place has the broker, and the folder that clients are installed into.
//
// The tests run with `make interop`; elsewhere they are skipped, as they fetch packages from Debian, PyPI, npm and Rust crates.
package interop
