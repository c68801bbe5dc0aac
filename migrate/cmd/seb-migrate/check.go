package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/migrate/compare"
)

// clusterFlags are the flags of one cluster.
type clusterFlags struct {
	name                             string
	addresses                        []string
	user, passwordFile, mechanism    string
	tls                              bool
	caFile, certificateFile, keyFile string
}

func (c *clusterFlags) register(f *pflag.FlagSet) {
	f.StringSliceVar(&c.addresses, c.name, nil, "addresses of the cluster, such as host:9092,host2:9092")
	f.StringVar(&c.user, c.name+"-user", "", "user name for SASL; of Seb: the ID of a token, or seb for the root API key")
	f.StringVar(&c.passwordFile, c.name+"-password-file", "", "file with the password; of Seb: the token, or the root API key")
	f.StringVar(&c.mechanism, c.name+"-sasl", compare.ScramSHA512, "SASL mechanism: plain, scram-sha-256 or scram-sha-512")
	f.BoolVar(&c.tls, c.name+"-tls", false, "use TLS; the system's certificate authorities are trusted")
	f.StringVar(&c.caFile, c.name+"-ca-file", "", "file with the certificate authorities to trust instead (PEM); uses TLS")
	f.StringVar(&c.certificateFile, c.name+"-cert-file", "", "file with a client certificate (PEM); uses TLS")
	f.StringVar(&c.keyFile, c.name+"-key-file", "", "file with the key of the client certificate (PEM)")
}

// cluster reads the files of the flags.
func (c *clusterFlags) cluster() (compare.Cluster, error) {
	cluster := compare.Cluster{Addresses: c.addresses, User: c.user, Mechanism: c.mechanism}
	if (c.user == "") != (c.passwordFile == "") {
		return cluster, fmt.Errorf("--%s-user and --%s-password-file are needed together", c.name, c.name)
	}
	if (c.certificateFile == "") != (c.keyFile == "") {
		return cluster, fmt.Errorf("--%s-cert-file and --%s-key-file are needed together", c.name, c.name)
	}
	if c.passwordFile != "" {
		text, err := os.ReadFile(c.passwordFile)
		if err != nil {
			return cluster, fmt.Errorf("--%s-password-file: %w", c.name, err)
		}
		cluster.Password = strings.TrimRight(string(text), "\r\n")
	}
	if c.tls || c.caFile != "" || c.certificateFile != "" {
		cluster.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.caFile != "" {
		text, err := os.ReadFile(c.caFile)
		if err != nil {
			return cluster, fmt.Errorf("--%s-ca-file: %w", c.name, err)
		}
		cluster.TLS.RootCAs = x509.NewCertPool()
		if !cluster.TLS.RootCAs.AppendCertsFromPEM(text) {
			return cluster, fmt.Errorf("--%s-ca-file: %s has no certificates", c.name, c.caFile)
		}
	}
	if c.certificateFile != "" {
		pair, err := tls.LoadX509KeyPair(c.certificateFile, c.keyFile)
		if err != nil {
			return cluster, fmt.Errorf("--%s-cert-file: %w", c.name, err)
		}
		cluster.TLS.Certificates = []tls.Certificate{pair}
	}
	return cluster, nil
}

// checkFlags are the flags of check.
type checkFlags struct {
	from, to                                 clusterFlags
	topics, exclude, groups, rename, tempDir string
	ignoreTimestamps, asJSON                 bool
	again                                    int64
}

func newCheck() *cobra.Command {
	c := checkFlags{from: clusterFlags{name: "from"}, to: clusterFlags{name: "to"}}
	cmd := &cobra.Command{
		Use:   "check --from addresses --to addresses",
		Short: "Compare the records and the groups of two clusters",
		Long: `Compares the topics of a cluster with their copies in another one: partitions, number, content and order of the records, and
where consumer groups continue. Stop producers and consumers first, because the clusters are compared as they are at the start.

Records are compared by key, value, headers and timestamp, because offsets of copies differ. Of compacted topics the newest record
of each key counts. Groups are compared by how many records are left, and by the next one.

Exit codes: 0 equal, 1 different, 2 the clusters could not be compared, 130 interrupted.`,
		Example: `  seb migrate check --from localhost:9092 --from-user seb --from-password-file api-key --to kafka:9092
  seb migrate check --from localhost:9092 --to kafka:9092 --topics 'orders|stock' --rename '^=seb.'
  seb migrate check --from kafka:9092 --to localhost:9092 --topics 'seb\..*' --rename '^seb\.=' --again 100`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	c.from.register(f)
	c.to.register(f)
	f.StringVar(&c.topics, "topics", ".*", "topics of --from: a regular expression for the whole name")
	f.StringVar(&c.exclude, "exclude", `^__|^mm2-|\.internal$|^heartbeats$|\.heartbeats$`, "topics to leave out: a regular expression for a part of the name")
	f.StringVar(&c.groups, "groups", ".*", "groups of --from: a regular expression for the whole name")
	f.StringVar(&c.rename, "rename", "", "names at --to: a regular expression, = and its replacement, such as '^=seb.' for a prefix")
	f.BoolVar(&c.ignoreTimestamps, "ignore-timestamps", false, "do not compare timestamps, for topics whose timestamps the target sets")
	f.Int64Var(&c.again, "again", 0, "records that a group may read again, in each partition")
	f.StringVar(&c.tempDir, "temp-dir", "", "folder for the keys of compacted topics, 57 bytes for each record (default: that of the system)")
	f.BoolVar(&c.asJSON, "json", false, "print JSON")
	_ = cmd.MarkFlagRequired("from")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

// options checks the flags.
func (c *checkFlags) options() (o compare.Options, err error) {
	o.IgnoreTimestamps, o.Again, o.TempDir = c.ignoreTimestamps, c.again, c.tempDir
	if o.From, err = c.from.cluster(); err != nil {
		return o, err
	}
	if o.To, err = c.to.cluster(); err != nil {
		return o, err
	}
	if o.Topics, err = regexp.Compile("^(?:" + c.topics + ")$"); err != nil {
		return o, fmt.Errorf("--topics: %w", err)
	}
	if o.Groups, err = regexp.Compile("^(?:" + c.groups + ")$"); err != nil {
		return o, fmt.Errorf("--groups: %w", err)
	}
	if c.exclude != "" {
		if o.Exclude, err = regexp.Compile(c.exclude); err != nil {
			return o, fmt.Errorf("--exclude: %w", err)
		}
	}
	if c.rename == "" {
		return o, nil
	}
	pattern, replacement, ok := strings.Cut(c.rename, "=")
	if !ok {
		return o, fmt.Errorf("--rename %q: want a regular expression, = and its replacement", c.rename)
	}
	from, err := regexp.Compile(pattern)
	if err != nil {
		return o, fmt.Errorf("--rename: %w", err)
	}
	o.Rename = func(name string) string { return from.ReplaceAllString(name, replacement) }
	return o, nil
}

func (c *checkFlags) run(cmd *cobra.Command) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	var bar *progress.Bar
	o.Progress = func(passed, total int64) {
		if bar == nil {
			bar = progress.New(cmd.ErrOrStderr(), "offsets", total, nil)
		}
		bar.Set(passed)
	}
	result, err := compare.Check(cmd.Context(), o)
	bar.Clear()
	if err != nil {
		return err
	}
	if c.asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	} else {
		err = report(cmd.OutOrStdout(), result)
	}
	if err == nil && !result.Equal {
		err = errDifferent
	}
	return err
}
