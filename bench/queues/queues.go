// Package queues compares Seb's queues with other systems that give each message to one worker: brokers, and
// libraries that keep jobs in a database. Each system is used with its own client, as its documentation
// recommends.
package queues

import (
	"context"
	"time"

	"github.com/sebbroker/seb/bench/peers"
)

// Client is a system with an empty queue, for one run.
type Client interface {
	// Sender opens a connection for a producer. Batches have up to Config.Batch messages.
	Sender(ctx context.Context) (Sender, error)
	// Work runs the workers until ctx ends. It returns nil then.
	Work(ctx context.Context, l Listener) error
	// Processes are those of the client besides this one.
	Processes() []int
	// Close closes all connections.
	Close() error
}

// Sender is used by one goroutine.
type Sender interface {
	// Send returns when the messages are acknowledged. They are valid UTF-8 without characters that JSON
	// escapes.
	Send(ctx context.Context, messages [][]byte) error
}

// Listener is called from any goroutine.
type Listener interface {
	// Begin is called when a worker begins with a message. The time is that of Now.
	Begin(message []byte, at int64)
	// Settled is called when the system has accepted that n messages are done.
	Settled(n int)
}

// Config describes a run to a client.
type Config struct {
	Name    string // of the queue; new for each run
	Batch   int    // messages that are sent together, and that a worker gets and settles together
	Workers int
	Senders int
	Peer    *peers.Peer
	Cache   string // folder for what the client installs
}

// target returns the address of the peer for a driver, with its options.
func (c *Config) target(driver string) peers.Target {
	for _, t := range c.Peer.Targets {
		if t.Driver == driver {
			return t
		}
	}
	panic("peer " + c.Peer.Name + " has no address for " + driver)
}

// Now is the clock of all clients, also of those in other processes: nanoseconds since 1970.
func Now() int64 { return time.Now().UnixNano() }

// system is a compared system.
type system struct {
	label, peer string
	// durable says what has been flushed when a send is answered, and settled when a settlement is.
	durable, settled string
	// flushes is whether strace must show that a send waits for a flush.
	flushes bool
	// only10 is whether Seb is to be better only in CPU time of the server with batches of 10.
	only10 bool
	note   string
	open   func(ctx context.Context, c *Config) (Client, error)
}

// systems are in the order of the tables, those of Seb before all others. The others are compared with the first.
var systems = []system{
	{
		label: "Seb", peer: "seb-fsync", durable: "flushed", settled: "flushed, not counted", flushes: true, open: openSeb(false),
		note: "Go client; a folder as the bucket; Work with 16 functions for each message of a batch, which leases and settles for all of them",
	},
	{
		label: "Seb, each worker alone", peer: "seb-fsync", durable: "flushed", settled: "flushed", flushes: true, open: openSeb(true),
		note: "the same, but each of 16 workers leases and settles its own batch over HTTP",
	},
	{
		label: "Seb over SQS", peer: "seb-fsync", durable: "flushed", settled: "flushed", flushes: true, open: openSebSQS,
		note: "the same over the SQS API in JSON, as ElasticMQ; requests are signed and verified",
	},
	{
		label: "River", peer: "postgres-fsync", durable: "flushed", settled: "flushed", flushes: true, open: openRiver,
		note: "PostgreSQL; InsertManyFast for batches; 16 workers for each message of a batch; FetchCooldown 1 ms, the least, instead of 100 ms",
	},
	{
		label: "procrastinate", peer: "postgres-fsync", durable: "flushed", settled: "flushed, not counted", flushes: true, open: openProcrastinate,
		note: "PostgreSQL; a producer and a worker in Python, which limit the rate; a worker gets one job at a time",
	},
	{label: "ElasticMQ", peer: "elasticmq-file", durable: "in memory", settled: "in memory", open: openElastic, note: "SQS API over HTTP and JSON; its H2 database writes later"},
	{
		label: "RabbitMQ quorum", peer: "rabbitmq-fsync", durable: "flushed", settled: "sent", flushes: true, open: openRabbit,
		note: "publisher confirms; manual acknowledgement; prefetch of a batch",
	},
	{
		label: "NATS JetStream", peer: "nats-fsync", durable: "flushed", settled: "sent", flushes: true, only10: true, open: openNATS(false),
		note: "work queue with sync_interval: always; pull consumer; atomic batches",
	},
	{
		label: "NATS JetStream, double ack", peer: "nats-fsync", durable: "flushed", settled: "confirmed", flushes: true, only10: true, open: openNATS(true),
		note: "the same; a worker waits until its acknowledgements are confirmed",
	},
	{
		label: "Redis Streams", peer: "redis-fsync", durable: "flushed", settled: "flushed", flushes: true, only10: true, open: openRedis,
		note: "appendfsync always; XADD, XREADGROUP, XACK and XDEL, in pipelines",
	},
}
