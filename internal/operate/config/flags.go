package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// BucketHelp describes the default bucket in the help of --bucket.
const BucketHelp = "seb-bucket next to seb-data; DIR-bucket with --data-dir DIR"

// Register adds a flag for every setting to fs. Parsing fs writes to c; the current values of c are
// the defaults.
func Register(fs *pflag.FlagSet, c *Config) {
	fs.StringVar(&c.Bucket, "bucket", c.Bucket, "object store of the records: ./folder, mem: or s3://name/prefix?endpoint=URL&region=R&path-style=true (default: "+BucketHelp+")")
	fs.StringVar(&c.S3Bucket, "s3-bucket", c.S3Bucket, "short for --bucket s3://NAME")
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "folder for data that can be lost: cache, indexes, result of the store check, generated API key (clients then need the new one)")
	fs.BoolVar(&c.ReadOnly, "read-only", c.ReadOnly, "follow the log and serve reads; write nothing")
	fs.BoolVar(&c.TakeOver, "take-over", c.TakeOver, "lead at the start, although another broker leads (default: stand by, if one is registered in the bucket; lead after a minute without a commit, if it is not reached)")
	fs.BoolVar(&c.HoldUpgrade, "hold-upgrade", c.HoldUpgrade, "keep the format level of an older program's bucket until seb upgrade --finalize (default: the first write 10m after the start raises it)")
	fs.BoolVar(&c.AcceptClock, "accept-clock", c.AcceptClock, "accept the machine's clock although it is behind the log time, or more than 400 days ahead of it (buckets on disk)")
	fs.BoolVar(&c.AutoCreate, "auto-create-topics", c.AutoCreate, "create a topic when the first record is sent to it")
	fs.IntVar(&c.DefaultPartitions, "default-partitions", c.DefaultPartitions, "partition count of a topic that a record creates, or a Kafka client without a count")
	fs.StringVar(&c.EventsTopic, "events-topic", c.EventsTopic, "topic of events from POST /event and seb event")
	fs.StringVar(&c.AuditTopic, "audit-topic", c.AuditTopic, "topic of audit records about changes, denials and failed logins (default none)")
	fs.StringVar(&c.Advertise, "advertise", c.Advertise, "host, host:port or URL at which other brokers and clients reach the HTTP listener (default: the addresses it listens on)")
	fs.Var(&c.MemoryLimit, "memory-limit", "bound on all buffers together")
	fs.DurationVar(&c.ProducerExpiration, "producer-expiration", c.ProducerExpiration, "time for which the log remembers an idempotent producer that writes nothing, as producer.id.expiration.ms of Kafka; a retry after it is stored again")
	fs.DurationVar(&c.TransactionMaxTimeout, "transaction-max-timeout", c.TransactionMaxTimeout, "longest timeout of a transaction that a Kafka client may ask for, as transaction.max.timeout.ms of Kafka; Flink asks for 1h")
	fs.StringVar(&c.Prices, "prices", c.Prices, "price list of seb cost: s3-standard, s3-express, r2, b2, gcs, free, or a JSON file (default: s3-standard for S3 buckets, else free)")
	fs.StringVar(&c.PutBudget, "put-budget", c.PutBudget, "bound on the price of requests that write: dollars such as 20USD/month, PUTs such as 5/s, or off for a fixed batch wait (default for S3 buckets: 52USD/month at the prices of s3-standard)")

	fs.StringVar(&c.HTTP.Address, "http-address", c.HTTP.Address, "address to listen on")
	fs.IntVar(&c.HTTP.Port, "http-port", c.HTTP.Port, "port to listen on, 0 for any")
	fs.Var(&c.HTTP.APIKey, "http-api-key", "API key of requests; prefer $SEB_API_KEY or a file (default: generated at the first start)")
	fs.StringVar(&c.HTTP.APIKeyFile, "http-api-key-file", c.HTTP.APIKeyFile, "file with the API key")
	fs.IntVar(&c.HTTP.Connections, "http-connections", c.HTTP.Connections, "maximum of concurrent HTTP connections; --memory-limit can lower it, which is logged at the start")
	fs.Var(&c.HTTP.Origins, "cors-origin", "origin of web pages that may use the API, such as https://app.example.com; repeat it for several (default none: requests of pages on other hosts are refused)")
	fs.Var(&c.HTTP.Hosts, "http-host", "name of this broker with which /healthz, /readyz, /openapi.json and pprof answer, besides localhost, IP addresses and --advertise; repeat it for several")
	fs.BoolVar(&c.HTTP.SQS, "sqs", c.HTTP.SQS, "serve the SQS API for the queues; false disables it")
	fs.BoolVar(&c.HTTP.Console, "console", c.HTTP.Console, "serve the web console at /console/; false disables it")
	fs.BoolVar(&c.HTTP.OriginalClient, "original-client", c.HTTP.OriginalClient, "on an error, close the connection of a read without an Accept header, because the original client stores error answers as records")

	fs.StringVar(&c.TLS.CertFile, "tls-cert", c.TLS.CertFile, "PEM file with the certificate chain of the listeners, leaf first; reloaded when it changes")
	fs.StringVar(&c.TLS.KeyFile, "tls-key", c.TLS.KeyFile, "PEM file with the certificate's private key")
	fs.StringVar(&c.TLS.Listeners, "tls-listeners", c.TLS.Listeners, "listeners that require TLS if there is a certificate: http, kafka, riemann and riemann-web, with commas between them")

	fs.StringVar(&c.TLS.ClientCA, "tls-client-ca", c.TLS.ClientCA, "PEM file with the authorities of clients' certificates; reloaded when it changes")
	fs.StringVar(&c.TLS.ClientAuth, "tls-client-auth", c.TLS.ClientAuth, "certificates of clients: off, request (clients without one need a key) or require (default: request with --tls-client-ca, else off)")
	fs.StringVar(&c.TLS.PrincipalMapping, "tls-principal-mapping", c.TLS.PrincipalMapping, "rules from the name of a client's certificate to its principal, as ssl.principal.mapping.rules of Kafka: RULE:^CN=([^,+]+).*$/$1/L (required with --tls-client-ca)")
	fs.StringVar(&c.TLS.ClientCRL, "tls-client-crl", c.TLS.ClientCRL, "PEM or DER file with revocation lists of the authorities in --tls-client-ca; reloaded when it changes")

	fs.StringVar(&c.Kafka.Listen, "kafka-listen", c.Kafka.Listen, "Kafka listen address; empty disables it. If the default address is in use, the broker starts without it and retries every 5s")
	fs.StringVar(&c.Kafka.Advertise, "kafka-advertise", c.Kafka.Advertise, "host:port for Kafka clients to connect to (default: the address they connected to)")

	riemannFlags(fs, &c.Riemann)

	fs.StringVar(&c.Webhooks.Targets, "webhook-targets", c.Webhooks.Targets, "private addresses that webhooks may use: prefixes such as 10.0.0.0/8,127.0.0.1 or all (default none)")

	fs.StringVar(&c.Secrets.File, "secrets-key-file", c.Secrets.File, "file of seb secrets init with the key that encrypts the secrets of webhooks in the bucket (default: the systemd credential secrets-key, if there is one)")
	fs.Var(&c.Secrets.Key, "secrets-key", "the same key; prefer $SEB_SECRETS_KEY or a file")

	fs.BoolVar(&c.Pprof.Enable, "http-debug-enable", c.Pprof.Enable, "serve pprof on a separate loopback address")
	fs.StringVar(&c.Pprof.Address, "http-debug-address", c.Pprof.Address, "loopback address of pprof")
	fs.IntVar(&c.Pprof.Port, "http-debug-port", c.Pprof.Port, "port of pprof, 0 for any")

	fs.StringVar(&c.Cache.Dir, "cache-dir", c.Cache.Dir, "folder of the disk cache of remote buckets (default <data-dir>/cache)")
	fs.Var(&c.Cache.Size, "cache-size", "maximum size of the disk cache; 0 disables it")

	fs.Var((*autoDuration)(&c.Batch.WaitTime), "batch-wait-time", "time to collect records for one object; auto is what --put-budget allows on S3, at most 5ms on disk and memory, and none in a journal")
	fs.Var(&c.Batch.BytesSoftMax, "batch-bytes-soft-max", "object size that ends collecting early")

	maintenanceFlags(fs, &c.Maintenance)

	fs.Var((*level)(&c.Log.Level), "log-level", "debug, info, warn or error")
	fs.StringVar(&c.Log.Format, "log-format", c.Log.Format, "text or json")

	ignored(fs)
}

func riemannFlags(fs *pflag.FlagSet, r *Riemann) {
	fs.StringVar(&r.Listen, "riemann-listen", r.Listen, "Riemann listen address, such as 127.0.0.1:5555 (default none)")
	fs.StringVar(&r.UDP, "riemann-udp", r.UDP, "address for datagrams of Riemann clients, such as 127.0.0.1:5555; they get no answer and may be lost (default none)")
	fs.StringVar(&r.Topic, "riemann-topic", r.Topic, "topic of events from Riemann clients")
	fs.StringVar(&r.WebListen, "riemann-web-listen", r.WebListen, "address of riemann-dash's subscriptions to the index of Riemann events, such as 127.0.0.1:5556, for the pages of --cors-origin (default none)")
	fs.StringVar(&r.Ack, "riemann-ack", r.Ack, "when a message is acknowledged: stored (in the bucket) or received (in memory; a crash loses it)")
	fs.DurationVar(&r.Patience, "riemann-patience", r.Patience, "time for which a message waits for memory before it is refused")
	fs.Var(&r.MaxMessage, "riemann-max-message", "largest message, and largest answer to a query; at most an eighth of --memory-limit")
	fs.BoolVar(&r.AllowAnonymous, "riemann-allow-anonymous", r.AllowAnonymous, "allow a Riemann address that is not a loopback address without client certificates: everyone who reaches it writes events, or reads them at --riemann-web-listen")
	fs.Var(&r.Token, "riemann-token", "token of Riemann clients without a certificate, whose rules and quota then apply; prefer $SEB_RIEMANN_TOKEN (default none)")
}

// maintenanceFlags are hidden in --help.
func maintenanceFlags(fs *pflag.FlagSet, l *Maintenance) {
	fs.Var(&l.PackBytes, "pack-bytes", "size of packs")
	fs.DurationVar(&l.PackAge, "pack-age", l.PackAge, "age at which commit objects are merged, however few they are")
	fs.DurationVar(&l.MergeInterval, "merge-interval", l.MergeInterval, "interval of checks whether a pack is due")
	fs.IntVar(&l.SnapshotSlots, "snapshot-slots", l.SnapshotSlots, "commit objects between two snapshots on S3")
	fs.DurationVar(&l.RetentionInterval, "retention-interval", l.RetentionInterval, "interval of checks for expired records")
	for _, name := range []string{"pack-bytes", "pack-age", "merge-interval", "snapshot-slots", "retention-interval"} {
		_ = fs.MarkHidden(name)
	}
}

// ignored registers flags of the original program that have no effect here, so that its command
// lines still start.
func ignored(fs *pflag.FlagSet) {
	fs.Duration("cache-eviction-interval", 5*time.Minute, "")
	fs.Int64("batch-bytes-hard-max", 30<<20, "")
	fs.Int64("batch-records-hard-max", 32768, "")
	for name, why := range map[string]string{
		"cache-eviction-interval": "--cache-size always bounds the cache, so there is no interval",
		"batch-bytes-hard-max":    "the largest request follows from --memory-limit",
		"batch-records-hard-max":  "only the size of an object is limited",
	} {
		_ = fs.MarkDeprecated(name, why)
	}
}

// EnvName returns the environment variable of a flag: SEB_ and the flag's name, or SEB_API_KEY for
// the API keys.
func EnvName(flag string) string {
	switch flag {
	case "http-api-key", "api-key":
		return "SEB_API_KEY"
	}
	return "SEB_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// ResolveDefaults applies defaults that depend on which flags were set. Call it after parsing and
// FromEnv.
func ResolveDefaults(fs *pflag.FlagSet, c *Config) {
	c.Kafka.Optional = !fs.Changed("kafka-listen")
}

// mustNotBeEmpty are the flags that name the bucket.
var mustNotBeEmpty = map[string]bool{"bucket": true, "s3-bucket": true}

// FromEnv sets every flag of fs that the command line did not set from the environment (lookup is
// os.LookupEnv). An empty variable counts as not set, except one that names the bucket: no broker
// is better than a broker on an unintended bucket. It reports all errors at once.
func FromEnv(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var faults []error
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Value.String() == "" && mustNotBeEmpty[f.Name] {
			faults = append(faults, fmt.Errorf("--%s: is empty; set a value, or omit the flag", f.Name))
		}
		if f.Changed || f.Name == "help" {
			return
		}
		v, ok := lookup(EnvName(f.Name))
		if ok && v == "" && mustNotBeEmpty[f.Name] {
			faults = append(faults, fmt.Errorf("$%s: is empty; set a value (--%s), or unset the variable", EnvName(f.Name), f.Name))
		}
		if !ok || v == "" {
			return
		}
		if err := fs.Set(f.Name, v); err != nil {
			faults = append(faults, fmt.Errorf("$%s: %w", EnvName(f.Name), errors.Unwrap(err)))
		}
	})
	return join(faults)
}

// Bytes is a size in bytes: "10485760", "10MiB", "1GiB" (powers of 1024; "10M" and "10MB" mean the
// same). It is a pflag.Value.
type Bytes int64

var sizeUnits = []struct {
	suffix string
	shift  uint
}{{"gib", 30}, {"gb", 30}, {"g", 30}, {"mib", 20}, {"mb", 20}, {"m", 20}, {"kib", 10}, {"kb", 10}, {"k", 10}, {"b", 0}, {"", 0}}

var errSize = errors.New(`want a size such as 10485760, 10MiB or 1GiB`)

// Set parses s.
func (b *Bytes) Set(s string) error {
	low := strings.ToLower(strings.TrimSpace(s))
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(low, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64>>u.shift {
			return errSize
		}
		*b = Bytes(n << u.shift)
		return nil
	}
	return errSize
}

// String returns the size in the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range sizeUnits {
		if u.shift > 0 && b > 0 && b%(1<<u.shift) == 0 {
			return strconv.FormatInt(int64(b)>>u.shift, 10) + map[uint]string{30: "GiB", 20: "MiB", 10: "KiB"}[u.shift]
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Type is the name of the value in help texts.
func (*Bytes) Type() string { return "size" }

// List is a list of texts without commas. It is a pflag.Value: each flag adds to the list, and a
// value may have several texts with commas.
type List string

// Set adds texts.
func (l *List) Set(s string) error {
	if *l != "" {
		s = string(*l) + "," + s
	}
	*l = List(s)
	return nil
}

// List returns the texts without surrounding white space.
func (l List) List() (texts []string) {
	for text := range strings.SplitSeq(string(l), ",") {
		if text = strings.TrimSpace(text); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// String returns the texts with commas.
func (l List) String() string { return strings.Join(l.List(), ",") }

// Type is the name of the value in help texts.
func (*List) Type() string { return "list" }

// level is the flag of a log level: a name, or a number of the original program's flag (3 warn, 4
// info, 5 debug).
type level slog.Level

func (l *level) Set(s string) error {
	switch strings.ToLower(s) {
	case "0", "1", "2", "error":
		*l = level(slog.LevelError)
	case "3", "warn", "warning":
		*l = level(slog.LevelWarn)
	case "4", "info":
		*l = level(slog.LevelInfo)
	case "5", "6", "debug":
		*l = level(slog.LevelDebug)
	default:
		return errors.New("want debug, info, warn or error")
	}
	return nil
}

func (l *level) String() string { return strings.ToLower(slog.Level(*l).String()) }
func (*level) Type() string     { return "level" }

// autoDuration is a duration or "auto" (any negative value).
type autoDuration time.Duration

func (d *autoDuration) Set(s string) error {
	if s == "auto" {
		*d = autoDuration(AutoWait)
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("want a duration such as 250ms, or auto")
	}
	*d = autoDuration(v)
	return nil
}

func (d *autoDuration) String() string {
	if *d < 0 {
		return "auto"
	}
	return time.Duration(*d).String()
}
func (*autoDuration) Type() string { return "duration" }
