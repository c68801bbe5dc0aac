package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

// remote is the broker of a command: from flags or the environment, else the local one of a data
// folder.
type remote struct {
	address string
	key     secrets.Text
	keyFile string
	caFile  string
	cert    tlsport.Files // of the client; "" for both: none
	dataDir string
	retry   time.Duration // 0: retryTime
}

const addressDefault = "http://127.0.0.1:51313"

func (r *remote) register(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&r.address, "address", "", "address of the broker, such as http://host:51313 or https://host:51313, or several brokers of one bucket separated by commas (default: the local broker's)")
	f.Var(&r.key, "api-key", "API key of the broker; prefer $SEB_API_KEY (default: the local broker's)")
	f.StringVar(&r.keyFile, "api-key-file", "", "file with the API key")
	f.StringVar(&r.caFile, "ca-file", "", "PEM file with the certificate authorities of a broker at https:// (default: the system's)")
	f.StringVar(&r.cert.Cert, "client-cert", "", "PEM file with the client's certificate chain, for a broker that knows it (--tls-client-ca); no key is needed, and with one the key decides")
	f.StringVar(&r.cert.Key, "client-key", "", "PEM file with the private key of --client-cert")
	f.StringVar(&r.dataDir, "data-dir", config.Default().DataDir, "data folder of the local broker, which must run unless --address is set; with that, only its key counts, if it is the same broker")
}

// client returns a client for the broker. It finds the address and the key. It connects to a broker only
// to find out whether it is the one of the data folder.
func (r *remote) client(cmd *cobra.Command) (*client.Client, error) {
	key, err := r.settings(cmd)
	if err != nil {
		return nil, usageError{err}
	}
	local, err := r.discover()
	if err != nil {
		return nil, err
	}
	return r.open(cmd, key, local)
}

// discover returns the broker of the data folder; its address is "" if there is none.
func (r *remote) discover() (server.Runtime, error) {
	local, err := server.Discover(r.dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return local, err
}

// absent returns the error that no broker runs with the data folder.
func (r *remote) absent(but string) error {
	return fmt.Errorf("no broker runs with data directory %s%s; start one with `seb serve --data-dir %s`, or name a broker with --address",
		r.dataDir, but, config.ShellQuote(r.dataDir))
}

// open returns a client with the key of the settings, for --address or the broker of the data folder.
func (r *remote) open(cmd *cobra.Command, key string, local server.Runtime) (*client.Client, error) {
	address := cmp.Or(r.address, local.Address)
	switch {
	case address == "" && cmd.Flags().Changed("data-dir"): // or $SEB_DATA_DIR
		return nil, r.absent("")
	case address == "":
		address = addressDefault
	}
	if shown := withoutPasswords(address); shown != "" {
		cmd.SetContext(context.WithValue(cmd.Context(), addressKey{}, shown))
	}
	own := address == local.Address
	o := client.Options{APIKey: key, RetryTime: cmp.Or(r.retry, retryTime)}
	if key == "" && own && r.cert == (tlsport.Files{}) {
		// Only the local broker gets the local broker's key, and not instead of a certificate.
		o.APIKey = local.APIKey
	}
	var err error
	switch {
	case r.caFile != "":
		if o.TLS, err = trustAuthorities(r.caFile); err != nil {
			return nil, usageError{fmt.Errorf("--ca-file: %w", err)}
		}
	case own && local.Certificate != "":
		o.TLS = trustFile(local.Certificate)
	}
	if r.cert != (tlsport.Files{}) {
		if o.TLS, err = r.certify(o.TLS, address); err != nil {
			return nil, usageError{err}
		}
	}
	if err := answers(cmd.Context(), address); err != nil {
		return nil, err
	}
	if own && local.Run != "" {
		if run, err := runAt(cmd.Context(), address, o); err != nil || run != local.Run {
			return r.another(cmd, key, local, err)
		}
	}
	c, err := client.New(address, o)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// runAt returns the run of the broker at an address, which may be any: it does not get the key.
func runAt(ctx context.Context, address string, o client.Options) (string, error) {
	o.APIKey = ""
	c, err := client.New(address, o)
	if err != nil {
		return "", err
	}
	defer c.Close()
	h, err := c.Live(ctx)
	return h.Run, err
}

// another is open after another run than that of the data folder has answered at its address, or none
// with an error: a killed broker leaves its address. The broker of the data folder may have started
// meanwhile.
func (r *remote) another(cmd *cobra.Command, key string, was server.Runtime, err error) (*client.Client, error) {
	local, fault := r.discover()
	switch {
	case fault != nil:
		return nil, fault
	case local.Run != was.Run:
		return r.open(cmd, key, local)
	case err != nil:
		return nil, err
	case r.address != "":
		return r.open(cmd, key, server.Runtime{}) // without the key of the data folder
	}
	return nil, r.absent(": another one answers at " + withoutPasswords(was.Address))
}

// settings reads the environment and the file of the key, and returns the key. What the command line
// names takes precedence over what the environment names.
func (r *remote) settings(cmd *cobra.Command) (key string, err error) {
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
		return "", err
	}
	switch {
	case given["data-dir"] && r.address != "" && !given["address"]:
		return "", fmt.Errorf("--data-dir: $%s names another broker, %s; unset it, or set --address", config.EnvName("address"), withoutPasswords(r.address))
	case given["ca-file"] && r.address != "" && !strings.Contains(r.address, "https://"):
		return "", fmt.Errorf("--ca-file: has no effect without https://, the address is %s", withoutPasswords(r.address))
	case r.keyFile == "" || r.key != "" && given["api-key"] && !given["api-key-file"]:
		return r.key.Reveal(), nil
	case r.key != "" && given["api-key"] == given["api-key-file"]:
		return "", errors.New("--api-key-file: cannot be combined with --api-key")
	}
	if key, err = server.ReadKey(r.keyFile); err != nil {
		err = fmt.Errorf("--api-key-file: %w", err)
	}
	return key, err
}

// withoutPasswords returns a list of addresses without possible passwords, or "" if one is invalid.
func withoutPasswords(list string) string {
	var shown []string
	for address := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.Trim(address, " "))
		if err != nil || u.Host == "" {
			return ""
		}
		shown = append(shown, u.Scheme+"://"+u.Host)
	}
	return strings.Join(shown, ", ")
}

// certify returns the configuration with the client's certificate. Each connection reads the files,
// because a short-lived certificate is replaced while seb consume runs.
func (r *remote) certify(c *tls.Config, address string) (*tls.Config, error) {
	switch {
	case r.cert.Cert == "" || r.cert.Key == "":
		return nil, errors.New("--client-cert and --client-key: want both or none")
	case strings.Contains(","+strings.ReplaceAll(address, " ", ""), ",http://") || !strings.HasPrefix(address, "https://"):
		return nil, fmt.Errorf("--client-cert: want a broker at https://, not %s", address)
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(r.cert.Cert, r.cert.Key)
		if err != nil {
			err = fmt.Errorf("--client-cert %s, --client-key %s: %w", r.cert.Cert, r.cert.Key, err)
		}
		return &pair, err
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	c = cmp.Or(c, &tls.Config{})
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return c, nil
}

// addressKey is the context key of the broker's address.
type addressKey struct{}

// withAddress adds the broker's address to a connection error.
func withAddress(ctx context.Context, err error) error {
	address, ok := ctx.Value(addressKey{}).(string)
	var answer *client.Error
	var network net.Error
	if !ok || !errors.As(err, &network) && !(errors.As(err, &answer) && (answer.Status == 0 || answer.Is(client.ErrUnauthorized))) {
		return err
	}
	return fmt.Errorf("broker at %s: %w", address, err)
}

// with runs f with a client.
func (r *remote) with(cmd *cobra.Command, f func(*client.Client) error) error {
	c, err := r.client(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// answers returns an error at once if every address refuses connections. The client's retries are for
// a broker that becomes unavailable later; here a person would wait for them.
func answers(ctx context.Context, list string) (err error) {
	for address := range strings.SplitSeq(list, ",") {
		u, fault := url.Parse(strings.Trim(address, " "))
		if fault != nil || u.Port() == "" {
			return nil // the client reports the invalid address
		}
		var d net.Dialer
		c, fault := d.DialContext(ctx, "tcp", u.Host)
		if fault == nil {
			return c.Close()
		}
		if !errors.Is(fault, syscall.ECONNREFUSED) {
			return nil
		}
		err = cmp.Or(err, fault)
	}
	return err
}

// parent returns a command whose subcommands share its flags for the broker.
func (r *remote) parent(cmd *cobra.Command, sub ...*cobra.Command) *cobra.Command {
	r.register(cmd)
	return family(cmd, sub...)
}

// family returns a command that only has subcommands.
func family(cmd *cobra.Command, sub ...*cobra.Command) *cobra.Command {
	cmd.Args, cmd.RunE = cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(sub...)
	return cmd
}

// action returns a RunE that calls f with a client.
func (r *remote) action(f func(cmd *cobra.Command, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return r.with(cmd, func(c *client.Client) error { return f(cmd, c, args) })
	}
}

// newList returns the command that lists all values of a kind as a table, or as JSON.
func newList[T any](r *remote, kind string, all func(*client.Client, context.Context) ([]T, error), head string, row func(*T) []any) *cobra.Command {
	return newShow(r, &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List all " + kind, Args: cobra.NoArgs},
		func(ctx context.Context, c *client.Client, _ []string) ([]T, error) { return all(c, ctx) },
		func(out io.Writer, list *[]T) error { return printTable(out, head, *list, row) })
}

// newShow sets the action of cmd: get a value, and print it for people or as JSON.
func newShow[T any](r *remote, cmd *cobra.Command, get func(context.Context, *client.Client, []string) (T, error), show func(io.Writer, *T) error) *cobra.Command {
	return r.showing(cmd, func(ctx context.Context, c *client.Client, args []string) (any, func(io.Writer) error, error) {
		v, err := get(ctx, c, args)
		return &v, func(w io.Writer) error { return show(w, &v) }, err
	})
}

// showing sets the action of cmd: get returns a value and the function that prints it for people.
func (r *remote) showing(cmd *cobra.Command, get func(context.Context, *client.Client, []string) (any, func(io.Writer) error, error)) *cobra.Command {
	asJSON := jsonFlag(cmd)
	cmd.RunE = r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
		v, show, err := get(cmd.Context(), c, args)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(cmd.OutOrStdout(), v)
		}
		return show(cmd.OutOrStdout())
	})
	return cmd
}

// jsonFlag adds the flag for JSON instead of text for people.
func jsonFlag(cmd *cobra.Command) *bool { return cmd.Flags().Bool("json", false, "print JSON") }

// printOr prints v with show, or as JSON.
func printOr[T any](w io.Writer, asJSON bool, v *T, show func(io.Writer, *T) error) error {
	if !asJSON {
		return show(w, v)
	}
	return printJSON(w, v)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// completer returns a completion of a command's first argument by the names of all values.
func completer[T any](r *remote, all func(*client.Client, context.Context) ([]T, error), name func(*T) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		err := r.with(cmd, func(c *client.Client) error {
			list, err := all(c, cmd.Context())
			for i := range list {
				names = append(names, name(&list[i]))
			}
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// topicNames completes the name of a topic.
func (r *remote) topicNames(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return completer(r, (*client.Client).Topics, func(t *client.Topic) string { return t.Name })(cmd, args, toComplete)
}

// trustAuthorities trusts only certificates that the authorities in a file have signed.
func trustAuthorities(file string) (*tls.Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s: no certificate", file)
	}
	return &tls.Config{RootCAs: pool}, nil
}

// trustFile trusts only the first certificate of a file, whatever its names: the local broker's
// certificate has the names by which remote clients reach it. Each connection reads the file,
// because the broker reloads it when it changes.
func trustFile(file string) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // VerifyConnection verifies the certificate
		VerifyConnection: func(s tls.ConnectionState) error {
			b, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("certificate of the local broker: %w", err)
			}
			for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
				if block.Type != "CERTIFICATE" {
					continue
				}
				own, err := x509.ParseCertificate(block.Bytes)
				if err == nil && len(s.PeerCertificates) > 0 && own.Equal(s.PeerCertificates[0]) {
					return nil
				}
				break
			}
			return &tls.CertificateVerificationError{
				UnverifiedCertificates: s.PeerCertificates, Err: errors.New("not the certificate of the local broker, " + file),
			}
		},
	}
}
