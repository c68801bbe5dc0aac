// Package interop runs Kafka clients of other languages against `seb serve`: a real process, a
// bucket on disk with fsync, and kill -9: kcat, confluent-kafka (Python), kafkajs, rskafka, sarama
// and its functional tests, the Java client, Kafka's command line tools, Kafka Streams, Connect and
// MirrorMaker 2. It runs Riemann clients, collectd and syslog-ng. It also runs third-party tools and generated clients of the HTTP API's description.
// Package testenv has the broker and installs the clients.
//
// The tests run with `go run ./test/cmd/interop` and `go run ./test/cmd/openapi`. Otherwise they are
// skipped, because they download packages from Debian, PyPI, npm, Maven Central, Rust crates and Go
// modules.
package interop
