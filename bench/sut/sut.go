// Package sut says what a system under test must do to be measured: a broker, a library, or nothing at all (the floor).
// A driver is one package below drivers that registers itself here.
package sut

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Durability is what has happened to a message by the time that its publish is acknowledged.
type Durability string

// The durabilities, the weakest first. Results of unlike ones are never drawn together without saying so.
const (
	None          Durability = "none"           // handed to whoever listens, kept nowhere
	Memory        Durability = "memory"         // in the broker's memory: lost with its process
	PageCache     Durability = "page cache"     // written, not flushed: lost with the machine
	FsyncInterval Durability = "fsync interval" // flushed at intervals: the last of them is lost with the machine
	Fsync         Durability = "fsync"          // flushed to the disk: lost with the disk
	ObjectStore   Durability = "object store"   // stored by an object store: lost with the bucket
)

// Info says what was measured. It goes into the result as it is.
type Info struct {
	System     string            `json:"system"`            // as in "redis streams"
	Version    string            `json:"version,omitempty"` // of the broker, as it says itself
	Client     string            `json:"client,omitempty"`  // module and version of the client library
	Durability Durability        `json:"durability"`
	Ack        string            `json:"ack"`                // what an acknowledgement means, in a sentence
	Settings   map[string]string `json:"settings,omitempty"` // whatever else changes the result; no secrets
	PID        int               `json:"pid,omitempty"`      // of the broker when it is on this machine; its CPU and memory are recorded
}

// Config is what a driver is opened with.
type Config struct {
	// Address is where the broker listens, in the driver's form; "" means its default on loopback.
	Address string
	// Name is fresh for each run: topics, queues, streams and groups that the driver makes carry it.
	Name string
	// Partitions of the topic, where the system has any; at least 1.
	Partitions int
	// PayloadBytes is the largest payload of the run.
	PayloadBytes int
	// Options are the driver's own, by name. Unknown ones are an error (see Config.Only).
	Options map[string]string
	// PID is of the broker, if whoever started it knows.
	PID int
	// Crowd is what to know when several processes use the system together; nil: this one is alone.
	Crowd *Crowd
}

// Crowd is several processes that use a system together under one name. One of them is the host: it sets the system up before
// the others open it, opens no connections to send or receive over, and tears it down when the others are done.
type Crowd struct {
	Host bool
	// PublisherFirst is the number of the first publisher that this process opens, among those of all; the rest follow.
	PublisherFirst int
	// Subscribers are the numbers of those that this process opens, in that order; SubscribersAll is how many all open.
	Subscribers    []int
	SubscribersAll int
	Shared         bool // they share messages
}

// Makes says whether Setup makes topics and queues and Teardown removes them: not in the guests of a crowd, whose Teardown
// closes what they have opened.
func (c *Config) Makes() bool { return c.Crowd == nil || c.Crowd.Host }

// PublisherNumber is the number, among those of all processes, of the publisher that is the n-th to be opened here, from 0.
func (c *Config) PublisherNumber(n int) int {
	if c.Crowd == nil {
		return n
	}
	return c.Crowd.PublisherFirst + n
}

// SubscriberNumber is PublisherNumber for subscribers.
func (c *Config) SubscriberNumber(n int) int {
	if c.Crowd == nil {
		return n
	}
	return c.Crowd.Subscribers[n]
}

// Only returns an error that names the first option that a driver does not know, and those it does.
func (c *Config) Only(known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("option %q: unknown; there are: %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// System is a system under test, ready to be measured. Its methods are called by one goroutine, Setup before all others.
type System interface {
	// Setup makes what a run needs (topics, queues), empty, and says what is measured.
	Setup(ctx context.Context) (Info, error)
	// Publisher opens a connection to send over.
	Publisher(ctx context.Context) (Publisher, error)
	// Subscriber opens a connection that gets messages from now on: what is published after it has returned is received.
	// Several of them each get all messages when shared is false, and share them when it is true.
	Subscriber(ctx context.Context, shared bool) (Subscriber, error)
	// Teardown removes what Setup has made, and closes whatever is open still.
	Teardown(ctx context.Context) error
}

// Publisher sends over one connection, in the order of its calls. It is used by one goroutine.
type Publisher interface {
	// Publish sends a message and does not wait for its acknowledgement; it may wait for the connection to take it, and that
	// time counts. done is called exactly once, from any goroutine, as soon as the acknowledgement is there (err nil) or can
	// not come any more. Systems without acknowledgements call it when the message was handed to the connection, and their
	// Info.Ack says so. payload is the driver's until done was called; key may be nil.
	Publish(ctx context.Context, key, payload []byte, done func(err error))
	// Close waits for what is under way, as long as ctx allows, and closes the connection.
	Close(ctx context.Context) error
}

// Subscriber receives over one connection.
type Subscriber interface {
	// Receive calls f for each message as it arrives, from one goroutine, until ctx ends (it then returns nil) or the
	// connection fails. payload is valid during the call. Messages are acknowledged to the broker where it wants that.
	Receive(ctx context.Context, f func(payload []byte)) error
	// Close closes the connection. Receive has returned.
	Close() error
}

// Driver opens systems of one kind.
type Driver struct {
	Name string                                              // as in `--target redis-streams`
	Doc  string                                              // one line for the list of drivers: address form, options
	Open func(ctx context.Context, c Config) (System, error) // checks the options; connects at Setup or here
	// Inside says that the system is in the generator's process: other processes have another, and there is no Crowd.
	Inside bool
}

var drivers = map[string]Driver{}

// Register adds a driver; it is called by the init of the driver's package. It panics if there is one of the name.
func Register(d Driver) {
	if _, twice := drivers[d.Name]; twice || d.Name == "" || d.Open == nil {
		panic("register driver " + d.Name)
	}
	drivers[d.Name] = d
}

// Drivers are all that are linked in, by name.
func Drivers() []Driver {
	return slices.SortedFunc(maps.Values(drivers), func(a, b Driver) int { return strings.Compare(a.Name, b.Name) })
}

// Inside says whether a driver's system is in the generator's process.
func Inside(driver string) bool { return drivers[driver].Inside }

// ErrNoDriver says that no driver has a name.
var ErrNoDriver = errors.New("no such target")

// Open opens a system by the name of its driver.
func Open(ctx context.Context, driver string, c Config) (System, error) {
	d, ok := drivers[driver]
	if !ok {
		return nil, fmt.Errorf("%w: %q; there are: %s", ErrNoDriver, driver, strings.Join(slices.Sorted(maps.Keys(drivers)), ", "))
	}
	s, err := d.Open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", driver, err)
	}
	return s, nil
}
