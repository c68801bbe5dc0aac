// Package sut has the interfaces of a system under test: a broker, a library, or nothing at all
// (the floor). The drivers of package drivers register themselves here.
package sut

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Durability is where a message is stored by the time its publish is acknowledged.
type Durability string

// The durabilities, the weakest first. Charts that show results with different durabilities
// together say so.
const (
	None      Durability = "none"       // passed on to the current subscribers, not stored
	Memory    Durability = "memory"     // in the broker's memory: lost with its process
	PageCache Durability = "page cache" // written, not flushed: lost with the machine
	// Flushed at intervals: the messages since the last flush are lost with the machine.
	FsyncInterval Durability = "fsync interval"
	Fsync         Durability = "fsync"        // flushed to the disk: lost with the disk
	ObjectStore   Durability = "object store" // stored by an object store: lost with the bucket
)

// Info describes what was measured. It is copied into the result.
type Info struct {
	System  string `json:"system"`            // such as "redis streams"
	Version string `json:"version,omitempty"` // as reported by the broker
	// Module and version of the client library.
	Client     string     `json:"client,omitempty"`
	Durability Durability `json:"durability"`
	Ack        string     `json:"ack"` // what an acknowledgement means, in a sentence
	// Other settings that affect the result; no secrets.
	Settings map[string]string `json:"settings,omitempty"`
	// Of a broker on this machine; its CPU and memory are recorded.
	PID int `json:"pid,omitempty"`
}

// Config is the configuration that a driver is opened with.
type Config struct {
	// Address is the broker's address in the driver's form; "" is its default on loopback.
	Address string
	// Name is new for each run. The topics, queues, streams and groups that the driver makes have
	// it in their names.
	Name string
	// Partitions is the number of partitions of the topic, at least 1, for systems that have
	// partitions.
	Partitions int
	// PayloadBytes is the largest payload of the run.
	PayloadBytes int
	// Batch is the number of messages that a publisher sends together, if it is above 1: a driver
	// waits for that many calls of Publish, and sends their messages in one request if the system can.
	Batch int
	// Options are the driver's own options, by name. Unknown options are an error.
	Options map[string]string
	// PID is the broker's process id, 0 if unknown.
	PID int
	// Group is set when several processes use the system together; nil for a single process.
	Group *ProcessGroup
}

// ProcessGroup describes several processes that use a system together under one name. One of them
// is the host: it sets up the system before the others open it, opens no publishers and
// subscribers, and tears the system down when the others are done.
type ProcessGroup struct {
	Host bool
	// PublisherFirst is the number, among all processes, of the first publisher that this process
	// opens; the others follow.
	PublisherFirst int
	// Subscribers are the numbers of the subscribers that this process opens, in that order.
	// SubscribersAll is the number of subscribers in all processes.
	Subscribers    []int
	SubscribersAll int
	Shared         bool // the subscribers share messages
}

// Creates reports whether Setup creates topics and queues and Teardown removes them. In the guests of
// a group it does not, and Teardown only closes connections.
func (c *Config) Creates() bool { return c.Group == nil || c.Group.Host }

// PublisherNumber is the number, among all processes, of the n-th publisher opened here, counted
// from 0.
func (c *Config) PublisherNumber(n int) int {
	if c.Group == nil {
		return n
	}
	return c.Group.PublisherFirst + n
}

// SubscriberNumber is PublisherNumber for subscribers.
func (c *Config) SubscriberNumber(n int) int {
	if c.Group == nil {
		return n
	}
	return c.Group.Subscribers[n]
}

// System is a system under test, ready to be measured. Its methods are called by one goroutine,
// Setup before all others.
type System interface {
	// Setup creates what a run needs (topics, queues), empty, and describes what is measured.
	Setup(ctx context.Context) (Info, error)
	// Publisher opens a connection for sending.
	Publisher(ctx context.Context) (Publisher, error)
	// Subscriber opens a connection that receives all messages published after it has returned.
	// With shared false, each subscriber receives all messages; with true, the subscribers share
	// them.
	Subscriber(ctx context.Context, shared bool) (Subscriber, error)
	// Teardown removes what Setup created, and closes everything still open.
	Teardown(ctx context.Context) error
}

// Publisher sends over one connection, in the order of its calls. It is used by one goroutine.
type Publisher interface {
	// Publish sends a message and does not wait for its acknowledgement. It may wait until the
	// connection accepts the message; this time counts. done is called exactly once, from any
	// goroutine, as soon as the acknowledgement has arrived (err is nil) or is no longer possible.
	// Systems without acknowledgements call it when the connection has accepted the message, and
	// their Info.Ack says so. The driver may use payload until it calls done. key may be nil.
	Publish(ctx context.Context, key, payload []byte, done func(err error))
	// Close waits for messages in flight, as long as ctx allows, and closes the connection.
	Close(ctx context.Context) error
}

// Subscriber receives over one connection.
type Subscriber interface {
	// Receive calls f for each message as it arrives, from one goroutine, until ctx ends (then it
	// returns nil) or the connection fails. payload is valid during the call. Receive acknowledges
	// messages to the broker if that is necessary.
	Receive(ctx context.Context, f func(payload []byte)) error
	// Close closes the connection. Receive has returned.
	Close() error
}

// Driver opens systems of one kind.
type Driver struct {
	Name string // as in `--target redis-streams`
	Doc  string // one line for the list of drivers: address form, options
	// Checks the options; connects here or in Setup.
	Open func(ctx context.Context, c Config) (System, error)
	// Inside means that the system is in the generator's process. Other processes have their own,
	// and there is no ProcessGroup.
	Inside bool
}

var drivers = map[string]Driver{}

// Register adds a driver, from an init function. It panics if the name is empty or taken, or without
// Open.
func Register(d Driver) {
	if _, twice := drivers[d.Name]; twice || d.Name == "" || d.Open == nil {
		panic("register driver " + d.Name + ": no name, no Open, or registered twice")
	}
	drivers[d.Name] = d
}

// Drivers returns all drivers in this binary, by name.
func Drivers() []Driver {
	return slices.SortedFunc(maps.Values(drivers), func(a, b Driver) int { return strings.Compare(a.Name, b.Name) })
}

// Inside reports whether a driver's system is in the generator's process.
func Inside(driver string) bool { return drivers[driver].Inside }

// ErrNoDriver is the error for an unknown driver name.
var ErrNoDriver = errors.New("no such driver")

// Open opens a system with the named driver.
func Open(ctx context.Context, driver string, c Config) (System, error) {
	d, ok := drivers[driver]
	if !ok {
		return nil, fmt.Errorf("%w: %q; drivers: %s", ErrNoDriver, driver, strings.Join(slices.Sorted(maps.Keys(drivers)), ", "))
	}
	s, err := d.Open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", driver, err)
	}
	return s, nil
}
