package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/server"
	"github.com/spf13/cobra"
)

// remote is the broker of a command: from flags or the environment, else the local one of a data
// folder.
type remote struct {
	address string
	key     config.Secret
	keyFile string
	caFile  string
	dataDir string
	retry   time.Duration // 0: retryTime
}

const addressDefault = "http://127.0.0.1:51313"

func (r *remote) register(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&r.address, "address", "", "address of the broker, such as http://host:51313 or https://host:51313 (default: the local broker's)")
	f.Var(&r.key, "api-key", "API key of the broker; prefer $SEB_API_KEY (default: the local broker's)")
	f.StringVar(&r.keyFile, "api-key-file", "", "file with the API key")
	f.StringVar(&r.caFile, "ca-file", "", "PEM file with the certificate authorities of a broker at https:// (default: the system's)")
	f.StringVar(&r.dataDir, "data-dir", config.Default().DataDir, "data folder of the local broker")
}

// client returns a client for the broker. It finds the address and the key, and does not connect.
func (r *remote) client(cmd *cobra.Command) (*client.Client, error) {
	if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
		return nil, usageError{err}
	}
	if r.key != "" && r.keyFile != "" {
		return nil, usageError{errors.New("--api-key-file: cannot be combined with --api-key")}
	}
	address, key := r.address, r.key.Reveal()
	if r.keyFile != "" {
		k, err := server.ReadKey(r.keyFile)
		if err != nil {
			return nil, usageError{err}
		}
		key = k
	}
	local, err := server.Discover(r.dataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if address == "" {
		if address = local.Address; address == "" {
			address = addressDefault
		}
	}
	if u, err := url.Parse(address); err == nil && u.Host != "" { // without a possible password
		cmd.SetContext(context.WithValue(cmd.Context(), addressKey{}, u.Scheme+"://"+u.Host))
	}
	own := r.address == "" || r.address == local.Address
	if key == "" && own {
		// Only the local broker gets the local broker's key.
		key = local.APIKey
	}
	o := client.Options{APIKey: key, RetryTime: cmp.Or(r.retry, retryTime)}
	switch {
	case r.caFile != "":
		if o.TLS, err = trustAuthorities(r.caFile); err != nil {
			return nil, usageError{fmt.Errorf("--ca-file: %w", err)}
		}
	case own && local.Certificate != "":
		o.TLS = trustFile(local.Certificate)
	}
	if err := answers(cmd.Context(), address); err != nil {
		return nil, err
	}
	c, err := client.New(address, o)
	if err != nil {
		return nil, usageError{err}
	}
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

// answers returns an error at once if the address refuses connections. The client's retries are for
// a broker that becomes unavailable later; here a person would wait for them.
func answers(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		return nil // the client reports the invalid address
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", u.Host)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	if err == nil {
		_ = c.Close()
	}
	return nil
}

// topicNames completes the name of a topic.
func (r *remote) topicNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	err := r.with(cmd, func(c *client.Client) error {
		topics, err := c.Topics(cmd.Context())
		for _, t := range topics {
			names = append(names, t.Name)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
