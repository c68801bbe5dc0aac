package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

func newSecrets() *cobra.Command {
	var r remote
	return r.parent(&cobra.Command{
		Use:   "secrets",
		Short: "Make a key that encrypts the secrets of webhooks in the bucket; show their state",
		Long: `Webhook secrets and header values of triggers are encrypted in the bucket if the broker has a key: seb serve
--secrets-key-file FILE, or $SEB_SECRETS_KEY. The key is never in the bucket.

To change the key, put a new one before the old one in the file, restart the broker, and run seb secrets rewrap.`,
	}, newSecretsInit(), newSecretsStatus(&r), newSecretsRewrap(&r))
}

func newSecretsInit() *cobra.Command {
	return &cobra.Command{
		Use:     "init FILE",
		Short:   "Make a key in a new file that only you can read",
		Example: "  seb secrets init secrets-key\n  seb serve --secrets-key-file secrets-key",
		Args:    cobra.ExactArgs(1),

		Annotations: map[string]string{commandAway: "true"},
		RunE: func(cmd *cobra.Command, args []string) error {
			k := secrets.NewKey()
			if err := writeKey(args[0], k); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "key %s is in %s\n"+
				"Without this key the secrets cannot be read. Keep a copy outside of this machine and outside of the bucket.\n"+
				"Start the broker with: seb serve --secrets-key-file %s\n", k.ID(), args[0], config.ShellQuote(args[0]))
			return nil
		},
	}
}

// writeKey writes a key to a file that does not exist. The key is durable on return.
func writeKey(file string, k *secrets.Key) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: a key is never replaced", file)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "# Seb secrets key %s, made %s\n%s\n", k.ID(), time.Now().UTC().Format(time.DateOnly), k.Reveal())
	return errors.Join(err, f.Sync(), f.Close())
}

func newSecretsStatus(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which triggers have readable secrets, and the keys of the others",
		Args:  cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
		s, err := c.Secrets(cmd.Context())
		if err != nil {
			return err
		}
		if *asJSON {
			return writeLine(cmd.OutOrStdout(), &s)
		}
		w := cmd.OutOrStdout()
		if s.Key == "" {
			fmt.Fprintln(w, "the broker has no key; make one with: seb secrets init FILE")
		} else {
			fmt.Fprintf(w, "the broker encrypts with key %s\n", s.Key)
		}
		fmt.Fprintf(w, "%s with readable secrets\n", counted(int64(s.Readable), "trigger"))
		for _, id := range slices.Sorted(maps.Keys(s.Encrypted)) {
			note := ""
			if !slices.Contains(s.Keys, id) {
				note = ", which the broker does not have: their deliveries wait"
			}
			fmt.Fprintf(w, "%s with key %s%s\n", counted(int64(s.Encrypted[id]), "trigger"), id, note)
		}
		if s.SigningKey != "" {
			fmt.Fprintf(w, "the signing key of the SQS API with key %s\n", s.SigningKey)
		}
		if s.Left > 0 || s.Key != "" && s.SigningKey != "" && s.SigningKey != s.Key {
			fmt.Fprintln(w, "seb secrets rewrap encrypts them with the active key")
		}
		return nil
	})
	return cmd
}

func newSecretsRewrap(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "rewrap",
		Short: "Encrypt all secrets with the first key of the broker's key file",
		Long: `Put the new key before the old one in the key file and restart the broker first. Only the data key of each trigger is encrypted
again. Deliveries continue meanwhile. If the command is interrupted, repeat it. Afterwards remove the old key from the file.`,
		Args: cobra.NoArgs,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			s, err := c.Secrets(cmd.Context())
			if err != nil {
				return err
			}
			bar := progress.New(cmd.ErrOrStderr(), "triggers", int64(s.Left), nil)
			done := 0
			for s.Left > 0 || done == 0 {
				if s, err = c.Rewrap(cmd.Context()); err != nil {
					return err
				}
				if s.Rewrapped == 0 {
					break
				}
				done += s.Rewrapped
				bar.Set(int64(done))
			}
			bar.Clear()
			fmt.Fprintf(cmd.OutOrStdout(), "%s now have key %s\n", counted(int64(done), "trigger"), s.Key)
			if s.Left > 0 {
				return fmt.Errorf("%s with another key could not be changed; see the log of the broker", counted(int64(s.Left), "trigger"))
			}
			return nil
		}),
	}
}
