package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
)

// Faults are all errors of the settings, each starting with the name of its flag.
type Faults []error

// Error returns all errors in one line.
func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the single errors.
func (f Faults) Unwrap() []error { return f }

func join(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return Faults(faults)
}

// MemoryLimitMin is the minimum of --memory-limit: below it the shares of the classes are too
// small.
const MemoryLimitMin Bytes = 16 << 20

// advertiseMax bounds an advertised address: the longest host name, with a scheme and a port.
const advertiseMax = 280

// Validate returns all errors at once, as Faults.
func (c *Config) Validate() error {
	var faults []error
	check := func(ok bool, flag, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("--%s: "+format, append([]any{flag}, args...)...))
		}
	}
	check(c.DataDir != "", "data-dir", "must name a folder")
	check(c.Bucket == "" || c.S3Bucket == "", "s3-bucket", "cannot be combined with --bucket")
	const partitionsMax = 10_000 // per topic
	check(c.DefaultPartitions >= 1 && c.DefaultPartitions <= partitionsMax, "default-partitions", "%d, want 1 to %d", c.DefaultPartitions, partitionsMax)
	check(c.EventsTopic != "", "events-topic", "must name a topic")
	const expirationMin, expirationMax = 10 * time.Minute, 365 * 24 * time.Hour
	check(c.ProducerExpiration >= expirationMin && c.ProducerExpiration <= expirationMax, "producer-expiration", "%v, want %v to %v", c.ProducerExpiration, expirationMin, expirationMax)
	const timeoutMin, timeoutMax = time.Second, 24 * time.Hour
	check(c.TransactionMaxTimeout >= timeoutMin && c.TransactionMaxTimeout <= timeoutMax, "transaction-max-timeout", "%v, want %v to %v", c.TransactionMaxTimeout, timeoutMin, timeoutMax)
	check(len(c.Advertise) <= advertiseMax, "advertise", "%d bytes, the limit is %d", len(c.Advertise), advertiseMax)
	check(c.MemoryLimit >= MemoryLimitMin, "memory-limit", "%v is below the minimum, %v", c.MemoryLimit, MemoryLimitMin)

	check(c.HTTP.Address != "", "http-address", "must not be empty (0.0.0.0 listens everywhere)")
	check(isPort(c.HTTP.Port), "http-port", "%d is not a port (0 to 65535)", c.HTTP.Port)
	check(c.HTTP.Connections > 0, "http-connections", "%d, want at least 1", c.HTTP.Connections)
	check(c.HTTP.APIKey == "" || c.HTTP.APIKeyFile == "", "http-api-key-file", "cannot be combined with --http-api-key")
	for _, origin := range c.HTTP.Origins.List() {
		err := checkOrigin(origin)
		check(err == nil, "cors-origin", "%q: %v", origin, err)
	}
	for _, host := range c.HTTP.Hosts.List() {
		check(!strings.ContainsAny(host, ":/*@[] "), "http-host", "%q, want a host name without a port", host)
	}
	if c.HTTP.APIKey != "" {
		err := CheckAPIKey(c.HTTP.APIKey.Reveal())
		check(err == nil, "http-api-key", "%v", err)
	}

	check(c.TLS.KeyFile != "" || c.TLS.CertFile == "", "tls-key", "required with --tls-cert")
	check(c.TLS.CertFile != "" || c.TLS.KeyFile == "", "tls-cert", "required with --tls-key")
	for _, name := range c.TLS.list() {
		check(slices.Contains(TLSListeners, name), "tls-listeners", "%q, want some of %s, with commas between them", name, strings.Join(TLSListeners, ", "))
	}

	check(slices.Contains([]string{"", ClientOff, ClientRequest, ClientRequire}, c.TLS.ClientAuth), "tls-client-auth", "%q, want %s, %s or %s", c.TLS.ClientAuth, ClientOff, ClientRequest, ClientRequire)
	check(c.TLS.CertFile != "" || c.TLS.ClientCA == "", "tls-client-ca", "requires --tls-cert")
	check(c.TLS.ClientCA != "" || c.TLS.ClientAuth == "" || c.TLS.ClientAuth == ClientOff, "tls-client-auth", "%s requires --tls-client-ca", c.TLS.ClientAuth)
	check(c.TLS.ClientCA != "" || c.TLS.ClientCRL == "", "tls-client-crl", "requires --tls-client-ca")
	check(c.TLS.ClientCA != "" || c.TLS.PrincipalMapping == "", "tls-principal-mapping", "requires --tls-client-ca")

	check(c.Kafka.Listen == "" || isAddress(c.Kafka.Listen, 0), "kafka-listen", "%q, want host:port or nothing", c.Kafka.Listen)
	check(c.Kafka.Advertise == "" || isAddress(c.Kafka.Advertise, 1), "kafka-advertise", "%q, want host:port with a port from 1 to 65535", c.Kafka.Advertise)

	faults = append(faults, c.validateRiemann()...)

	check(c.Secrets.Key == "" || c.Secrets.File == "", "secrets-key-file", "cannot be combined with --secrets-key")

	check(isLoopback(c.Pprof.Address), "http-debug-address", "%q is not a loopback address; pprof has no key", c.Pprof.Address)
	check(isPort(c.Pprof.Port), "http-debug-port", "%d is not a port (0 to 65535)", c.Pprof.Port)

	check(c.Cache.Size >= 0, "cache-size", "must not be negative")
	check(c.Batch.WaitTime <= time.Minute, "batch-wait-time", "%v is above the maximum, 1m", c.Batch.WaitTime)
	check(c.PutBudget == "" || c.PutBudget == "off" || c.Batch.WaitTime < 0, "put-budget", "cannot be combined with --batch-wait-time")
	check(c.Batch.BytesSoftMax >= 4<<10, "batch-bytes-soft-max", "%v is below the minimum, 4KiB", c.Batch.BytesSoftMax)
	const often = 10 * time.Millisecond
	check(c.Maintenance.PackBytes >= 4<<10 && c.Maintenance.PackBytes <= 1<<30, "pack-bytes", "%v, want 4KiB to 1GiB", c.Maintenance.PackBytes)
	check(c.Maintenance.PackAge >= often, "pack-age", "%v is below the minimum, 10ms", c.Maintenance.PackAge)
	check(c.Maintenance.MergeInterval >= often, "merge-interval", "%v is below the minimum, 10ms", c.Maintenance.MergeInterval)
	check(c.Maintenance.SnapshotSlots >= 10, "snapshot-slots", "%d is below the minimum, 10", c.Maintenance.SnapshotSlots)
	check(c.Maintenance.RetentionInterval >= often, "retention-interval", "%v is below the minimum, 10ms", c.Maintenance.RetentionInterval)
	check(c.Log.Format == "text" || c.Log.Format == "json", "log-format", "%q, want text or json", c.Log.Format)
	return join(faults)
}

// validateRiemann returns the faults of the settings of the Riemann listener.
func (c *Config) validateRiemann() (faults []error) {
	check := func(ok bool, flag, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("--%s: "+format, append([]any{flag}, args...)...))
		}
	}
	r := &c.Riemann
	check(r.Listen == "" || isAddress(r.Listen, 0), "riemann-listen", "%q, want host:port or nothing", r.Listen)
	_, certified := c.TLS.Clients()
	if host, _, err := net.SplitHostPort(r.Listen); err == nil {
		check(isLoopback(host) || certified && c.TLS.On(ListenerRiemann) || r.AllowAnonymous, "riemann-listen",
			"%q is not a loopback address, and everyone who reaches it could write events; require client certificates (--tls-client-auth require), or set --riemann-allow-anonymous", r.Listen)
	}
	check(r.UDP == "" || isAddress(r.UDP, 0), "riemann-udp", "%q, want host:port or nothing", r.UDP)
	if host, _, err := net.SplitHostPort(r.UDP); err == nil {
		check(isLoopback(host) || r.AllowAnonymous, "riemann-udp",
			"%q is not a loopback address, and everyone who reaches it could write events; datagrams have no certificates; set --riemann-allow-anonymous", r.UDP)
	}
	check(r.WebListen == "" || isAddress(r.WebListen, 0), "riemann-web-listen", "%q, want host:port or nothing", r.WebListen)
	if host, _, err := net.SplitHostPort(r.WebListen); err == nil {
		check(isLoopback(host) || certified && c.TLS.On(ListenerRiemannWeb) || r.AllowAnonymous, "riemann-web-listen",
			"%q is not a loopback address, and everyone who reaches it could read events; require client certificates (--tls-client-auth require), or set --riemann-allow-anonymous", r.WebListen)
	}
	check(r.Topic != "", "riemann-topic", "must not be empty")
	check(r.Ack == AckStored || r.Ack == AckReceived, "riemann-ack", "%q, want %s or %s", r.Ack, AckStored, AckReceived)
	check(r.Patience >= 0 && r.Patience <= time.Minute, "riemann-patience", "%v, want 0s to 1m", r.Patience)
	check(r.MaxMessage >= 1<<10 && (r.MaxMessage <= c.MemoryLimit/8 || c.MemoryLimit < MemoryLimitMin), "riemann-max-message", "%v, want 1KiB to %v, an eighth of --memory-limit", r.MaxMessage, c.MemoryLimit/8)
	if r.Token != "" {
		_, err := access.ParseToken(r.Token.Reveal())
		check(err == nil, "riemann-token", "%v", err)
	}
	return faults
}

// APIKeyMin is the recommended minimum length of a configured API key. A shorter one starts with a
// warning in this version.
const APIKeyMin = 16

// CheckAPIKey returns an error if a key cannot be sent in a header: it must be printable ASCII
// without spaces.
func CheckAPIKey(key string) error {
	if key == "" {
		return fmt.Errorf("the key is empty")
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return fmt.Errorf("the key has a byte that is not printable ASCII at position %d", i)
		}
	}
	return nil
}

// checkOrigin returns an error if a browser cannot send an origin, or if every page would have it.
func checkOrigin(origin string) error {
	if origin == "*" || origin == "null" {
		return errors.New("every web page could send requests with the key that a browser has; name the origins")
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != strings.ToLower(origin) {
		return errors.New("want scheme://host or scheme://host:port, such as https://app.example.com")
	}
	return nil
}

// isAddress reports whether an address has the form host:port, with a port of least or more. An
// address to listen on may have no host.
func isAddress(address string, least int) bool {
	host, port, err := net.SplitHostPort(address)
	n, bad := strconv.Atoi(port)
	return err == nil && bad == nil && n >= least && isPort(n) && (host != "" || least == 0)
}

func isPort(p int) bool { return p >= 0 && p <= 65535 }

func isLoopback(address string) bool {
	ip := net.ParseIP(address)
	return address == "localhost" || ip != nil && ip.IsLoopback()
}
