package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/operate/config"
)

func newACL() *cobra.Command {
	var r remote
	return r.parent(&cobra.Command{
		Use:     "acl",
		Aliases: []string{"acls"},
		Short:   "List, add and remove rules: what tokens and users may do",
		Long: `A rule allows or denies a principal an operation on resources of a type. A denial overrides every permission. Without a rule
nothing is allowed. Rules do not apply to the root key. They are the rules of Kafka's tools; "seb token create" makes common sets.`,
	}, newACLAdd(&r, "allow"), newACLAdd(&r, "deny"), newACLList(&r), newACLRemove(&r))
}

// ruleText describes a rule: allow read on topic orders.*.
func ruleText(r *client.Rule) string {
	verb := "allow"
	if r.Deny {
		verb = "deny"
	}
	text := fmt.Sprintf("%s %s on %s %s", verb, r.Operation, r.Resource, r.Pattern)
	if r.Host != "" && r.Host != "*" {
		text += " from " + r.Host
	}
	return text
}

func newACLAdd(r *remote, verb string) *cobra.Command {
	var host string
	short := map[string]string{"allow": "Allow a principal an operation", "deny": "Deny a principal an operation, whatever other rules allow"}
	cmd := &cobra.Command{
		Use:   verb + " PRINCIPAL OPERATION RESOURCE PATTERN",
		Short: short[verb],
		Long: `PRINCIPAL is the ID of a token, the name of a user, or * for all. OPERATION is all, read, write, create, delete, alter, describe,
describe-configs or alter-configs. RESOURCE is topic, group, trigger, cluster, metrics or transactional-id. PATTERN is a name, the
beginning of names and *, or * for every name; that of the cluster is kafka-cluster, that of metrics is metrics.`,
		Example: "  seb acl " + verb + " shop write topic 'orders.*'\n  seb acl " + verb + " '*' read topic archive --host 192.0.2.7",
		Args:    cobra.ExactArgs(4),
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			rule := client.Rule{Principal: args[0], Operation: args[1], Resource: args[2], Pattern: args[3], Host: host, Deny: verb == "deny"}
			return c.AddRules(cmd.Context(), []client.Rule{rule})
		}),
	}
	cmd.Flags().StringVar(&host, "host", "", "IP address of the client (default any)")
	return cmd
}

// filterFlags select rules.
type filterFlags struct {
	client.RuleFilter
	deny bool
}

func (f *filterFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.Principal, "principal", "", "only rules of this principal")
	s.StringVar(&f.Resource, "resource", "", "only rules about this type: topic, group, trigger, cluster, metrics, transactional-id")
	s.StringVar(&f.Pattern, "pattern", "", "only rules with this pattern")
	s.StringVar(&f.Operation, "operation", "", "only rules about this operation")
	s.StringVar(&f.Host, "host", "", "only rules for this address; * for those of every address")
	s.BoolVar(&f.deny, "deny", false, "only denials; --deny=false: only permissions")
}

func (f *filterFlags) filter(cmd *cobra.Command) client.RuleFilter {
	if cmd.Flags().Changed("deny") {
		f.Deny = &f.deny
	}
	return f.RuleFilter
}

func newACLList(r *remote) *cobra.Command {
	var f filterFlags
	var cmd *cobra.Command
	cmd = newList(r, "rules", func(c *client.Client, ctx context.Context) ([]client.Rule, error) {
		return c.Rules(ctx, f.filter(cmd))
	}, "PRINCIPAL\tRULE", func(rule *client.Rule) []any { return []any{rule.Principal, ruleText(rule)} })
	f.register(cmd)
	return cmd
}

func newACLRemove(r *remote) *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use:     "remove",
		Aliases: []string{"delete", "rm"},
		Short:   "Remove the rules that all flags match, and print them",
		Example: "  seb acl remove --principal shop --resource topic --pattern 'orders.*' --yes",
		Args:    cobra.NoArgs,
	}
	f.register(cmd)
	yes := yesFlag(cmd)
	cmd.RunE = r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
		filter := f.filter(cmd)
		if filter == (client.RuleFilter{}) {
			return usageError{errors.New("at least one flag must select rules")}
		}
		if !*yes {
			rules, err := c.Rules(cmd.Context(), filter)
			if err != nil {
				return err
			}
			if err := confirm(cmd, false, false, "would remove "+counted(int64(len(rules)), "rule")); err != nil {
				return err
			}
		}
		removed, err := c.RemoveRules(cmd.Context(), filter)
		for i := range removed {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", removed[i].Principal, ruleText(&removed[i]))
		}
		return err
	})
	return cmd
}

func newQuota() *cobra.Command {
	var r remote
	return r.parent(&cobra.Command{
		Use:     "quota",
		Aliases: []string{"quotas"},
		Short:   "Set, list and remove quotas: bytes and requests per second of tokens and users",
		Long: `A quota limits what all clients of a principal send and read together on one broker. Over it, HTTP answers 429 with Retry-After
and Kafka clients are throttled. The principal * stands for each one without a quota of its own. The root key has none.`,
	}, newQuotaSet(&r), newQuotaList(&r), newQuotaRemove(&r))
}

func newQuotaSet(r *remote) *cobra.Command {
	var produce, fetch config.Bytes
	var q client.Quota
	cmd := &cobra.Command{
		Use:     "set PRINCIPAL",
		Short:   "Set the quota of a principal, in place of the one that it has",
		Long:    `PRINCIPAL is the ID of a token, the name of a user, or * for all without a quota of their own. A limit without its flag is no limit.`,
		Example: "  seb quota set shop --produce 1MiB --fetch 10MiB --requests 100\n  seb quota set '*' --requests 500",
		Args:    cobra.ExactArgs(1),
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			q.Principal, q.ProduceBytes, q.FetchBytes = args[0], int64(produce), int64(fetch)
			return c.SetQuota(cmd.Context(), q)
		}),
	}
	f := cmd.Flags()
	f.Var(&produce, "produce", "bytes per second of requests with a body, or of Kafka's Produce (e.g. 1MiB)")
	f.Var(&fetch, "fetch", "bytes per second of answers to reads (e.g. 10MiB)")
	f.Int64Var(&q.Requests, "requests", 0, "requests per second")
	return cmd
}

func newQuotaList(r *remote) *cobra.Command {
	return newList(r, "quotas", (*client.Client).Quotas, "PRINCIPAL\tPRODUCE/S\tFETCH/S\tREQUESTS/S", func(q *client.Quota) []any {
		return []any{
			q.Principal, limitText(config.Bytes(q.ProduceBytes).String(), q.ProduceBytes),
			limitText(config.Bytes(q.FetchBytes).String(), q.FetchBytes), limitText(strconv.FormatInt(q.Requests, 10), q.Requests),
		}
	})
}

func limitText(text string, limit int64) string {
	if limit == 0 {
		return "-"
	}
	return text
}

func newQuotaRemove(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove PRINCIPAL",
		Aliases: []string{"delete", "rm"},
		Short:   "Remove the quota of a principal",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return completer(r, (*client.Client).Quotas, func(q *client.Quota) string { return q.Principal })(cmd, args, toComplete)
		},
	}
	return r.deleting(cmd, "would remove the quota of %s", "the quota of %s is removed", (*client.Client).RemoveQuota)
}

func newToken() *cobra.Command {
	var r remote
	return r.parent(&cobra.Command{
		Use:     "token",
		Aliases: []string{"tokens"},
		Short:   "Create, list, rotate and revoke tokens: keys of clients with limited rights",
		Long: `A token is the API key of one client, with the rights that the client needs. It works for HTTP, for the commands
(--api-key, $SEB_API_KEY) and for Kafka clients (user name: the ID; password: the token). Patterns are a name, the beginning of
names and *, or * for every name. Topics of Seb itself, such as firings, need their exact name.`,
	}, newTokenCreate(&r), newTokenList(&r), newTokenShow(&r), newTokenRotate(&r), newTokenAWS(&r), newTokenRevoke(&r))
}

// tokenIDs completes the ID of a token.
func (r *remote) tokenIDs(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return completer(r, (*client.Client).Tokens, func(t *client.Token) string { return t.ID })(cmd, args, toComplete)
}

func newTokenCreate(r *remote) *cobra.Command {
	var spec client.TokenSpec
	var expires string
	cmd := &cobra.Command{
		Use:   "create [ID]",
		Short: "Create a token and print it",
		Long: `Prints the token, which the broker does not store: it cannot be shown again. A token can give only rights that the key of
this command has, and does not outlive that key.`,
		Example: "  seb token create shop --write 'orders.*' --read products\n  seb token create report --read '*' --groups 'report-*' --expires 30d\n  seb token create ann --preset viewer",
		Args:    cobra.MaximumNArgs(1),
	}
	asJSON := jsonFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&spec.Preset, "preset", "", "rights of a person: viewer reads topics, groups, triggers and metrics; operator also writes, resets groups and manages topics and triggers")
	_ = cmd.RegisterFlagCompletionFunc("preset", cobra.FixedCompletions([]string{"viewer", "operator"}, cobra.ShellCompDirectiveNoFileComp))
	f.StringArrayVar(&spec.Read, "read", nil, "pattern of topics to read; repeatable")
	f.StringArrayVar(&spec.Write, "write", nil, "pattern of topics to write; repeatable")
	f.StringArrayVar(&spec.Admin, "admin", nil, "pattern of topics to create, change, trim and delete; repeatable")
	f.StringArrayVar(&spec.Groups, "groups", nil, "pattern of consumer groups to use; repeatable")
	f.StringArrayVar(&spec.Triggers, "triggers", nil, "pattern of triggers to manage; repeatable")
	f.BoolVar(&spec.Metrics, "metrics", false, "read metrics and status")
	f.BoolVar(&spec.Cluster, "cluster", false, "manage tokens, rules, quotas, the format level and the log time")
	f.StringVar(&expires, "expires", "", "end of the token: a duration (e.g. 30d, 12h) or a time (2027-01-31T00:00:00Z) (default never)")
	cmd.RunE = r.action(func(cmd *cobra.Command, c *client.Client, args []string) (err error) {
		if spec.Expires, err = parseEnd(expires, time.Now()); err != nil {
			return usageError{fmt.Errorf("--expires: %w", err)}
		}
		if len(args) > 0 {
			spec.ID = args[0]
		}
		t, err := c.CreateToken(cmd.Context(), spec)
		if err != nil {
			return err
		}
		return printSecret(cmd, *asJSON, &t)
	})
	return cmd
}

// printSecret prints a token to stdout, so that a script can take it, and the rest to stderr.
func printSecret(cmd *cobra.Command, asJSON bool, t *client.CreatedToken) error {
	if !asJSON {
		fmt.Fprintf(cmd.ErrOrStderr(), "token %s: store it now, it is not shown again\n", t.ID)
		if t.Hint != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "hint: %s\n", t.Hint)
		}
	}
	return printOr(cmd.OutOrStdout(), asJSON, t, func(w io.Writer, t *client.CreatedToken) error {
		_, err := fmt.Fprintln(w, t.Secret)
		return err
	})
}

// parseEnd parses a duration from now, which may have days, or a time; "" is the zero time.
func parseEnd(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := input.Time(text); err == nil {
		return t, nil
	}
	d, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("%q, want a duration such as 30d or 12h, or a time such as 2027-01-31T00:00:00Z", text)
	}
	return now.Add(d), nil
}

func newTokenList(r *remote) *cobra.Command {
	return newList(r, "tokens", (*client.Client).Tokens, "TOKEN\tRULES\tSECRETS\tCREATED\tEXPIRES\tLAST USED\tISSUER", func(t *client.Token) []any {
		return []any{t.ID, len(t.Rules), len(t.Secrets), ago(t.Created), ago(t.Expires), ago(t.Used), t.Issuer}
	})
}

func newTokenShow(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{
		Use: "show ID", Short: "Show a token, its secrets' ages and its rules", Args: cobra.ExactArgs(1), ValidArgsFunction: r.tokenIDs,
	}, func(ctx context.Context, c *client.Client, args []string) (client.Token, error) {
		return c.Token(ctx, args[0])
	}, func(w io.Writer, t *client.Token) error {
		tw := aligned(w)
		fmt.Fprintf(tw, "token\t%s\nissuer\t%s\ncreated\t%s\nexpires\t%s\nlast used\t%s\n", t.ID, t.Issuer, ago(t.Created), ago(t.Expires), ago(t.Used))
		for _, s := range t.Secrets {
			fmt.Fprintf(tw, "%s\tcreated %s, expires %s, last used %s\n", s.Kind, ago(s.Created), ago(s.Expires), ago(s.Used))
		}
		for i := range t.Rules {
			fmt.Fprintf(tw, "rule\t%s\n", ruleText(&t.Rules[i]))
		}
		return tw.Flush()
	})
}

func newTokenRotate(r *remote) *cobra.Command {
	overlap := client.DefaultOverlap
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Make a new secret for a token and print it",
		Long: `The previous secret stays valid for --overlap, so that clients can change to the new one. "seb token show" tells when each
was last used.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: r.tokenIDs,
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().DurationVar(&overlap, "overlap", overlap, "time for which the previous secret stays valid; 0 ends it at once")
	cmd.RunE = r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
		t, err := c.RotateToken(cmd.Context(), args[0], overlap)
		if err != nil {
			return err
		}
		return printSecret(cmd, *asJSON, &t)
	})
	return cmd
}

func newTokenAWS(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "aws ID",
		Short: "Print the access key and the secret with which a token uses the SQS API",
		Long: `Prints them as settings of AWS programs. They are those of the newest secret of the token, and are valid as long as that: a
rotation makes new ones, and both are valid until the overlap ends. The broker needs a secrets key ("seb secrets init").`,
		Example: "  seb token aws mailer\n  eval \"$(seb token aws mailer | sed 's/^/export /')\"",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: r.tokenIDs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
		pair, err := c.SigningPair(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printOr(cmd.OutOrStdout(), *asJSON, &pair, func(w io.Writer, p *client.SigningPair) error {
			_, err := fmt.Fprintf(w, "AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\n", p.AccessKeyID, p.SecretAccessKey)
			return err
		})
	})
	return cmd
}

func newTokenRevoke(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Aliases: []string{"delete", "rm"},
		Short:   "Delete a token with its rules, and end its connections",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: r.tokenIDs,
	}
	return r.deleting(cmd, "would delete token %s with its rules, and end its connections", "token %s is revoked", (*client.Client).RevokeToken)
}
