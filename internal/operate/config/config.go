// Package config defines the settings of `seb serve`: plain values, their flags and environment
// variables, and a validation that reports all errors at once. It does no I/O except to find the
// default bucket.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

// Config has all settings of a broker. Start from Default: the zero Config is not valid.
type Config struct {
	// Bucket is the object store: a folder, "mem:" or
	// "s3://name/prefix?endpoint=...&region=...&path-style=true". "" means the DefaultBucket of
	// DataDir.
	Bucket string
	// S3Bucket is the original program's setting: NAME means s3://NAME.
	S3Bucket string
	// DataDir is the folder for data that can be lost: disk cache, key index, generated API key,
	// result of the store check.
	DataDir  string
	ReadOnly bool // follow the log, write nothing
	// TakeOver leads at the start, although another broker leads.
	TakeOver bool
	// HoldUpgrade keeps the format level of a bucket that an older program wrote until `seb upgrade
	// --finalize`.
	HoldUpgrade bool
	// ProducerExpiration is how long an idempotent producer that writes nothing is remembered.
	ProducerExpiration time.Duration
	// TransactionMaxTimeout is the longest timeout of a transaction that a client may ask for.
	TransactionMaxTimeout time.Duration
	// AcceptClock accepts the machine's clock at the start, however far it is from the log time.
	AcceptClock bool
	// AutoCreate creates a topic when the first record is sent to it.
	AutoCreate bool
	// DefaultPartitions is the partition count of a topic that a record creates, or a Kafka client
	// without a count.
	DefaultPartitions int
	// EventsTopic is the topic of events without a topic.
	EventsTopic string
	// AuditTopic is the topic of audit records; "": none.
	AuditTopic string
	// Advertise is the host, host:port or URL at which other brokers reach the HTTP listener, and
	// which a broker that it fences passes to clients as a hint; "": the addresses it listens on.
	Advertise   string
	MemoryLimit Bytes // bound on all buffers together
	// Prices is the price list of GET /cost: a name that package cost knows, or a file. "": that of
	// the kind of bucket.
	Prices string
	// PutBudget limits the price of commit objects: 20USD/month, 5/s or off. "": the default of
	// package cost.
	PutBudget string
	Version   string // of the program, for GET /status

	HTTP        HTTP
	TLS         TLS
	Kafka       Kafka
	Riemann     Riemann
	Webhooks    Webhooks
	Secrets     SecretsKeys
	Pprof       Pprof
	Cache       Cache
	Batch       Batch
	Maintenance Maintenance
	Log         Log
}

// HTTP configures the public listener.
type HTTP struct {
	Address     string
	Port        int // 0: any free port
	APIKey      secrets.Text
	APIKeyFile  string // file with the key; surrounding white space is ignored
	Connections int    // maximum of concurrent connections, if the memory limit allows it
	// Origins are those of web pages on other hosts that may use the API, such as
	// https://app.example.com.
	Origins List
	// Hosts are the names of this broker with which routes without a key, and pprof, answer, besides
	// localhost and IP addresses.
	Hosts List
	// Console enables the web console on the listener.
	Console bool
	// SQS enables the SQS API on the listener.
	SQS bool
	// OriginalClient: requests without an Accept header come from the original program's client,
	// which stores error answers as records.
	OriginalClient bool
}

// TLS configures TLS of the listeners.
type TLS struct {
	// CertFile has the PEM certificate chain, leaf first, and KeyFile its private key. "" for both:
	// no TLS.
	CertFile, KeyFile string
	// Listeners names the listeners with TLS, of TLSListeners, with commas between them.
	Listeners string
	// ClientCA has the authorities of clients' certificates, and ClientCRL the lists of those that
	// they have revoked. "": none.
	ClientCA, ClientCRL string
	// ClientAuth is ClientOff, ClientRequest or ClientRequire. "": ClientRequest if there is a
	// ClientCA.
	ClientAuth string
	// PrincipalMapping maps the names of certificates to principals, with Kafka's rules.
	PrincipalMapping string
}

// What listeners with TLS do about certificates of clients.
const (
	ClientOff     = "off"     // do not ask
	ClientRequest = "request" // ask; serve clients without one by their key
	ClientRequire = "require" // refuse clients without one
)

// Clients reports whether the listeners ask for certificates of clients, and whether they require
// them.
func (t *TLS) Clients() (ask, require bool) {
	return t.ClientCA != "" && t.ClientAuth != ClientOff, t.ClientAuth == ClientRequire
}

// Listeners that support TLS.
const (
	ListenerHTTP       = "http"
	ListenerKafka      = "kafka"
	ListenerRiemann    = "riemann"
	ListenerRiemannWeb = "riemann-web"
)

// TLSListeners has all listeners that support TLS.
var TLSListeners = []string{ListenerHTTP, ListenerKafka, ListenerRiemann, ListenerRiemannWeb}

// On reports whether a listener has TLS.
func (t *TLS) On(listener string) bool {
	return t.CertFile != "" && slices.Contains(t.list(), listener)
}

func (t *TLS) list() []string {
	var names []string
	for name := range strings.SplitSeq(t.Listeners, ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// Kafka configures the listener for Kafka clients.
type Kafka struct {
	Listen string // host:port; port 0: any free port; "": none
	// Advertise is the host:port that the broker gives to clients; "": the address that the client
	// connected to.
	Advertise string
	// Optional is set when Listen is the default. If the address is in use, the broker starts
	// without Kafka and retries.
	Optional bool
}

// KafkaListen is the default of Kafka.Listen.
const KafkaListen = "127.0.0.1:9092"

// Riemann configures the listener for Riemann clients.
type Riemann struct {
	Listen string // host:port; port 0: any free port; "": none
	UDP    string // host:port for datagrams; "": none
	Topic  string // of the events
	// Ack is AckStored or AckReceived: when a message is acknowledged.
	Ack string
	// Patience is the time for which a message waits for memory before it is refused.
	Patience time.Duration
	// MaxMessage bounds a message.
	MaxMessage Bytes
	// AllowAnonymous allows addresses that are not loopback addresses without certificates of
	// clients.
	AllowAnonymous bool
	// WebListen is the host:port of subscriptions to the index for dashboards; port 0: any free
	// port; "": none.
	WebListen string
	// Token is the token of clients without a certificate. "": they act for the broker itself, which
	// writes to Topic and reads the index, and does nothing else for them.
	Token secrets.Text
}

// On reports whether the broker serves Riemann clients, and so has an index of their events.
func (r *Riemann) On() bool { return r.Listen != "" || r.UDP != "" || r.WebListen != "" }

// The values of Riemann.Ack.
const (
	AckStored   = "stored"   // when the events are in the bucket
	AckReceived = "received" // when the broker has them in memory
)

// Webhooks configures the webhooks of triggers.
type Webhooks struct {
	// Targets are the private prefixes and addresses that webhooks may use, separated by commas, or
	// "all".
	Targets string
}

// SecretsKeys are the keys that encrypt the secrets of webhooks in the bucket, in the form of
// secrets.Parse. At most one of both is set.
type SecretsKeys struct {
	Key  secrets.Text
	File string
}

// SecretsCredential is the systemd credential with the keys, which is used if no key is set.
const SecretsCredential = "secrets-key"

// Ring reads the keys; nil if none is set. Errors name the flag.
func (k *SecretsKeys) Ring() (*secrets.Ring, error) {
	text, from := k.Key.Reveal(), "--secrets-key"
	if text == "" {
		file := k.Source()
		if file == "" {
			return nil, nil
		}
		var err error
		if text, err = input.KeyFile(file); err != nil {
			return nil, fmt.Errorf("--secrets-key-file: %w", err)
		}
		from = "--secrets-key-file: " + file
	}
	r, err := secrets.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return r, nil
}

// Source returns the file with the keys; "" if there is none.
func (k *SecretsKeys) Source() string {
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); k.File == "" && k.Key == "" && dir != "" {
		file := filepath.Join(dir, SecretsCredential)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return k.File
}

// Pprof configures the pprof listener. It has no key, so it accepts only loopback addresses.
type Pprof struct {
	Enable  bool
	Address string
	Port    int
}

// Cache configures the disk cache of remote buckets.
type Cache struct {
	Dir  string // "" means the folder "cache" in DataDir
	Size Bytes  // maximum size; 0 disables the cache
}

// Batch configures how records are collected into one object.
type Batch struct {
	// WaitTime is the time that the first record of an object waits for others. A negative value
	// means the store's default (250 ms on S3, 5 ms on disk and memory, none in a journal), 0 disables collecting.
	WaitTime     time.Duration
	BytesSoftMax Bytes // size that ends collecting early
}

// Maintenance controls snapshots, merging and retention. --help hides its flags, because the
// defaults suit almost all brokers: smaller numbers cost more requests, larger ones a longer start
// and more memory.
type Maintenance struct {
	PackBytes         Bytes         // size of packs
	PackAge           time.Duration // age at which commit objects are merged, however few they are
	MergeInterval     time.Duration // interval of checks whether a pack is due
	SnapshotSlots     int           // commit objects between two snapshots on remote stores
	RetentionInterval time.Duration // interval of checks for expired records
}

// Log configures the log output.
type Log struct {
	Level  slog.Level
	Format string // "text" or "json"
}

// AutoWait is the Batch.WaitTime that selects the store's default.
const AutoWait time.Duration = -1

// Default returns the default settings.
func Default() Config {
	return Config{
		DataDir:    "seb-data",
		AutoCreate: true,

		DefaultPartitions: 1, ProducerExpiration: 24 * time.Hour, TransactionMaxTimeout: 15 * time.Minute,

		EventsTopic: "events",
		MemoryLimit: 256 << 20,
		HTTP:        HTTP{Address: "127.0.0.1", Port: 51313, Connections: 100_000, Console: true, SQS: true},
		Kafka:       Kafka{Listen: KafkaListen, Optional: true},
		Riemann:     Riemann{Topic: "riemann", Ack: AckStored, Patience: 4 * time.Second, MaxMessage: 1 << 20},
		TLS:         TLS{Listeners: strings.Join(TLSListeners, ",")},
		Pprof:       Pprof{Address: "127.0.0.1", Port: 5000},
		Cache:       Cache{Size: 1 << 30},
		Batch:       Batch{WaitTime: AutoWait, BytesSoftMax: 10 << 20},
		Maintenance: Maintenance{
			PackBytes: 64 << 20, PackAge: 10 * time.Minute, MergeInterval: time.Minute, SnapshotSlots: 1000,
			RetentionInterval: time.Minute,
		},
		Log: Log{Level: slog.LevelInfo, Format: "text"},
	}
}

// WebhookTargets returns the entries of Webhooks.Targets, unchecked.
func (c *Config) WebhookTargets() []string {
	if strings.TrimSpace(c.Webhooks.Targets) == "" {
		return nil
	}
	return strings.Split(c.Webhooks.Targets, ",")
}

// CacheDir returns the folder of the disk cache.
func (c *Config) CacheDir() string {
	if c.Cache.Dir != "" {
		return c.Cache.Dir
	}
	return filepath.Join(c.DataDir, "cache")
}

// LogValue lists every setting by the name of its flag; secrets are masked.
func (c Config) LogValue() slog.Value {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Register(fs, &c)
	var attrs []slog.Attr
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Deprecated == "" && f.Value.String() != "" {
			attrs = append(attrs, slog.String(f.Name, f.Value.String()))
		}
	})
	return slog.GroupValue(attrs...)
}

// BucketSpec returns the bucket to open: Bucket, else S3Bucket, else the DefaultBucket of DataDir.
func (c *Config) BucketSpec() (string, error) {
	switch {
	case c.Bucket != "":
		return c.Bucket, nil
	case c.S3Bucket != "":
		return "s3://" + c.S3Bucket, nil
	}
	return DefaultBucket(c.DataDir)
}

// DefaultBucket returns the default of --bucket. It is a folder next to the data folder, so that
// the data folder can be deleted: seb-data has seb-bucket, any other folder NAME has NAME-bucket.
// Older versions used the folder "bucket" in the data folder; DefaultBucket returns that one if it
// has files. If both folders have files, the error names both.
func DefaultBucket(dataDir string) (string, error) {
	if dataDir == "" {
		return "", Faults{errors.New("--data-dir: must name a folder")}
	}
	inside, err := isUsed(BucketInside(dataDir))
	if err != nil {
		return "", Faults{fmt.Errorf("--bucket: %w", err)}
	}
	sibling, err := siblingBucket(dataDir)
	both := false
	if err == nil {
		both, err = isUsed(sibling)
	} else if inside {
		err = nil
	}
	switch {
	case err != nil:
		return "", Faults{fmt.Errorf("--bucket: %w", err)}
	case inside && both:
		return "", Faults{fmt.Errorf("--bucket: records may be in %s (the default of older versions) and in %s: name the right one, or move the other one away",
			BucketInside(dataDir), sibling)}
	case inside:
		return "file:" + BucketInside(dataDir), nil
	}
	return "file:" + sibling, nil
}

// BucketInside returns the default bucket of older versions: a folder in the data folder.
func BucketInside(dataDir string) string { return filepath.Join(dataDir, "bucket") }

// MoveHint returns the command that moves the default bucket of older versions to DefaultBucket.
func MoveHint(dataDir string) string {
	sibling, err := siblingBucket(dataDir)
	if err != nil {
		return "name another folder with --bucket"
	}
	return "stop the broker and run: mv " + ShellQuote(BucketInside(dataDir)) + " " + ShellQuote(sibling)
}

// ShellQuote returns s as one word of a shell's command.
func ShellQuote(s string) string {
	special := func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.N) && !strings.ContainsRune("/._-+:@%=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// siblingBucket returns the default bucket of a data folder, which must have a parent.
func siblingBucket(dataDir string) (string, error) {
	dir := filepath.Clean(dataDir)
	if name := filepath.Base(dir); name == "." || name == ".." {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		dir = abs
	}
	parent, name := filepath.Split(dir)
	switch name {
	case "":
		return "", fmt.Errorf("required with --data-dir %s, which has no parent folder", dataDir)
	case filepath.Base(Default().DataDir):
		return parent + "seb-bucket", nil
	}
	return parent + name + "-bucket", nil
}

// isUsed reports whether a folder exists and is not empty. An unreadable folder is an error,
// because its records must not be treated as missing. A link to a missing folder is an error too,
// because its disk may not be mounted.
func isUsed(dir string) (bool, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(dir); err == nil {
			return false, fmt.Errorf("%s is a link to a missing folder", dir)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return len(names) > 0, err
}
